"""Changes of rows that take no sequence number, so that two versions with the same last one may differ.

A live client commits them for us. A load has the number of the rows that it was merged with; a segment that is dropped,
or a compaction with filters, leaves fewer rows. Every other change of the visible rows uses a number.
"""

from __future__ import annotations

from typing import Final

from slatespark.format.manifest import Manifest
from slatespark.table.records.commits import fetch_records_between
from slatespark.table.records.filtered_jobs import fetch_filtered_jobs
from slatespark.table.records.handed_loads import fetch_handed_loads
from slatespark.table.records.operations import Operation
from slatespark.table.stores import TableStores

_MERGES: Final = frozenset({Operation.COMPACT, Operation.VACUUM})


def may_differ(stores: TableStores, start: int, end: int) -> bool:
    """Tell whether rows may have changed in the versions (start, end], though none of them used a number.

    Records tell, so what filters of a client's own remove is not known. Those of loads and of filters whose commit is
    not recorded may be about any version.
    """
    if fetch_handed_loads(stores.main):  # before the commit records, which exist when these are deleted
        return True
    records = fetch_records_between(stores.main, start + 1, end)
    if any(record.operation not in _MERGES for record in records.values()):
        return True
    return bool(fetch_filtered_jobs(stores.main, {}))


def lost_segment(earlier: Manifest, later: Manifest) -> bool:
    """Tell whether a segment with rows has none later, as after its drop, which may not be recorded yet."""
    left = {tree.prefix for tree in later.segments if not tree.is_empty()}
    return any(tree.prefix not in left for tree in earlier.segments if not tree.is_empty())
