"""Columns in layouts that Arrow has kernels for: neither views of text or bytes nor run ends can be filtered.

Views come from Polars and DuckDB, run ends from writers of sorted data, and either may be below a type of an extension.
List views and dictionaries stay as they are, since filtering them takes no element.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from slatespark.encoding import arrow_compute as pc


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type without views and run ends, at any depth but below list views and dictionaries."""
    if kinds.is_string_view(kind):
        return pa.large_string()
    if kinds.is_binary_view(kind):
        return pa.large_binary()
    if kinds.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        storage = plain_type(kind.storage_type)
        return kind if storage == kind.storage_type else storage
    if kinds.is_struct(kind):
        return pa.struct([plain_field(field) for field in kind])
    if kinds.is_map(kind):
        return pa.map_(plain_field(kind.key_field), plain_field(kind.item_field), kind.keys_sorted)
    if kinds.is_large_list(kind):
        return pa.large_list(plain_field(kind.value_field))
    if kinds.is_list(kind):
        return pa.list_(plain_field(kind.value_field))
    if kinds.is_fixed_size_list(kind) and plain_type(kind.value_type) != kind.value_type:
        return pa.list_(plain_field(kind.value_field))
    return kind


def plain_field(field: pa.Field) -> pa.Field:
    """Return a field with a plain type."""
    return field.with_type(plain_type(field.type))


def in_plain_layout(array: pa.Array) -> pa.Array:
    """Return an array as the plain type of its own."""
    return plain_array(array, plain_type(array.type))


def plain_array(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return an array as `kind`, the plain type of its own."""
    if not _has_run_ends(array.type):
        return array if array.type == kind else array.cast(kind)
    if isinstance(array, pa.ExtensionArray):
        return plain_array(array.storage, kind)
    if kinds.is_run_end_encoded(array.type):
        return _without_runs(array, kind)
    if kinds.is_struct(kind):
        parts = [plain_array(array.field(at), part.type) for at, part in enumerate(kind)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=array.is_null())
    if kinds.is_map(kind):
        return _plain_map(array, kind)
    values, offsets = plain_array(pc.list_flatten(array), kind.value_type), _offsets(array)
    if kinds.is_large_list(kind):
        return pa.LargeListArray.from_arrays(offsets, values, type=kind, mask=array.is_null())
    return pa.ListArray.from_arrays(offsets.cast(pa.int32()), values, type=kind, mask=array.is_null())


def _plain_map(array: pa.MapArray, kind: pa.DataType) -> pa.Array:
    """Rebuild a map around its entries; as a list, of which Arrow is able to take them, a cut one has wrong ones."""
    offsets = array.offsets.to_numpy()
    begin, length = int(offsets[0]), int(offsets[-1] - offsets[0])
    keys = plain_array(array.keys.slice(begin, length), kind.key_type)
    items = plain_array(array.items.slice(begin, length), kind.item_type)
    return pa.MapArray.from_arrays(pa.array(offsets - begin), keys, items, type=kind, mask=array.is_null())


def _has_run_ends(kind: pa.DataType) -> bool:
    """Tell whether a type has run ends at a depth where `plain_type` changes them."""
    if isinstance(kind, pa.BaseExtensionType):
        return _has_run_ends(kind.storage_type)
    if kinds.is_struct(kind):
        return any(_has_run_ends(field.type) for field in kind)
    if kinds.is_map(kind):
        return _has_run_ends(kind.key_type) or _has_run_ends(kind.item_type)
    if kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind):
        return _has_run_ends(kind.value_type)
    return bool(kinds.is_run_end_encoded(kind))


def _without_runs(array: pa.RunEndEncodedArray, kind: pa.DataType) -> pa.Array:
    """Return each value as often as its run is long; Arrow's own kernel takes flat types alone."""
    positions = np.arange(array.offset, array.offset + len(array))
    runs = np.searchsorted(array.run_ends.to_numpy(), positions, side="right")
    return plain_array(array.values, kind).take(pa.array(runs))


def _offsets(array: pa.Array) -> pa.Array:
    """Return where the elements of each list begin among those that are visible."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy().astype(np.int64)
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]))
