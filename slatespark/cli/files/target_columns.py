"""The columns that input rows are converted to: those of a table, or of one to be created."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from slatespark.encoding.row_codec import RowCodec
from slatespark.encoding.schema import find_name
from slatespark.errors import SchemaError
from slatespark.texts import is_encodable, listed

_INSTANT: Final = pa.timestamp("us", "UTC")
_NOT_STORED: Final = {"opColumn": pa.string(), "ttlColumn": pa.int64(), "expireAtColumn": _INSTANT}


@dataclass(frozen=True, slots=True)
class TargetColumns:
    """The columns that input rows are converted to.

    Attributes
    ----------
    schema : the columns of the table; None for a table to be created, whose types are inferred. Here and in `types`
        names are matched without regard to case
    types : those of columns, instead of inferred ones
    keys : the key columns in lower case, which no row may lack
    adds_columns : whether columns that the table lacks are accepted, and columns that rows lack become null
    deletes : whether all rows are deletions, of which the key suffices
    as_text : whether bytes are UTF-8 text, not hexadecimal
    null_text : text that means null in CSV, besides an empty field
    delimiter : the character between the fields of CSV
    is_new : whether there is no table yet
    """

    schema: pa.Schema | None = None
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    keys: frozenset[str] = frozenset()
    adds_columns: bool = False
    deletes: bool = False
    as_text: bool = False
    null_text: str | None = None
    delimiter: str = ","
    is_new: bool = False

    def type_of(self, name: str) -> pa.DataType | None:
        """Return the type that a column must have; None if it is to be inferred.

        Raises
        ------
        SchemaError
            When the table has no such column and columns are not added, or no table can have it.
        """
        if not is_encodable(name):
            raise SchemaError(f"{name!r} cannot be the name of a column: it is not Unicode text.")
        if name in self.types:
            return self.types[name]
        by_lower = {known.lower(): kind for known, kind in self.types.items()}
        if name.lower() in by_lower:
            return by_lower[name.lower()]
        if self.schema is None:
            return None
        found = find_name(self.schema, name)
        if found is not None:
            return self.schema.field(found).type
        if self.adds_columns:
            return None
        if self.is_new:
            raise SchemaError(
                f"There is no table yet, and one without --key-columns has no column {name!r}.",
                todo=f"Name the key with --key-columns. Without it, the columns are {listed(self.schema.names)}.",
            )
        raise SchemaError(
            f"The table has no column {name!r}.",
            todo=f"It has {listed(self.schema.names)}; --merge-schema adds columns.",
        )


def target_columns(codec: RowCodec, options: Mapping[str, Any], *, adds_columns: bool, as_text: bool) -> TargetColumns:
    """Return the columns of a table, and those that write options name although they are not stored."""
    types = {str(options[name]): kind for name, kind in _NOT_STORED.items() if options.get(name) is not None}
    times = options.get("timestampColumn")
    if times is not None and find_name(codec.schema, str(times)) is None:  # raw tables do not store it
        types[str(times)] = _INSTANT
    keys = frozenset(map(str.lower, codec.key_columns))
    deletes = str(options.get("operation")).strip().lower() == "delete"
    return TargetColumns(codec.schema, types, keys, adds_columns=adds_columns, deletes=deletes, as_text=as_text)
