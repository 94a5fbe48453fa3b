"""What rows from outside shall become: the columns of a table, or of one to be created."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from slatespark.errors import SchemaError


@dataclass(frozen=True, slots=True)
class Wanted:
    """What rows of files shall become.

    Attributes
    ----------
    schema : of the table; None if it is to be created, when types are guessed
    types : of columns, instead of guesses
    adds_columns : columns that the table lacks are taken, and columns that rows lack are null
    as_text : bytes are UTF-8 text, not hexadecimal
    null_text : what stands for null in CSV, besides nothing at all
    """

    schema: pa.Schema | None = None
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    adds_columns: bool = False
    as_text: bool = False
    null_text: str | None = None

    def type_of(self, name: str) -> pa.DataType | None:
        """Return the type that a column must have; None where it is to be guessed.

        Raises
        ------
        SchemaError
            When the table has no such column and may get none.
        """
        if name in self.types:
            return self.types[name]
        if self.schema is None:
            return None
        at = self.schema.get_field_index(name)
        if at >= 0:
            return self.schema.field(at).type
        if self.adds_columns:
            return None
        raise SchemaError(
            f"The table has no column {name!r}.",
            todo=f"It has {', '.join(self.schema.names)}; --merge-schema adds columns.",
        )
