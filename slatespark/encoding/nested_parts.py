"""Nested columns from Avro bytes, level by level: items of lists and maps and fields of structs are columns, too.

No Python object is made of a value. Only values that are as their type says are decoded this way, if their writer had
the same type; all others are left to `nested_decode`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slatespark.encoding.arrow_columns import array_of_micros, flat_kind
from slatespark.encoding.avro_resolution import avro_node, plan_decode
from slatespark.kernels import decode_avro_parts, split_avro
from slatespark.kernels.flat import FlatColumn


class NestedParts:
    """Decodes the values of a nested type that were written as that type.

    Parameters
    ----------
    avro_type : the type of the values in Avro, without the null of its union
    kind : a list, map or struct
    """

    def __init__(self, avro_type: Any, kind: pa.DataType) -> None:
        record, fields = record_of(avro_type, kind)
        plan = plan_decode({0: record}, fields, [item.name for item in fields])
        self._kind, self._program = kind, plan.program
        self._item = None if pa.types.is_struct(kind) else avro_node(record)
        self._has_text_keys = pa.types.is_map(kind) and avro_type["type"] == "map"
        self._parts = [
            (item.type, None if flat_kind(item.type) is not None else NestedParts(column.avro_types[0], item.type))
            for item, column in zip(fields, plan.columns, strict=True)
        ]

    def array(self, column: FlatColumn) -> pa.Array | None:
        """Return the values as an array; None if one of them is malformed, or a map repeats a key.

        Requires: a BYTES column.
        """
        assert column.offsets is not None
        bounds = column.offsets.astype(np.int64)
        starts, ends, valid, item_bounds = bounds[:-1], bounds[1:], column.valid, None
        if self._item is not None:
            items = split_avro(column.data, starts, ends, valid, self._item)
            if items.status.any():
                return None
            starts, ends, valid, item_bounds = items.starts, items.ends, None, items.bounds
        columns, status = decode_avro_parts(column.data, starts, ends, valid, self._program)
        if status.any():
            return None
        arrays = []
        for part, (kind, parts) in zip(columns, self._parts, strict=True):
            array = array_of_micros(part, kind) if parts is None else parts.array(part)
            if array is None:
                return None
            arrays.append(array)
        if self._has_text_keys and item_bounds is not None and repeats_a_key(item_bounds, arrays[0]):
            return None
        return self._joined(column, item_bounds, arrays)

    def _joined(self, column: FlatColumn, bounds: NDArray[np.int64] | None, arrays: list[pa.Array]) -> pa.Array:
        """Return the array of these parts; constructors of pyarrow refuse nulls below a null."""
        buffers = [None if column.valid is None else pa.py_buffer(np.packbits(column.valid, bitorder="little"))]
        if bounds is not None:
            buffers.append(pa.py_buffer(bounds.astype(np.int32)))
        if pa.types.is_map(self._kind):
            pairs = pa.struct([self._kind.key_field, self._kind.item_field])
            arrays = [pa.Array.from_buffers(pairs, len(arrays[0]), [None], children=arrays)]
        return pa.Array.from_buffers(self._kind, len(column), buffers, children=arrays)


def record_of(avro_type: Any, kind: pa.DataType) -> tuple[Any, list[pa.Field]]:
    """Return the record that each item of a list or map is, and a struct itself, and its fields."""
    if pa.types.is_struct(kind):
        return avro_type, [kind.field(number) for number in range(kind.num_fields)]
    if pa.types.is_map(kind):
        fields = [kind.key_field.with_name("key"), kind.item_field.with_name("value")]
        if avro_type["type"] == "array":
            return avro_type["items"], fields
        return _record({"key": "string", "value": avro_type["values"]}), fields
    return _record({"item": avro_type["items"]}), [kind.value_field.with_name("item")]


def _record(types: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "fields": [{"name": name, "type": avro_type} for name, avro_type in types.items()]}


def repeats_a_key(bounds: NDArray[np.int64], keys: pa.Array) -> bool:
    """Tell whether a map has a key twice."""
    codes = np.asarray(keys.dictionary_encode().indices, np.int64)
    owners = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    pairs = np.sort(owners * (len(keys) + 1) + codes)
    return bool((pairs[1:] == pairs[:-1]).any())
