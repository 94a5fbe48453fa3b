"""Fetching parts of SSTs and WAL files: which bytes to read; decoding is left to `slatespark.format`."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from itertools import chain
from typing import Final, NamedTuple

import numpy as np

from slatespark.errors import CorruptDataError, UnsupportedFormatError
from slatespark.format.filter import FilterSet, decode_filter_section
from slatespark.format.index import SstIndex, decode_index_section
from slatespark.format.paths import wal_path
from slatespark.format.stats import SstStats, decode_stats_section
from slatespark.format.wal import decode_wal, decode_wal_files
from slatespark.kernels import sort_rows, take_rows
from slatespark.kernels.columns import ROW_BITS, RowColumns
from slatespark.ranges import KeyRange
from slatespark.storage import run_in_groups, run_in_order
from slatespark.storage.object_store import Buffer
from slatespark.table.read.planning.plan import CutPoint, FileSlice, SstFile
from slatespark.table.read.planning.row_cuts import keys_alone, positions_within
from slatespark.table.read.planning.wal_share import NO_ROWS, WalShare
from slatespark.table.read.section_cache import CacheBudget, SectionCache, metadata_limit
from slatespark.table.snapshot import WalTail
from slatespark.table.stores import TableStores
from slatespark.table.stores import object_context as object_context
from slatespark.table.tasks import TWO_THREADS

WAL_BATCH_BYTES: Final = 8 << 20  # decoded at a time: a call has a fixed cost, and most files are small
# Requested ahead from a store with latency. Most files are small, but the client may write one of 64 MiB.
WAL_FILES_AHEAD: Final = 31
WAL_BYTES_AHEAD: Final = 64 << 20
WAL_BYTES_GUESS: Final = 8 << 20  # of a file whose size is not known

_metadata: Final = CacheBudget(metadata_limit)
indexes: Final = SectionCache[SstIndex](_metadata, lambda index: index.held_bytes)
filter_sets: Final = SectionCache[FilterSet](_metadata, lambda found: found.held_bytes)


def fetch_index(stores: TableStores, file: SstFile) -> SstIndex:
    """Return the index of an SST."""
    store, info = stores.at(file.root), file.info

    def fetch() -> SstIndex:
        with object_context(store, file.path, info.index_offset):
            return decode_index_section(store.get_range(file.path, info.index_range), info)

    return indexes.get(store, file.path, fetch)


def fetch_filter(stores: TableStores, file: SstFile) -> FilterSet | None:
    """Return the filters of an SST; None if it has none."""
    store, span = stores.at(file.root), file.info.filter_range
    if span is None:
        return None

    def fetch() -> FilterSet:
        with object_context(store, file.path, span.start):
            return decode_filter_section(store.get_range(file.path, span), file.info)

    return filter_sets.get(store, file.path, fetch)


def fetch_stats(stores: TableStores, file: SstFile) -> SstStats | None:
    """Return the statistics that a file holds of its rows; None if it holds none."""
    span = file.info.stats_range
    if span is None:
        return None
    store = stores.at(file.root)
    with object_context(store, file.path, span.start):
        return decode_stats_section(store.get_range(file.path, span), file.info)


def measure_slices(stores: TableStores, parts: Sequence[FileSlice]) -> list[int]:
    """Return the stored bytes of the blocks that each slice needs; indexes of a remote store are fetched together."""
    by_file: dict[tuple[str, str], list[int]] = {}
    for at, part in enumerate(parts):
        by_file.setdefault((part.file.root, part.file.path), []).append(at)

    def measure(numbers: Sequence[int]) -> list[int]:
        file = parts[numbers[0]].file
        index = fetch_index(stores, file)
        edges = index.block_edges(file.info)
        spans = np.array(index.blocks_for_each([parts[at].keys for at in numbers]))
        sizes: list[int] = (edges[spans[:, 1]] - edges[spans[:, 0]]).tolist()
        return sizes

    measured = [0] * len(parts)
    for numbers, sizes in run_in_groups(measure, [*by_file.values()], is_remote=stores.main.is_remote):
        for at, size in zip(numbers, sizes, strict=True):
            measured[at] = size
    return measured


def measure_slice(stores: TableStores, part: FileSlice) -> int:
    """Return the stored bytes of the blocks that a slice needs."""
    return measure_slices(stores, [part])[0]


def sample_indexes(stores: TableStores, files: Sequence[SstFile], spacing_bytes: int) -> list[list[CutPoint]]:
    """Return the cut points of each file; indexes of a remote store are fetched together."""
    sample = partial(sample_index, stores, spacing_bytes=spacing_bytes)
    return [points for _, points in run_in_groups(sample, files, is_remote=stores.main.is_remote)]


def sample_index(stores: TableStores, file: SstFile, spacing_bytes: int) -> list[CutPoint]:
    """Return cut points of a file, about `spacing_bytes` of stored data apart."""
    index = fetch_index(stores, file)
    steps = np.arange(0, file.data_bytes, spacing_bytes)
    blocks = np.unique(np.searchsorted(index.block_offsets, steps, side="right") - 1)
    sizes: list[int] = np.diff(index.block_edges(file.info)[np.append(blocks, len(index))]).tolist()
    keys = [index.first_key(block) if block else file.info.first_entry or b"" for block in blocks.tolist()]
    return [CutPoint(key, size) for key, size in zip(keys, sizes, strict=True)]


def fetch_wal_rows(stores: TableStores, tail: WalTail, above_seq: int, keys: KeyRange) -> RowColumns | None:
    """Return the rows of a WAL tail as one sorted source; None if there are none.

    Parameters and errors as for `fetch_wal_share`.
    """
    found = fetch_wal_share(stores, tail, above_seq, keys)
    return found.rows() if len(found) else None


def fetch_wal_share(stores: TableStores, tail: WalTail, above_seq: int, keys: KeyRange) -> WalShare:
    """Return the rows of a WAL tail, sorted, where they were decoded.

    Parameters
    ----------
    tail : which files
    above_seq : rows with seq <= it are already in the trees (docs/reference/format/manifest.md)
    keys : only rows with these keys

    Raises
    ------
    CorruptDataError
        When a file is damaged or sequence numbers do not grow from file to file (docs/reference/format/wal.md).
    """
    return _sorted_newest_first([*_fetch_wal_parts(stores, tail, above_seq, keys)], above_seq)


def fetch_limited_share(
    stores: TableStores, tail: WalTail, above_seq: int, keys: KeyRange, *, limit_bytes: int
) -> WalShare | None:
    """Do as `fetch_wal_share`; return None once keys and values take more than a limit: the files are compressed."""
    found: list[RowColumns] = []
    with closing(_fetch_wal_parts(stores, tail, above_seq, keys)) as parts:
        for rows in parts:
            found.append(rows)
            limit_bytes -= int(rows.key_offsets[-1]) + int(rows.value_lengths.sum())
            if limit_bytes < 0:
                return None
    return _sorted_newest_first(found, above_seq)


def _fetch_wal_parts(
    stores: TableStores, tail: WalTail, above_seq: int, keys: KeyRange
) -> Generator[RowColumns, None, None]:
    """Yield the rows of the files that have rows above a sequence number, oldest first, in the order of writing."""
    decode = partial(_decode_within, stores, keys)
    reached = -1
    with closing(TWO_THREADS.ahead(decode, _few_at_a_time(_wal_objects(stores, tail)))) as decoded:
        for part in chain.from_iterable(decoded):
            if part.first_seq <= reached:
                raise CorruptDataError(
                    f"first seq is {part.first_seq}, but an earlier file reached {reached}.",
                    path=f"{stores.wal.url}/{wal_path(part.number)}",
                )
            reached = part.last_seq
            if reached > above_seq and len(part.rows):
                yield part.rows


class _WalPart(NamedTuple):
    """The rows of some WAL files in a range of keys; the id is that of the first file, the seqs are of all rows."""

    number: int
    first_seq: int
    last_seq: int
    rows: RowColumns


def _decode_within(stores: TableStores, keys: KeyRange, files: Sequence[tuple[int, Buffer]]) -> list[_WalPart]:
    """Decode WAL files; returns nothing of a file without rows."""
    parts = []
    for number, rows in _decoded(stores, files):
        if len(rows):
            inside = positions_within(rows, keys)
            # Few rows of a file must not hold all of its bytes.
            kept = rows if len(inside) == len(rows) else take_rows([rows], inside)
            parts.append(_WalPart(number, int(rows.seqs[0]), int(rows.seqs[-1]), kept))
    return parts


def _decoded(stores: TableStores, files: Sequence[tuple[int, Buffer]]) -> Iterator[tuple[int, RowColumns]]:
    """Yield the rows of WAL files, each time with the id of the first file that they are of."""
    together: RowColumns | None = None
    if len(files) > 1:
        # What is wrong with one of them is told by decoding each by itself.
        with suppress(CorruptDataError, UnsupportedFormatError):
            together = decode_wal_files([data for _, data in files])
    if together is not None:
        yield files[0][0], together
        return
    for number, data in files:
        with object_context(stores.wal, wal_path(number)):
            yield number, decode_wal(data)


def _few_at_a_time(objects: Iterable[tuple[int, Buffer]]) -> Iterator[list[tuple[int, Buffer]]]:
    """Yield WAL files without the fences, which are empty; small ones together, in their order."""
    few: list[tuple[int, Buffer]] = []
    held_bytes = 0
    for number, data in objects:
        if not data:
            continue
        if few and held_bytes + len(data) > WAL_BATCH_BYTES:
            yield few
            few, held_bytes = [], 0
        few.append((number, data))
        held_bytes += len(data)
    if few:
        yield few


def _wal_objects(stores: TableStores, tail: WalTail) -> Iterator[tuple[int, Buffer]]:
    """Yield the WAL files of a tail, but for known fences; the next ones are requested meanwhile."""

    def fetch(number: int) -> Buffer:
        path = wal_path(number)
        with object_context(stores.wal, path):
            return stores.wal.get(path)

    numbers = tail.with_rows()
    objects = run_in_order(
        ((partial(fetch, number), tail.size_of(number) or WAL_BYTES_GUESS) for number in numbers),
        depth=WAL_FILES_AHEAD,
        max_bytes=WAL_BYTES_AHEAD,
        is_remote=stores.wal.is_remote,
    )
    yield from zip(numbers, objects, strict=True)


def fetch_wal_file(stores: TableStores, number: int) -> RowColumns | None:
    """Return the rows of one WAL file in key order; None if it is a fence, or is not there."""
    path = wal_path(number)
    with object_context(stores.wal, path):
        try:
            data = bytes(stores.wal.get(path))
        except FileNotFoundError:
            return None
        rows = decode_wal(data) if data else None
    return None if rows is None else take_rows([rows], sort_rows(rows))


def _sorted_newest_first(files: list[RowColumns], above_seq: int) -> WalShare:
    """Return the rows above `above_seq` of WAL files (given oldest first) by (key, seq descending)."""
    newest_first = [
        (np.int64(source) << ROW_BITS) + np.flatnonzero(rows.seqs > np.uint64(above_seq))[::-1]
        for source, rows in reversed(list(enumerate(files)))
    ]
    if not sum(map(len, newest_first)):
        return NO_ROWS
    packed = np.concatenate(newest_first)
    # The sort is stable, so versions of a key stay newest first.
    return WalShare(files, packed[sort_rows(keys_alone(files, packed))])
