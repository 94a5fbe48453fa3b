"""OwnWrites: the writes of an open transaction, which its reads see on top of their snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slatespark.errors import CommitConflictError
from slatespark.format.segments import KeySegments
from slatespark.kernels import gather_fields, new_key_mask
from slatespark.kernels.columns import MERGE, RowColumns, Visibility
from slatespark.kernels.lifetimes import below_group
from slatespark.options import WriteOptions
from slatespark.table.clock import Clock
from slatespark.table.commit.publication import stack_outputs
from slatespark.table.commit.rebase import rebase_outputs
from slatespark.table.read.merge.cursor import open_cursors, window_size
from slatespark.table.read.planning.plan import OWN_WRITES, Layer
from slatespark.table.read.scan import visible_windows
from slatespark.table.rows.overlaps import find_overlapping
from slatespark.table.rows.sorted_rows import SortedRows
from slatespark.table.rows.sst_upload import NewFile, new_layer, upload_sorted
from slatespark.table.stores import TableStores
from slatespark.units import MIN_MS

MAX_LAYERS: Final = 16  # of own writes, which each read has to merge
MAX_SMALL_TASKS: Final = 32  # in a row, before their files are joined
SMALL_BYTES: Final = 1 << 20  # of the files of a task

_EVERYTHING: Final = Visibility(max_seq=2**64 - 1, now_ms=MIN_MS, all_versions=True)


@dataclass(frozen=True, slots=True)
class OwnTask:
    """The files that one task wrote.

    Attributes
    ----------
    files : files in key order
    has_instants : whether rows expire at fixed instants, which do not move with their create_ts
    """

    files: tuple[NewFile, ...]
    has_instants: bool = False

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True, slots=True)
class OwnWrites:
    """The writes of a transaction.

    Attributes
    ----------
    tasks : a later one is newer
    """

    tasks: tuple[OwnTask, ...] = ()

    def adding(self, outputs: Sequence[tuple[NewFile, ...]], *, has_instants: bool) -> OwnWrites:
        """Return the writes with the files of one more write, per task."""
        return OwnWrites((*self.tasks, *(OwnTask(files, has_instants) for files in outputs if files)))

    @property
    def outputs(self) -> tuple[tuple[NewFile, ...], ...]:
        """The files per task, as `commit_write` takes them."""
        return tuple(task.files for task in self.tasks)

    @property
    def files(self) -> list[NewFile]:
        """All files."""
        return [file for task in self.tasks for file in task.files]

    @property
    def has_instants(self) -> bool:
        """Whether any row expires at a fixed instant."""
        return any(task.has_instants for task in self.tasks)

    @property
    def last_seq(self) -> int:
        """Highest sequence number of a row; 0 if there is none."""
        return max((file.properties.max_seq for file in self.files), default=0)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(task.size for task in self.tasks)

    def layers(self) -> tuple[Layer, ...]:
        """Return the layers that a read puts on top of its snapshot, newest first."""
        levels = (sorted(level, key=lambda file: file.keys.start) for level in stack_outputs(self.outputs))
        return tuple(Layer(OWN_WRITES, tuple(file.whole() for file in level)) for level in levels)[::-1]

    def with_files(self, outputs: Sequence[tuple[NewFile, ...]]) -> OwnWrites:
        """Return the same writes with other files for each task."""
        return OwnWrites(tuple(replace(task, files=tuple(f)) for task, f in zip(self.tasks, outputs, strict=True)))


def drop_hidden(
    stores: TableStores, clock: Clock, own: OwnWrites, options: WriteOptions, segments: KeySegments
) -> OwnWrites:
    """Return the writes without the row versions that later writes of the same transaction hide.

    The versions stay if dropping them would rewrite more than `commitRewriteLimit`, or would put fixed expiries and
    moving ones into one file. They are hidden in any case.
    """
    shared = find_overlapping(own.outputs)
    chosen = [(task, files) for task, files in zip(own.tasks, shared, strict=True) if files]
    if sum(file.size for _, files in chosen for file in files) > options.rewrite_limit_bytes:
        return own
    if len({task.has_instants for task, _ in chosen}) != 1:
        return own
    joined = _joined(stores, clock, [replace(task, files=files) for task, files in chosen], options, segments)
    ids = {file.handle.id for _, files in chosen for file in files}
    left = [tuple(file for file in task.files if file.handle.id not in ids) for task in own.tasks]
    rest = (replace(task, files=files) for task, files in zip(own.tasks, left, strict=True) if files)
    return OwnWrites((*rest, joined))


def join_small(
    stores: TableStores, clock: Clock, own: OwnWrites, options: WriteOptions, segments: KeySegments
) -> OwnWrites:
    """Return the writes with the newest ones joined, if they are many small ones: each would be a file of the table.

    They stay apart if this would rewrite more than `commitRewriteLimit`.
    """
    small: list[OwnTask] = []
    for task in reversed(own.tasks):
        is_small = task.size <= SMALL_BYTES and len(task.files) <= MAX_SMALL_TASKS  # of many segments it has many files
        if not is_small or (small and task.has_instants != small[0].has_instants):
            break
        small.append(task)
    if len(small) <= MAX_SMALL_TASKS or sum(task.size for task in small) > options.rewrite_limit_bytes:
        return own
    return OwnWrites((*own.tasks[: -len(small)], _joined(stores, clock, small[::-1], options, segments)))


def _joined(
    stores: TableStores, clock: Clock, tasks: Sequence[OwnTask], options: WriteOptions, segments: KeySegments
) -> OwnTask:
    """Return some tasks, of which all have instants or none, as one without the versions that later ones hide."""
    layers = [new_layer(*task.files) for task in reversed(tasks)]
    cursors = open_cursors(stores, layers, [], window_size(options.write_buffer_bytes, len(layers)))
    files = upload_sorted(
        stores.main,
        (_shown(sources, found.rows) for sources, found in visible_windows(cursors, _EVERYTHING, None)),
        options,
        clock,
        clock.now_ms(),
        segments=segments,
    )
    return OwnTask(files, tasks[0].has_instants)


def _shown(sources: list[RowColumns], rows: NDArray[np.int64]) -> SortedRows:
    """Return the newest version of each key; if it is a merge operand, all versions down to the first other one.

    Parameters
    ----------
    rows : rows in file order
    """
    hidden = below_group(new_key_mask(sources, rows), (gather_fields(sources, rows).flags & MERGE) != 0)
    return SortedRows(sources, rows[~hidden], is_scattered=True)


def move_writes(
    stores: TableStores,
    clock: Clock,
    own: OwnWrites,
    options: WriteOptions,
    *,
    by_seq: int,
    by_ms: int,
    latest_expire_ms: int | None,
) -> OwnWrites:
    """Return the writes with higher sequence numbers and another time; parameters as for `rebase_outputs`.

    Raises
    ------
    CommitConflictError
        When this would rewrite more than `commitRewriteLimit`.
    """
    if own.size > options.rewrite_limit_bytes:
        raise CommitConflictError(
            f"{stores.url}: the {own.size} bytes of this transaction exceed commitRewriteLimit "
            f"({options.rewrite_limit_bytes}).",
            why="They have to be rewritten to get their time, and sequence numbers above other commits.",
            todo="Begin again with a higher commitRewriteLimit.",
        )

    def moved() -> Iterator[tuple[NewFile, ...]]:
        for task in own.tasks:
            yield from rebase_outputs(
                stores,
                (task.files,),
                options,
                clock,
                by_seq=by_seq,
                by_ms=by_ms,
                planned_ms=clock.now_ms(),
                moves_expiry=not task.has_instants,
                latest_expire_ms=latest_expire_ms,
            )

    return own.with_files(tuple(moved()))
