"""The keys of the rows in a columnar copy, as bytes."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from slatespark.encoding.row_codec import RowCodec
from slatespark.encoding.schema import find_misread
from slatespark.errors import CorruptDataError
from slatespark.format.ulid import Ulid
from slatespark.ranges import KeyRange
from slatespark.storage.object_store import ObjectStore
from slatespark.table.columns.read import fetch_copy


def keys_of_copy(store: ObjectStore, sst_id: Ulid, codec: RowCodec) -> Iterator[pa.Array]:
    """Yield the keys of a copy by row group, as large binary, in the order of the file.

    Key columns may have been widened since the copy was written: the bytes of a key are the same before and after.

    Raises
    ------
    CorruptDataError
        When it is damaged, or has not the key columns of the table.
    SnapshotExpiredError
        When it is gone.
    """
    copy, names = fetch_copy(store, sst_id), list(codec.key_columns)
    for item in codec.key_fields:
        position = copy.footer.schema.get_field_index(item.name)
        if position < 0 or not _has_same_keys(copy.footer.schema.field(position).type, item):
            raise CorruptDataError(f"the columnar copy of {sst_id} has no key column {item.name} of {item.type}.")
    for number in range(copy.footer.metadata.num_row_groups):
        rows = copy.read_group(number, names)
        data, offsets = codec.encode_keys(rows)
        yield pa.Array.from_buffers(pa.large_binary(), rows.num_rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _has_same_keys(held: pa.DataType, item: pa.Field) -> bool:
    """Tell whether a key column of a type has the same keys as the table's."""
    return find_misread(pa.schema([item.with_type(held)]), pa.schema([item]), key_columns=[item.name]) is None


def keys_within(found: pa.Array, keys: KeyRange) -> pa.Array:
    """Return the keys that lie in a range."""
    inside = pc.greater_equal(found, pa.scalar(keys.start, pa.large_binary()))
    if keys.end is not None:
        inside = pc.and_(inside, pc.less(found, pa.scalar(keys.end, pa.large_binary())))
    return found.filter(inside)
