"""The sorted chunks of a task, each on local disk by itself: for rows that are merged with others before their commit.

So they are written to the table once, and not before and after that merge.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import Final, TypeAlias

from slatespark.format.segments import KeySegments
from slatespark.options import WriteOptions
from slatespark.storage import open_scratch, scratch_folder
from slatespark.table.clock import Clock
from slatespark.table.read.planning.plan import Layer
from slatespark.table.rows.sorted_rows import SortedRows
from slatespark.table.rows.spill import SPILL_BLOCK_BYTES
from slatespark.table.rows.sst_upload import NewFile, upload_sorted, upload_task
from slatespark.table.rows.task_sorter import TaskSorter
from slatespark.table.stores import SCRATCH_ROOT, TableStores
from slatespark.table.tasks import pool_beside_client, threads_beside_client

MOST_BYTES: Final = 256 << 20  # of all chunks; more are merged as those of any task
TOGETHER: Final = 2  # chunks in memory: they are being written, or one of them is being sorted

Chunks: TypeAlias = tuple[tuple[NewFile, ...], ...]  # later ones are newer, and may have the same keys


@contextmanager
def with_scratch(stores: TableStores) -> Iterator[TableStores]:
    """Give the stores of a table and a place on local disk, which is removed at the end."""
    with scratch_folder("spill") as folder:
        yield replace(stores, scratch=open_scratch(folder))


def upload_chunks(
    stores: TableStores,
    clock: Clock,
    sorter: TaskSorter,
    options: WriteOptions,
    planned_ms: int,
    *,
    segments: KeySegments,
    most_bytes: int = MOST_BYTES,
) -> Chunks:
    """Write the rows of a task to local disk, a chunk at a time, and return the files of each.

    Rows that come sorted, operands, and more than `most_bytes` go to the table, as one sequence.

    Parameters
    ----------
    stores : with a place on local disk
    sorter : with a buffer of which there is room for `TOGETHER`
    options, planned_ms, segments : as for `upload_sorted`
    """
    if sorter.starts_sorted():
        return (upload_task(stores, clock, sorter, options, planned_ms, segments=segments),)
    plain = replace(
        options,
        compression="none",
        block_bytes=SPILL_BLOCK_BYTES,
        bloom_bits_per_key=0,
        sst_bytes=max(most_bytes, options.sst_bytes),
    )

    def written(chunk: SortedRows) -> tuple[NewFile, ...]:
        assert stores.scratch is not None  # the caller's condition
        files = upload_sorted(stores.scratch, [chunk], plain, clock, planned_ms, segments=segments)
        return tuple(replace(file, root=SCRATCH_ROOT) for file in files)

    chunks: list[tuple[NewFile, ...]] = []
    fits = True
    together = threads_beside_client(TOGETHER, is_remote=stores.main.is_remote)  # that sorts meanwhile counts too
    with pool_beside_client(together, is_remote=stores.main.is_remote) as pool:
        writing: deque[Future[tuple[NewFile, ...]]] = deque()
        rows = sorter.chunks()
        while fits and (chunk := next(rows, None)) is not None:
            writing.append(pool.submit(written, chunk))
            if len(writing) == together:
                chunks.append(writing.popleft().result())
                fits = _fit(chunks, most_bytes)
        chunks += [each.result() for each in writing]
    if fits and _fit(chunks, most_bytes):
        return tuple(chunks)
    layers = [Layer("chunk", tuple(file.whole() for file in files)) for files in reversed(chunks)]
    with sorter.spilled((stores, layers)) as parts:
        merged = chain.from_iterable(parts)
        return (upload_sorted(stores.main, merged, options, clock, planned_ms, segments=segments),)


def _fit(chunks: Iterable[tuple[NewFile, ...]], most_bytes: int) -> bool:
    files = [file for each in chunks for file in each]
    return sum(file.size for file in files) <= most_bytes and not any(file.properties.merges for file in files)
