"""The as-of join: each row of some input with the version of its key that was valid at its time.

The keys of a chunk of rows are looked up with all their versions. The intervals of the versions of a key do not
overlap, so a row has one match at most, and only versions that match have their columns decoded. Work grows with the
input and the versions of its keys, not with the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds
from numpy.typing import NDArray

from slatespark.encoding.instants import check_instant_type, to_ms
from slatespark.encoding.row_codec import RowCodec
from slatespark.encoding.row_keys import check_key_columns, keys_of_rows, only_column
from slatespark.encoding.schema import find_name
from slatespark.errors import HistoryTrimmedError, OptionError, SchemaError
from slatespark.kernels import gather_keys, lower_bounds
from slatespark.options import Call, ReadOptions, option_keys
from slatespark.options.fields import find_other, with_common
from slatespark.table.read.arrow import METADATA_TYPES, decode_columns, make_batch
from slatespark.table.read.batch_cuts import cut_sizes, row_sizes
from slatespark.table.read.merge.validity import Intervals, ValiditySettings, interval_columns
from slatespark.table.read.planning.plan import Layer, plan_points
from slatespark.table.read.scan import split_intervals
from slatespark.table.read.scan_settings import ScanSettings
from slatespark.table.stores import TableStores
from slatespark.units import MAX_MS, time_text

MAX_CHUNK_ROWS: Final = 1 << 16  # joined together: lookups of many keys cost less for each
MAX_CHUNK_BYTES: Final = 16 << 20
MAX_VERSION_BYTES: Final = 64 << 20  # of the versions that rows joined together have found: else fewer rows are

LEFT: Final = "left"
HOWS: Final = (LEFT, "inner")


@dataclass(frozen=True, slots=True)
class AsOfJoin:
    """The plan of an as-of join; the same for all rows, in any process.

    Attributes
    ----------
    settings : settings of the lookups; the projection has the columns that are added
    validity : how the validity of versions is decided
    layers : layers of the snapshot, newest first
    time_column : time column of the rows
    how : `left`, with nulls where there is no version, or `inner`
    split_bytes : keys are looked up in parts that cost about that much
    """

    settings: ScanSettings
    validity: ValiditySettings
    layers: tuple[Layer, ...]
    time_column: str
    how: str
    split_bytes: int

    @property
    def codec(self) -> RowCodec:
        """How rows of the table are stored."""
        return self.settings.projection.codec

    @property
    def added(self) -> pa.Schema:
        """The columns that the join adds."""
        return self.settings.projection.schema


# --- checks -----------------------------------------------------------------------------------------------------------


def added_columns(options: ReadOptions, codec: RowCodec) -> list[str]:
    """Return the names of the columns that a join adds: those of the options, or all but the key.

    Raises
    ------
    OptionError
        When there are none.
    """
    if options.columns is not None:
        return list(options.columns)
    metadata = (name for name in METADATA_TYPES if name[1:] in options.metadata_columns)
    found = [*(field.name for field in codec.value_fields), *metadata]
    if not found:
        raise OptionError("All columns of the table are part of the key.", todo="Name the columns to add with columns.")
    return found


def parse_join(common: Mapping[str, Any], given: Mapping[str, Any], how: str) -> ReadOptions:
    """Return the options of the read of an as-of join.

    Parameters
    ----------
    common : path and storage
    given : the options of the call
    how : the kind of the join

    Raises
    ------
    OptionError
        When one is unknown or malformed, or does not apply to an as-of join.
    """
    if how not in HOWS:
        raise OptionError(f"how: {how!r} is not valid.", todo=f"Choose {' or '.join(HOWS)}.")
    taken = option_keys(ReadOptions, Call.AS_OF_JOIN)
    if (other := find_other(ReadOptions, given, taken, ["how"])) is not None:
        raise OptionError(
            f"asOf: {other} does not apply to an as-of join.",
            why="The rows say which keys and instants are read.",
            todo=f"Use one of {', '.join(taken)}.",
        )
    return ReadOptions.parse({**with_common(common, given), "readVersions": "intervals"})


def check_join_columns(
    rows: pa.Schema, names: Sequence[str], codec: RowCodec, time_column: str, added: Sequence[str]
) -> None:
    """Refuse rows that cannot be joined; raises `SchemaError`.

    Parameters
    ----------
    rows : key columns and the column of times, with their types
    names : names of all columns of the rows
    added : names of the columns that the join adds
    """
    check_key_columns(rows, names, codec)
    check_instant_type("asOf", only_column(rows, str(time_column), names, called="Column of times"))
    lowered = {name.lower() for name in names}
    if twice := [name for name in added if name.lower() in lowered]:
        raise SchemaError(
            f"Column {twice[0]} is one of the rows, and one that the table adds.",
            todo="Rename it, or name the columns to add with columns.",
        )


# --- the join ---------------------------------------------------------------------------------------------------------


def join_as_of(stores: TableStores, plan: AsOfJoin, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows with the columns of the version of their key that was valid at their time, in the same order.

    A row without such a version, without a time, or with a key that the table cannot have, has nulls, or is left out.

    Parameters
    ----------
    batches : batches with one schema, which `check_join_columns` accepts

    Raises
    ------
    HistoryTrimmedError
        When the time of a row is below the history floor.
    SchemaError
        When a value of a key column does not fit the table's.
    """
    most_rows = MAX_CHUNK_ROWS
    for chunk in _chunks(batches):
        start = 0
        while start < len(chunk):
            part = chunk.slice(start, most_rows)
            versions = _find_versions(stores, plan, part)
            if versions is None:
                most_rows = len(part) // 2
                continue
            yield from _with_columns(part, plan, *versions)
            start += len(part)


def _chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the rows in chunks of many rows; larger batches are cut."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        for start in range(0, len(batch), MAX_CHUNK_ROWS):
            part = batch.slice(start, MAX_CHUNK_ROWS)
            if held and (rows + len(part) > MAX_CHUNK_ROWS or size + part.nbytes > MAX_CHUNK_BYTES):
                yield pa.Table.from_batches(held)
                held, rows, size = [], 0, 0
            held.append(part)
            rows, size = rows + len(part), size + part.nbytes
    if held:
        yield pa.Table.from_batches(held)


def _find_versions(
    stores: TableStores, plan: AsOfJoin, chunk: pa.Table
) -> tuple[NDArray[np.int64], list[_Decoded]] | None:
    """Return the place of each row's version among those decoded, -1 without one, and these.

    None if they are larger than what may be held, and of several rows.
    """
    probes = _Probes.of(chunk, plan)
    _refuse_trimmed(stores, plan, probes)
    found = np.full(len(chunk), -1, np.int64)
    decoded: list[_Decoded] = []
    count = held_bytes = 0
    for split in plan_points(plan.layers, probes.keys, target_bytes=plan.split_bytes):
        for intervals in split_intervals(stores, split, plan.settings, plan.validity):
            matched, versions, rows = probes.match(intervals)
            if not len(versions):
                continue
            sizes = row_sizes(intervals[0], intervals[1][versions], plan.settings.projection)
            held_bytes += int(sizes.sum())
            if held_bytes > MAX_VERSION_BYTES and len(chunk) > 1:
                return None
            found[rows] = matched + count
            decoded.append(_Decoded.of(intervals, versions, plan, sizes))
            count += len(versions)
    return found, decoded


def _refuse_trimmed(stores: TableStores, plan: AsOfJoin, probes: _Probes) -> None:
    """Refuse a time of which the table may not have all versions any more."""
    floor_ms = plan.validity.floor_ms
    if floor_ms is not None and len(probes.times) and int(probes.times[0]) < floor_ms:
        raise HistoryTrimmedError(
            f"{stores.url}: column {plan.time_column} has {time_text(int(probes.times[0]))}, and the row versions of "
            "that time are no longer complete.",
            why="They lie below the history floor, or another client's compaction may have dropped some.",
            todo=f"Filter rows before {time_text(floor_ms)} out.",
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Decoded:
    """Versions with their columns.

    Attributes
    ----------
    batch : the columns
    sizes : (n,) of the rows
    """

    batch: pa.RecordBatch
    sizes: NDArray[np.int64]

    @classmethod
    def of(
        cls, intervals: Intervals, versions: NDArray[np.int64], plan: AsOfJoin, sizes: NDArray[np.int64]
    ) -> _Decoded:
        """Return some of the versions, of which the sizes are known."""
        sources, rows, starts, ends, are_open = intervals
        chosen = sources, rows[versions], starts[versions], ends[versions], are_open[versions]
        projection, times = plan.settings.projection, interval_columns(chosen, plan.validity.now_ms)
        stored = [name for name in projection.names if name not in times]
        columns = decode_columns(sources, chosen[1], stored, projection, plan.settings.table)
        return cls(make_batch({**times, **columns}, projection), sizes)


def _with_columns(
    chunk: pa.Table, plan: AsOfJoin, found: NDArray[np.int64], decoded: list[_Decoded]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a chunk with the decoded rows that were found for them, as large a batch as one of a scan.

    Many rows may have found the same large version.
    """
    if plan.how != LEFT:
        there = np.flatnonzero(found >= 0)
        chunk, found = chunk.take(pa.array(there)), found[there]
    sizes = np.concatenate([*(each.sizes for each in decoded), np.zeros(1, np.int64)])  # the last one is for -1
    batches = [each.batch for each in decoded]
    for start, end in cut_sizes(sizes[found]):
        part, versions = chunk.slice(start, end - start), _rows_at(batches, found[start:end], plan.added)
        for field, column in zip(plan.added, versions.columns, strict=True):
            part = part.append_column(field, column)
        yield from part.combine_chunks().to_batches()


def _rows_at(batches: Sequence[pa.RecordBatch], indices: NDArray[np.int64], schema: pa.Schema) -> pa.Table:
    """Return the rows at some indices of the batches, one behind the other, null for -1.

    Only those are put together: all rows of the batches may have more bytes than one array of Arrow holds.
    """
    starts = np.cumsum([0, *map(len, batches)])
    numbers = np.searchsorted(starts, indices, side="right") - 1
    order = np.argsort(numbers, kind="stable")
    order = order[numbers[order] >= 0]
    used, firsts = np.unique(numbers[order], return_index=True)
    parts = zip(used.tolist(), np.split(order, firsts[1:]), strict=False)  # one empty part if none is used
    taken = [batches[number].take(pa.array(indices[part] - starts[number])) for number, part in parts]
    back = np.full(len(indices), -1, np.int64)
    back[order] = np.arange(len(order))
    return pa.Table.from_batches(taken, schema).combine_chunks().take(pa.array(back, mask=back < 0))


# --- rows as keys and times -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Probes:
    """The rows of a chunk that have a key and a time, by key and time.

    Attributes
    ----------
    keys, key_bytes, key_offsets : distinct keys, ascending
    times : (t,) distinct times in ms, ascending
    codes : (n,) key number * (t + 1) + time number of each row, ascending
    rows : (n,) their positions in the chunk
    """

    keys: list[bytes]
    key_bytes: NDArray[np.uint8]
    key_offsets: NDArray[np.int64]
    times: NDArray[np.int64]
    codes: NDArray[np.int64]
    rows: NDArray[np.int64]

    @classmethod
    def of(cls, chunk: pa.Table, plan: AsOfJoin) -> _Probes:
        """Return the rows of a chunk as keys and times."""
        times, there = _times_of(chunk, plan.time_column)
        keys, has_key = keys_of_rows(chunk, plan.codec)
        rows = np.flatnonzero(there & has_key)
        keys = keys.take(pa.array(rows))
        distinct = pc.unique(keys)
        distinct = distinct.take(pc.array_sort_indices(distinct))
        numbers = pc.index_in(keys, value_set=distinct).to_numpy(zero_copy_only=False).astype(np.int64)
        steps, ranks = np.unique(times[rows], return_inverse=True)
        codes = numbers * (len(steps) + 1) + ranks
        order = np.argsort(codes, kind="stable")
        offsets, data = _binary_parts(distinct)
        return cls(distinct.to_pylist(), data, offsets, steps, codes[order], rows[order])

    def match(self, found: Intervals) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return, for each row that a version was valid for, its place among those versions; the versions; the rows.

        Requires: each version has one of the keys, and begins before it ends.
        """
        sources, packed, starts, ends, are_open = found
        offsets, data = gather_keys(sources, packed)
        numbers = lower_bounds(self.key_bytes, self.key_offsets, data, offsets.astype(np.int64))
        first = numbers * (len(self.times) + 1)
        until = np.where(are_open, len(self.times), np.searchsorted(self.times, ends))
        low = np.searchsorted(self.codes, first + np.searchsorted(self.times, starts))
        high = np.searchsorted(self.codes, first + until)
        counts = high - low
        versions = np.flatnonzero(counts)
        counts, low = counts[versions], low[versions]
        matched = np.repeat(np.arange(len(versions), dtype=np.int64), counts)
        before = np.repeat(np.cumsum(counts) - counts, counts)
        return matched, versions, self.rows[np.repeat(low, counts) + np.arange(len(matched)) - before]


def _times_of(chunk: pa.Table, name: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the times of rows in ms, rounded down, and which rows have one."""
    column = chunk.column(find_name(chunk.schema, name))
    there: NDArray[np.bool_] = pc.is_valid(column).to_numpy()
    if kinds.is_uint64(column.type):
        there &= pc.fill_null(pc.less_equal(column, pa.scalar(MAX_MS, pa.uint64())), False).to_numpy()
        column = pc.if_else(pa.array(there), column, pa.scalar(0, pa.uint64()))
    times, fits = to_ms(pc.fill_null(column.cast(pa.int64()), 0).to_numpy(), column.type)
    return times, there & fits


def _binary_parts(keys: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return offsets and bytes of an array of large binaries without nulls."""
    whole = pa.concat_arrays([keys])
    _, offsets, data = whole.buffers()
    starts = np.frombuffer(offsets, np.int64)[whole.offset : whole.offset + len(whole) + 1]
    return starts, np.frombuffer(data, np.uint8) if data is not None and len(data) else np.zeros(0, np.uint8)
