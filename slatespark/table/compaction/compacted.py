"""Whether a full compaction would change nothing: each tree is one compacted run already."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from slatespark.errors import CorruptDataError
from slatespark.format.properties import SstProperties
from slatespark.kernels.columns import HAS_CREATE
from slatespark.table.compaction.periodic_plan import may_have_expired
from slatespark.table.compaction.plan import Tree
from slatespark.table.compaction.state import CompactionState
from slatespark.table.read.merge.retention import retired_until_ms
from slatespark.table.read.planning.plan import FileSlice
from slatespark.table.records.commits import newest_commit_records
from slatespark.table.records.operations import Operation
from slatespark.table.retention.plan import may_hold_due_rows
from slatespark.table.stores import OWN_ROOT, TableStores

MAX_RECORDS: Final = 16  # newest commit records searched for the compaction that wrote the run, and one for each tree


def find_compacted(
    stores: TableStores, state: CompactionState, *, file_options: Collection[str], compression: str
) -> frozenset[bytes]:
    """Return the prefixes of the trees that are one run, which a compaction wrote, and of which nothing can be dropped.

    File properties decide. If they are unknown, or the WAL holds rows, the answer is no.

    Parameters
    ----------
    file_options : keys of the given options that shape files; any of them but an equal `compression` asks for new files
    compression : codec of new files, as the option names it
    """
    if state.snapshot.wal.last_seq or set(file_options) - {"compression"}:
        return frozenset()
    found = {tree.segment: tree.layers[0].layer.slices for tree in state.trees if _is_one_run(tree)}
    if file_options:
        found = {segment: slices for segment, slices in found.items() if _have_codec(slices, compression)}
    stable = {
        segment: slices for segment, slices in found.items() if not any(_may_change(state, part) for part in slices)
    }
    snapshot_seq = state.snapshot.manifest.recent_snapshot_min_seq
    limit = MAX_RECORDS + len(state.trees) - 1
    written = _find_outputs(stores, limit, snapshot_seq) if stable else frozenset()
    return frozenset(
        segment for segment, slices in stable.items() if all(str(part.file.id) in written for part in slices)
    )


def _is_one_run(tree: Tree) -> bool:
    return len(tree.layers) == 1 and tree.layers[0].run_id is not None


def _have_codec(slices: Sequence[FileSlice], compression: str) -> bool:
    return all(part.file.info.compression.name.lower() == compression for part in slices)


def _may_change(state: CompactionState, part: FileSlice) -> bool:
    """Tell whether a compaction may drop rows of a file, or the file has to be copied from another database."""
    properties = state.known.get(part.file.id)
    if properties is None or part.file.root != OWN_ROOT or not part.is_whole:
        return True
    if state.definition.has_history:
        return _may_lose_history(properties, state.definition.full_history_ts_low_ms)
    # The parent's retention does not apply to a clone without a definition of its own.
    retention_ms = None if state.number == 0 else state.definition.retention_ms
    retired_ms = retired_until_ms(retention_ms, state.now_ms)
    is_past_retention = retired_ms is not None and may_hold_due_rows(properties, retired_ms)
    return properties.deletes > 0 or is_past_retention or may_have_expired(properties, state.now_ms)


def _may_lose_history(properties: SstProperties, floor_ms: int | None) -> bool:
    """Tell whether a file of a history table may hold versions below the floor."""
    if floor_ms is None:
        return False
    if not properties.all_flags & HAS_CREATE or properties.min_create_ts is None:
        return True
    return properties.min_create_ts <= floor_ms


def _find_outputs(stores: TableStores, limit: int, snapshot_seq: int) -> frozenset[str]:
    """Return the names of the files that compactions wrote, by the newest commit records.

    Parameters
    ----------
    snapshot_seq : the lowest number at which a client has a snapshot now. If that has risen since, hidden versions that
        were kept for an earlier one can be dropped
    """
    try:
        records = list(newest_commit_records(stores.main, limit, sound_only=True))
    except CorruptDataError:
        return frozenset()
    final = (
        record
        for record in records
        if record.operation == Operation.COMPACT
        and (record.snapshot_seq is None or record.snapshot_seq >= snapshot_seq)
    )
    return frozenset(name for record in final for name in record.files)
