"""How the columns of a columnar copy are encoded: as readers decode them fastest.

Arrow's writer gives each column a dictionary until that is full, a mebibyte, and goes on without one. Of a column with
many values the readers then have all the work and none of the gain, so it gets no dictionary.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

MOST_DISTINCT: Final = 4  # a dictionary pays if a value occurs this often, on average
MOST_BITS: Final = 48  # wider differences of whole numbers cost more than they save


def encodings_of(rows: pa.Table) -> dict[str, Any]:
    """Return arguments of Arrow's writer of Parquet: which columns have a dictionary, and encodings of others.

    Parameters
    ----------
    rows : the first row group, taken for what the others are like
    """
    dictionaries: list[str] = []
    encodings: dict[str, str] = {}
    for field, column in zip(rows.schema, rows.columns, strict=True):
        if pa.types.is_nested(field.type):
            dictionaries += _leaves(field.name, field.type)
        elif MOST_DISTINCT * pc.count_distinct(column).as_py() <= len(column) - column.null_count:
            dictionaries.append(field.name)
        elif _is_whole(field.type) and _bits(column) <= MOST_BITS:
            encodings[field.name] = "DELTA_BINARY_PACKED"
    for name in set(dictionaries) & set(encodings):  # a name with dots may be that of a part
        del encodings[name]
    return {"use_dictionary": dictionaries, "column_encoding": encodings or None}


def _leaves(path: str, kind: pa.DataType) -> Iterator[str]:
    """Yield the leaf columns of Parquet below a column."""
    if pa.types.is_struct(kind):
        for part in kind:
            yield from _leaves(f"{path}.{part.name}", part.type)
    elif pa.types.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", kind.key_type)
        yield from _leaves(f"{path}.key_value.value", kind.item_type)
    elif pa.types.is_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    else:
        yield path


def _is_whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date32(kind))


def _bits(column: pa.ChunkedArray) -> int:
    """Return how many bits the distance of the least and the greatest value has."""
    numbers = (column.cast(pa.int32()) if pa.types.is_date32(column.type) else column).cast(pa.int64())
    ends = pc.min_max(numbers).as_py()
    return 0 if ends["min"] is None else int(ends["max"] - ends["min"]).bit_length()
