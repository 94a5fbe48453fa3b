"""The WAL in a stretch of the log: which files have its rows, and whether they are all there.

A writer numbers its writes upwards, but may leave numbers out. It is opened with a fence, and so is every commit of
ours. So the files between two fences are all that their writer wrote; and over a fence nothing is missing if the next
number follows on the last one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from slatespark.errors import SnapshotExpiredError
from slatespark.format.paths import wal_path
from slatespark.format.wal import OLD_FENCE_BYTES, decode_wal
from slatespark.kernels.columns import RowColumns
from slatespark.storage import run_concurrently
from slatespark.table.stores import TableStores, object_context


@dataclass(frozen=True, slots=True)
class WalStretch:
    """The WAL between two places of the log.

    Attributes
    ----------
    after_seq, last_seq : writes with sequence numbers (after_seq, last_seq] are to be found in it
    after, end : bounds of the files: ids (after, end)
    """

    after_seq: int
    last_seq: int
    after: int
    end: int

    def files(self, sizes: Mapping[int, int]) -> list[int]:
        """Return the files with rows, ascending."""
        return [number for number in range(self.after + 1, self.end) if sizes.get(number)]


def fetch_wal_log(stores: TableStores, number: int) -> RowColumns | None:
    """Return the rows of a WAL file in the order of their writes; None if it has none.

    Raises
    ------
    SnapshotExpiredError
        When the file was collected.
    """
    path = wal_path(number)
    with object_context(stores.wal, path):
        data = bytes(stores.wal.get(path))
        rows = decode_wal(data) if data else None
    return rows if rows is not None and len(rows) else None


def is_old_fence_file(stores: TableStores, number: int, size: int) -> bool:
    """Tell whether a WAL file of that size is a fence of an old client; files of newer ones are larger, so not read."""
    if not 0 < size <= OLD_FENCE_BYTES:
        return False
    try:
        return fetch_wal_log(stores, number) is None
    except SnapshotExpiredError:
        return False


def is_complete(stores: TableStores, stretch: WalStretch, sizes: Mapping[int, int]) -> bool:
    """Tell whether a stretch of the WAL has every write that it should have.

    Parameters
    ----------
    sizes : the sizes of the WAL files, by id; fences have none. That of the file before the stretch is asked for too
    """
    if stretch.after_seq == stretch.last_seq:
        return True
    if any(number not in sizes for number in range(stretch.after + 1, stretch.end)):
        return False
    sessions = list(_sessions(stretch, sizes))
    ends = list(dict.fromkeys(number for session in sessions for number in (session[0], session[-1])))
    fetches = [partial(find_span, stores, number) for number in ends]
    spans = dict(zip(ends, run_concurrently(fetches, is_remote=stores.wal.is_remote), strict=True))
    reached, goes_on = stretch.after_seq, bool(sizes.get(stretch.after))
    for session in sessions:
        first, last = spans[session[0]], spans[session[-1]]
        if first is None or last is None:
            return False
        starts_a_session = not goes_on or session[0] != stretch.after + 1
        if starts_a_session and first[0] > reached + 1:
            return False
        reached, goes_on = last[1], False
    return reached >= stretch.last_seq


def _sessions(stretch: WalStretch, sizes: Mapping[int, int]) -> Iterator[Sequence[int]]:
    """Yield the ids of files between two fences."""
    fences = [number for number in range(stretch.after + 1, stretch.end) if not sizes[number]]
    for before, fence in pairwise([stretch.after, *fences, stretch.end]):
        if fence - before > 1:
            yield range(before + 1, fence)


def find_span(stores: TableStores, number: int) -> tuple[int, int] | None:
    """Return the lowest and the highest sequence number of a WAL file; None if it is gone or has no rows."""
    try:
        rows = fetch_wal_log(stores, number)
    except SnapshotExpiredError:
        return None
    return None if rows is None else (int(rows.seqs[0]), int(rows.seqs[-1]))
