"""Sorted rows -> SST objects under `compacted/`, with the facts that a commit needs of them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, groupby
from operator import itemgetter
from typing import Self

import numpy as np

from slatespark.errors import SlateError
from slatespark.format.codecs import parse_compression
from slatespark.format.paths import sst_path
from slatespark.format.properties import SstProperties
from slatespark.format.references import SstHandle
from slatespark.format.segments import WHOLE, KeySegments
from slatespark.format.sst import SST_FORMAT_VERSION, BuiltSst, Spread, SstBuilder
from slatespark.format.ulid import Ulid
from slatespark.kernels import key_lengths, new_key_mask, take_rows, value_lengths
from slatespark.options import WriteOptions
from slatespark.ranges import KeyRange
from slatespark.storage import run_ahead
from slatespark.storage.object_store import ObjectStore
from slatespark.table.clock import Clock, new_ulid
from slatespark.table.read.planning.plan import FileSlice, Layer, SstFile
from slatespark.table.rows.segment_split import split_segments
from slatespark.table.rows.sorted_rows import SortedRows
from slatespark.table.rows.task_sorter import TaskSorter
from slatespark.table.rows.throughput import UploadPace
from slatespark.table.stores import OWN_ROOT, TableStores
from slatespark.table.tasks import ONE_THREAD, ThreadRunner

STEP_BYTES = 4 << 20  # rows given to the builder at a time; a quarter of a file at most, so that it ends near its size
ROW_FIXED_BYTES = 32


@dataclass(frozen=True, slots=True)
class NewFile:
    """An uploaded SST that no manifest shows yet.

    Attributes
    ----------
    handle : as the manifest will list it
    properties : times, sequence numbers and counts of its rows
    size : of the object, in bytes
    has_remainders : whether times of its task have lost parts of a millisecond, and no column decides
    root : where it lies: `OWN_ROOT`, or `SCRATCH_ROOT` for rows that are written to the table later
    """

    handle: SstHandle
    properties: SstProperties
    size: int
    has_remainders: bool = False
    root: str = OWN_ROOT

    @property
    def keys(self) -> KeyRange:
        """From its first key to its last."""
        return self.handle.key_range()

    def whole(self) -> FileSlice:
        """Return all of it, for reading."""
        return SstFile.of(self.handle, self.root).whole()

    def renamed(self, sst_id: Ulid) -> NewFile:
        """Return the same file under another id."""
        return replace(self, handle=replace(self.handle, id=sst_id))


def upload_sorted(
    store: ObjectStore,
    pieces: Iterable[SortedRows],
    options: WriteOptions,
    clock: Clock,
    planned_ms: int,
    *,
    segments: KeySegments = WHOLE,
    pace: UploadPace | None = None,
    runs_ahead: bool = False,
    spread: Spread = map,
) -> tuple[NewFile, ...]:
    """Write rows as SSTs of about `sstSize`, and return them in key order; their keys do not overlap.

    All versions of a key are in one file, unless they are as large as a file. Then the key ends a file and begins the
    next one, newer versions first. A file holds keys of one segment.

    Parameters
    ----------
    store : of the table
    pieces : rows in key order, newest version first
    options : codec, block, file and filter sizes
    clock : for the random part of file ids
    planned_ms : time part of file ids, from the driver, so that clocks of executors do not matter
        (docs/reference/format/objects.md)
    segments : of the table, unless all rows are known to be of one
    pace : of the uploads; None for as fast as it goes
    runs_ahead : upload each file while the next one is built, if the store has network latency; memory holds two then
    spread : compresses the blocks of a file

    Raises
    ------
    InvalidRequestError
        When a key belongs to no segment.
    """
    new_builder = partial(_new_builder, options, planned_ms, spread)
    parts = groupby(split_segments(pieces, segments), key=itemgetter(0))
    return tuple(
        file
        for _, part in parts
        for uploads in [_Uploads(store, clock, planned_ms, pace, runs_ahead=runs_ahead and store.is_remote)]
        for file in _upload_segment((piece for _, piece in part), options.sst_bytes, new_builder, uploads)
    )


def _upload_segment(
    pieces: Iterable[SortedRows], sst_bytes: int, new_builder: Callable[[], SstBuilder], uploads: _Uploads
) -> list[NewFile]:
    """Write the rows of one segment."""
    with uploads:
        for built, is_last in _built_files(pieces, sst_bytes, new_builder):
            uploads.add(built, is_last=is_last)
    return uploads.files


def _built_files(
    pieces: Iterable[SortedRows], sst_bytes: int, new_builder: Callable[[], SstBuilder]
) -> Iterator[tuple[BuiltSst, bool]]:
    """Yield rows as files, each with whether it is known to be the last one."""
    builder: SstBuilder | None = None
    reached: bytes | None = None  # the last key of a file that is full
    for piece in pieces:
        for step in _steps(piece, max(1, min(STEP_BYTES, sst_bytes // 4))):
            if builder is not None and reached is not None:
                same = _count_versions(step, reached)
                builder.add(step.sources, step.rows[:same])
                if same == len(step.rows) and not builder.reaches(2 * sst_bytes):
                    continue
                yield builder.finish(), False
                builder, reached = None, None
                step = SortedRows(step.sources, step.rows[same:])
            if not len(step.rows):
                continue
            builder = builder or new_builder()
            builder.add(step.sources, step.rows)
            if builder.reaches(sst_bytes):
                reached = step.key(-1)
    if builder is not None:
        yield builder.finish(), True


@dataclass(slots=True)
class _Uploads:
    """Uploads of files one after the other.

    Attributes
    ----------
    runs_ahead : each while the next one is built
    files : that are uploaded, in order; all of them after the block
    """

    store: ObjectStore
    clock: Clock
    planned_ms: int
    pace: UploadPace | None
    runs_ahead: bool
    files: list[NewFile] = field(default_factory=list)
    _under_way: Callable[[], NewFile] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Wait for what is under way, also after an error: nothing is uploaded once the caller knows of it."""
        with contextlib.nullcontext() if kind is None else contextlib.suppress(SlateError):
            self._wait()

    def add(self, built: BuiltSst, *, is_last: bool) -> None:
        """Upload a file once the one before is uploaded; raises the error of that one, or its own."""
        self._wait()
        upload = partial(self._upload, built, self._new_id())
        if self.runs_ahead and not is_last:
            self._under_way = run_ahead(upload, is_remote=True)
        else:
            self.files.append(upload())

    def _wait(self) -> None:
        if self._under_way is not None:
            result, self._under_way = self._under_way, None
            self.files.append(result())

    def _new_id(self) -> Ulid:
        return new_ulid(self.clock, self.planned_ms)

    def _upload(self, built: BuiltSst, sst_id: Ulid) -> NewFile:
        if self.pace is not None:
            self.pace.wait_for(built.size)
        self.store.put(sst_path(sst_id), built.parts)
        handle = SstHandle(id=sst_id, info=built.info, format_version=SST_FORMAT_VERSION)
        return NewFile(handle=handle, properties=built.properties, size=built.size)


def new_layer(*files: NewFile) -> Layer:
    """Return uploaded files, which no version shows yet, as a layer."""
    return Layer("new", tuple(file.whole() for file in files))


def upload_task(
    stores: TableStores,
    clock: Clock,
    sorter: TaskSorter,
    options: WriteOptions,
    planned_ms: int,
    *,
    segments: KeySegments = WHOLE,
    pace: UploadPace | None = None,
    threads: ThreadRunner = ONE_THREAD,
) -> tuple[NewFile, ...]:
    """Write the rows of a task, and return its files in key order; parameters as for `upload_sorted`.

    If a row comes late, the files uploaded before it are merged with the rest and deleted: no manifest shows them yet.

    Parameters
    ----------
    threads : compress rows that come in order; else merge, each its own key range, and upload
    """
    upload = partial(
        upload_sorted, stores.main, options=options, clock=clock, planned_ms=planned_ms, segments=segments, pace=pace
    )
    with closing(sorter):
        with threads.spread() as spread:
            files = upload(sorter.ascending(), runs_ahead=True, spread=spread)
        if sorter.is_done:
            return tuple(replace(file, has_remainders=sorter.has_remainders) for file in files)
        below = (stores, [new_layer(*files)]) if files else None
        with sorter.spilled(below) as parts:
            merged = _upload_parts(partial(upload, runs_ahead=len(parts) == 1), parts, threads)
    for file in files:
        with contextlib.suppress(SlateError):
            stores.main.delete(sst_path(file.handle.id))
    return tuple(replace(file, has_remainders=sorter.has_remainders) for file in merged)


class _StoppedError(Exception):
    """The rows of a part are not wanted any more."""


def _upload_parts(
    upload: Callable[[Iterable[SortedRows]], tuple[NewFile, ...]],
    parts: Sequence[Iterator[SortedRows]],
    threads: ThreadRunner,
) -> list[NewFile]:
    """Upload parts, and return their files in order. Where one fails, or the caller is interrupted, all end soon."""
    stopped = threading.Event()

    def wanted(part: Iterator[SortedRows]) -> Iterator[SortedRows]:
        for piece in part:
            if stopped.is_set():
                raise _StoppedError
            yield piece

    def upload_part(part: Iterator[SortedRows]) -> tuple[NewFile, ...]:
        try:
            return upload(wanted(part))
        except _StoppedError:
            return ()  # the error of another part follows
        except BaseException:
            stopped.set()
            raise

    return list(chain.from_iterable(threads(upload_part, parts, end=stopped.set)))


def _new_builder(options: WriteOptions, created_ms: int, spread: Spread) -> SstBuilder:
    return SstBuilder(
        block_size=options.block_bytes,
        compression=parse_compression(options.compression),
        bloom_bits_per_key=options.bloom_bits_per_key,
        created_ms=created_ms,
        spread=spread,
    )


def _count_versions(step: SortedRows, key: bytes) -> int:
    """Return how many rows at the beginning are of that key."""
    if step.key(0) != key:
        return 0
    others = np.flatnonzero(new_key_mask(step.sources, step.rows)[1:])
    return int(others[0]) + 1 if len(others) else len(step.rows)


def _steps(piece: SortedRows, step_bytes: int) -> Iterator[SortedRows]:
    sizes = key_lengths(piece.sources, piece.rows) + value_lengths(piece.sources, piece.rows) + ROW_FIXED_BYTES
    reach = np.cumsum(sizes)
    start = 0
    while start < len(piece.rows):
        before = int(reach[start - 1]) if start else 0
        end = max(start + 1, int(np.searchsorted(reach, before + step_bytes, side="right")))
        yield _gathered(piece, start, end)
        start = end


def _gathered(piece: SortedRows, start: int, end: int) -> SortedRows:
    """Return a part of a piece. The builder reads each row six times, so scattered ones are copied together first."""
    rows = piece.rows[start:end]
    if not piece.is_scattered:
        return SortedRows(piece.sources, rows)
    return SortedRows.whole(take_rows(piece.sources, rows))
