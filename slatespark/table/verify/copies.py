"""Checks columnar copies against their SSTs, value by value. A damaged copy is no damage of the table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slatespark.encoding.row_codec import RowCodec
from slatespark.errors import CorruptDataError, SlateError, UnsupportedFormatError
from slatespark.format.columnar_copy import OpenCopy
from slatespark.format.ulid import Ulid
from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE
from slatespark.storage import ObjectMeta
from slatespark.table.columns.read import fetch_copy
from slatespark.table.columns.write import file_windows
from slatespark.table.definition.versions import fetch_codec
from slatespark.table.read.arrow import CREATE_TS, EXPIRE_TS, METADATA_TYPES, Projection, decode_columns, make_batch
from slatespark.table.read.copies.stored import list_copies
from slatespark.table.read.planning.plan import SstFile
from slatespark.table.stores import OWN_ROOT, TableStores
from slatespark.table.verify.findings import Findings

SECTION: Final = "columnar copy"
_TIMES: Final = {CREATE_TS: HAS_CREATE, EXPIRE_TS: HAS_EXPIRE}


@dataclass(frozen=True, slots=True)
class CopyCheck:
    """Checks the copies of a table.

    Attributes
    ----------
    copies : by id of the SST
    codec : of the table; None if it cannot be told
    """

    stores: TableStores
    findings: Findings
    copies: Mapping[Ulid, ObjectMeta]
    codec: RowCodec | None

    @classmethod
    def of(cls, stores: TableStores, findings: Findings) -> CopyCheck:
        """Return the check of the copies that a table has."""
        copies, codec = list_copies(stores.main), None
        if copies:
            try:
                codec = fetch_codec(stores)
            except SlateError as exc:
                findings.unchecked(stores.url, SECTION, f"Without the definition no copy can be compared: {exc}")
        return cls(stores, findings, copies, codec)

    def check(self, file: SstFile) -> None:
        """Compare the copy of a sound file, if it has one, with the file."""
        meta = self.copies.get(file.id) if file.root == OWN_ROOT else None
        if meta is None or self.codec is None:
            return
        url = f"{self.stores.url}/{meta.path}"
        try:
            copy = fetch_copy(self.stores.main, file.id)
            fault = _find_fault(self.stores, file, copy, self.codec)
        except (CorruptDataError, UnsupportedFormatError) as exc:
            self.findings.error(url, SECTION, exc)
            return
        except SlateError:
            self.findings.unchecked(url, SECTION, "It was garbage-collected during the verification.")
            return
        self.findings.count(meta.size)
        if fault is not None:
            self.findings.damage(url, SECTION, fault)


def _find_fault(stores: TableStores, file: SstFile, copy: OpenCopy, codec: RowCodec) -> str | None:
    """Return how a copy differs from its SST; None if it does not. Columns that have another type now are left out."""
    label, schema = copy.footer.label, copy.footer.schema
    if not label.is_of(file.id, file.info):
        return f"It is not of SST {file.id}, but of {label.sst}."
    known = {**METADATA_TYPES, **{item.name: item.type for item in codec.schema}}
    names = [item.name for item in schema if known.get(item.name) == item.type]
    groups = (copy.read_group(number, names) for number in range(copy.footer.metadata.num_row_groups))
    rows = _Rows(_file_batches(stores, file, names, codec, schema.names))
    done = 0
    for number, group in enumerate(groups):
        expected = rows.take(group.num_rows)
        if expected.num_rows < group.num_rows:
            return f"It has more rows than SST {file.id}."
        for name in names:
            if not _same(_flat(group[name]), _flat(expected[name])):
                return f"Column {name} differs from SST {file.id} in rows {done} to {done + group.num_rows}."
        if label.starts is not None and _first_key(expected, codec) not in (None, label.starts[number]):
            return f"Row group {number} does not start with the key that its label names."
        done += group.num_rows
    return f"It has fewer rows than SST {file.id}." if rows.take(1).num_rows else None


def _first_key(rows: pa.Table, codec: RowCodec) -> bytes | None:
    """Return the key of the first row; None without the key columns."""
    if not set(codec.key_columns) <= set(rows.schema.names):
        return None
    data, offsets = codec.encode_keys(rows.slice(0, 1).select(list(codec.key_columns)))
    return bytes(data[: offsets[1]])


def _file_batches(
    stores: TableStores, file: SstFile, names: Sequence[str], codec: RowCodec, stored: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield columns of a file; raises `CorruptDataError` if a row has a time for which the copy has no column."""
    projection = Projection(tuple(names), codec=codec)
    for window in file_windows(stores, file):
        span = window.indices
        flags = int(np.bitwise_or.reduce(window.rows.flags[window.low : window.high]))
        lost = [name for name, flag in _TIMES.items() if flags & flag and name not in stored]
        if lost or flags & ~(HAS_CREATE | HAS_EXPIRE):
            raise CorruptDataError(f"rows of SST {file.id} have what the copy cannot show: {lost or 'no puts'}.")
        yield make_batch(decode_columns([window.rows], span, names, projection, stores.url), projection)


class _Rows:
    """Takes as many rows as asked for from batches of other sizes."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches, self._left = batches, pa.table({})

    def take(self, count: int) -> pa.Table:
        """Return the next rows; fewer at the end."""
        parts = [self._left] if self._left.num_rows else []
        while sum(part.num_rows for part in parts) < count and (batch := next(self._batches, None)) is not None:
            parts.append(pa.Table.from_batches([batch]))
        found = pa.concat_tables(parts) if parts else self._left
        self._left = found.slice(count)
        return found.slice(0, count)


def _flat(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _same(one: pa.Array, other: pa.Array) -> bool:
    """Tell whether two arrays hold the same values; NaN equals NaN."""
    if one.equals(other):
        return True
    kind = one.type
    if len(one) != len(other) or not one.is_null().equals(other.is_null()):
        return False
    if pa.types.is_floating(kind):
        return bool(
            one.is_nan().equals(other.is_nan()) and one.filter(_number(one)).equals(other.filter(_number(other)))
        )
    if pa.types.is_struct(kind):
        return all(map(_same, one.flatten(), other.flatten()))
    if pa.types.is_map(kind):
        pairs = pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)]))
        return _same(one.cast(pairs), other.cast(pairs))
    if pa.types.is_list(kind):
        lengths = [pc.list_value_length(each) for each in (one, other)]
        return bool(lengths[0].equals(lengths[1])) and _same(one.flatten(), other.flatten())
    return False


def _number(array: pa.Array) -> pa.Array:
    return pc.invert(pc.fill_null(array.is_nan(), True))
