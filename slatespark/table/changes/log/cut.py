"""Where a batch of the log ends that may not have all of it."""

from __future__ import annotations

from collections.abc import Iterator

from slatespark.table.changes.log.plan import LogPlan
from slatespark.table.changes.log.positions import LogPosition
from slatespark.table.changes.log.wal import WalStretch, fetch_wal_log
from slatespark.table.stores import TableStores


def cut_log(
    stores: TableStores, plan: LogPlan, *, max_bytes: int | None = None, max_rows: int | None = None
) -> LogPosition:
    """Return the position up to which a batch reads, within the limits; the end of the plan if they allow for all.

    It lies behind a WAL file or behind a slatespark commit. The first of them is always in the batch, however large.

    Parameters
    ----------
    max_bytes : limit of stored bytes
    max_rows : limit of rows; with one, WAL files are read up to the position

    Raises
    ------
    SnapshotExpiredError
        When a WAL file was collected meanwhile.
    """
    position, size, rows = plan.start, 0, 0
    for after, unit_bytes, unit_rows in _units(stores, plan, counts_rows=max_rows is not None):
        size, rows = size + unit_bytes, rows + unit_rows
        exceeds = (max_bytes is not None and size > max_bytes) or (max_rows is not None and rows > max_rows)
        if exceeds and position != plan.start:
            return _with_seq(stores, position)
        position = after
    return plan.end


def _units(stores: TableStores, plan: LogPlan, *, counts_rows: bool) -> Iterator[tuple[LogPosition, int, int]]:
    """Yield the positions behind each WAL file and commit, and its stored bytes and rows.

    The sequence number of a position behind a WAL file is -1: to know it, the file has to be read.
    """
    version = plan.start.version
    for each in plan.survey.stretches:
        if isinstance(each, WalStretch):
            for number in each.files(plan.survey.sizes):
                rows = fetch_wal_log(stores, number) if counts_rows else None
                yield LogPosition(version, -1, number), plan.survey.sizes[number], 0 if rows is None else len(rows)
        else:
            version = each.version
            size = sum(file.data_bytes for file in plan.survey.files[version])
            yield LogPosition(version, each.end_seq - 1, each.fence), size, each.rows


def _with_seq(stores: TableStores, position: LogPosition) -> LogPosition:
    if position.seq >= 0:
        return position
    rows = fetch_wal_log(stores, position.wal)
    assert rows is not None  # a file without rows is in no stretch
    return LogPosition(position.version, int(rows.seqs[-1]), position.wal)
