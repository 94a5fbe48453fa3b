"""Keys of rows in Arrow columns, for calls that take rows to say which keys they are about."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slatespark.encoding.collations import require_byte_order
from slatespark.encoding.exact_cast import cast_column, incompatible, takes_rows
from slatespark.encoding.row_codec import RowCodec
from slatespark.encoding.schema import find_name
from slatespark.encoding.without_pandas import array_of_numpy, numpy_of
from slatespark.errors import SchemaError
from slatespark.texts import listed


def keys_of_rows(rows: pa.Table, codec: RowCodec) -> tuple[pa.Array, NDArray[np.bool_]]:
    """Return the keys of rows as they are stored, and which rows have one: neither a null nor nothing may be a key.

    Requires: the rows have all key columns, of types that can be cast to those of the table.

    Raises
    ------
    SchemaError
        When a value does not fit the type of its column exactly.
    """
    columns: dict[str, pa.ChunkedArray] = {}
    there = np.ones(len(rows), np.bool_)
    takes_nulls = codec.key_format == "tuple"
    for field in codec.key_fields:
        column = cast_column(rows.column(find_name(rows.schema, field.name)), field)
        if column.null_count and not (takes_nulls and field.nullable):
            there &= numpy_of(pc.is_valid(column))
        columns[field.name] = column
    whole = pa.table(columns).filter(array_of_numpy(there))
    data, offsets = codec.encode_keys(whole)
    buffers = [None, pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(data)]
    keys = pa.Array.from_buffers(pa.large_binary(), len(whole), buffers)
    if len(whole) < len(rows):
        indices = np.full(len(rows), -1, np.int64)
        indices[there] = np.arange(len(whole))
        keys = keys.take(array_of_numpy(indices, there))
    return keys, there & (numpy_of(pc.binary_length(keys), 0) > 0)


def check_key_columns(rows: pa.Schema, names: Sequence[str], codec: RowCodec) -> None:
    """Refuse rows without each key column once, or with types that cannot be cast to those of the table, or collated.

    Parameters
    ----------
    rows : the key columns, perhaps among others
    names : names of all columns, for messages

    Raises
    ------
    SchemaError
        Naming the column.
    """
    for field in codec.key_fields:
        given = only_column(rows, field.name, names, called="Key column")
        require_byte_order(given)
        if not takes_rows(field.type, given):
            raise incompatible(field.name, field.type, given.type)


def only_column(rows: pa.Schema, wanted: str, names: Sequence[str], *, called: str) -> pa.Field:
    """Return the only column of this name; case does not matter.

    Parameters
    ----------
    names, called : the names of all columns, and what messages call this one

    Raises
    ------
    SchemaError
        When it is missing, or occurs more than once.
    """
    found = [field for field in rows if field.name.lower() == wanted.lower()]
    if len(found) != 1:
        what = f"occurs {len(found)} times" if found else "is missing"
        raise SchemaError(
            f"{called} {wanted} {what} among {listed(names)}.", todo="Select and rename the columns first."
        )
    return found[0]
