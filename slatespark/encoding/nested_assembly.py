"""Nested columns to Avro bytes, level by level: what `nested_parts` takes apart is put together here.

The fields of structs and the items of lists and maps are encoded as columns, and the bytes of a level are a column of
the next one. What a column may not hold is left to `nested_encode`, which names it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slatespark.encoding.arrow_columns import flat_column, flat_kind
from slatespark.encoding.avro_resolution import avro_node, without_null
from slatespark.encoding.nested_parts import record_of, repeats_a_key
from slatespark.encoding.without_pandas import numpy_of
from slatespark.kernels import encode_avro
from slatespark.kernels.avro_program import ARRAY, LONG, NOT_NULLABLE, AvroNode, EncodeProgram
from slatespark.kernels.flat import BYTES, INT64, FlatColumn
from slatespark.units import DAY_US

_NANOS_PER_MICRO: Final = 1000

# A list is the number of its items, the items, and a 0: a list without items is the 0 alone.
_LIST: Final = EncodeProgram(None, (AvroNode(LONG), AvroNode(ARRAY), AvroNode(ARRAY)))


def assembled(array: pa.Array, avro_type: Any) -> FlatColumn | None:
    """Return each value as Avro bytes; None if one of them is not allowed.

    Parameters
    ----------
    array : valid array of lists, maps or structs
    avro_type : type of the column in `avro_schema`, without the null of the union
    """
    if not array.null_count:
        return _present(array, avro_type)
    valid = numpy_of(array.is_valid()).astype(np.uint8)
    column = _present(array.drop_null(), avro_type)
    if column is None or column.offsets is None:
        return None
    lengths = np.zeros(len(array), np.int64)
    lengths[valid != 0] = np.diff(column.offsets)
    return FlatColumn(BYTES, column.data, _ends(lengths), valid)


def _present(array: pa.Array, avro_type: Any) -> FlatColumn | None:
    """Return values of which none is null as Avro bytes."""
    kind = array.type
    record, _ = record_of(avro_type, kind)
    if pa.types.is_struct(kind):
        return _records(array, record)
    bounds = numpy_of(array.offsets).astype(np.int64)
    begin, length = int(bounds[0]), int(bounds[-1] - bounds[0])
    bounds -= begin
    items = array.values.slice(begin, length)  # unlike `keys` and `items`, it heeds where the pairs of a map begin
    if not pa.types.is_map(kind):
        items = pa.StructArray.from_arrays([items], ["item"])
    elif avro_type["type"] == "map" and repeats_a_key(bounds, items.field(0)):
        return None
    column = _records(items, record)
    if column is None or column.offsets is None:
        return None
    counts = np.diff(bounds)
    is_filled = counts > 0
    columns = [
        FlatColumn(INT64, counts.view(np.uint8)),
        FlatColumn(BYTES, column.data, column.offsets[bounds]),
        FlatColumn(BYTES, np.zeros(int(np.count_nonzero(is_filled)), np.uint8), _ends(is_filled.astype(np.int64))),
    ]
    return FlatColumn(BYTES, *encode_avro(columns, _LIST, len(counts)))


def _records(array: pa.StructArray, record: Any) -> FlatColumn | None:
    """Return records of which none is null as Avro bytes."""
    columns, nodes = [], []
    for number, field in enumerate(record["fields"]):
        column, node = _column(array.field(number), field["type"]), avro_node(field["type"])
        if column is None or (column.valid is not None and node.null_branch == NOT_NULLABLE):
            return None
        columns.append(column)
        nodes.append(node)
    return FlatColumn(BYTES, *encode_avro(columns, EncodeProgram(None, tuple(nodes)), len(array)))


def _column(array: pa.Array, described: Any) -> FlatColumn | None:
    if flat_kind(array.type) is None:
        return assembled(array, without_null(described)[0])
    column = flat_column(array)
    if not pa.types.is_time64(array.type):
        return column
    nanos = column.data.view(np.int64)
    micros, rest = np.divmod(nanos, _NANOS_PER_MICRO)
    allowed = (rest == 0) & (micros >= 0) & (micros < DAY_US)
    valid = np.True_ if column.valid is None else column.valid != 0
    return FlatColumn(column.kind, micros.view(np.uint8), valid=column.valid) if (allowed | ~valid).all() else None


def _ends(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
