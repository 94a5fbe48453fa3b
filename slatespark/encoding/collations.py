"""Collations of Spark: keys are equal, and in order, as their bytes are, so no collated text can be a part of one.

Arrow has no collations. A field of the rows carries that of Spark as metadata, which no table keeps.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.types as kinds

from slatespark.errors import SchemaError

COLLATION: Final = b"slatespark.collation"
BYTE_ORDER: Final = "UTF8_BINARY"  # the collation whose order is that of the stored bytes


def require_byte_order(field: pa.Field, where: str | None = None) -> None:
    """Raise `SchemaError` if rows have text in a key column, or in a part of it, that is collated.

    Parameters
    ----------
    where : names a part of a column; None for a column
    """
    where = where or field.name
    if kinds.is_struct(field.type):
        for part in field.type:
            require_byte_order(part, f"{where}.{part.name}")
    collation = (field.metadata or {}).get(COLLATION)
    if collation is not None:
        raise SchemaError(
            f"Key column {where} is collated {collation.decode()}.",
            why="Keys are equal, and in order, as their bytes are.",
            todo=f"Use a plain STRING: lower({where}) for a key that ignores case, or {where} COLLATE {BYTE_ORDER}.",
        )
