"""The compaction of the table property autoCompact: small runs, or due files.

The next attempt after a failure waits: for another `MIN_RUNS` small runs, or an hour for due files. One that fails once
would probably fail at every write, after all its work; `.compactions` lists the failure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from slatespark.format.compactions import CompactionStatus
from slatespark.format.manifest import Manifest
from slatespark.format.properties import SstProperties
from slatespark.format.ulid import Ulid
from slatespark.options import WriteOptions
from slatespark.table.clock import Clock
from slatespark.table.commit.active_jobs import runs_here
from slatespark.table.commit.foreign_clients import Baseline, refuse_foreign_client
from slatespark.table.compaction.periodic_plan import find_due_files
from slatespark.table.compaction.plan import (
    DUE,
    CompactionPlan,
    Pick,
    SourceLayer,
    Tree,
    plan_due,
    plan_small_runs,
    trees_of,
)
from slatespark.table.compaction.request import CompactionRequest
from slatespark.table.compaction.run import compact_table
from slatespark.table.compaction.small_runs import MAX_RUNS, MIN_RUNS, MIN_SERIES, SMALL_BYTES
from slatespark.table.compaction.state import count_operands, expired_until_ms
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.log.compactions import fetch_compactions
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read.planning.layers import distinct_files, fetch_layers
from slatespark.table.read.planning.plan import SstFile
from slatespark.table.read.versions.file_properties import file_properties
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.retention.deletion_time import default_deletion_time
from slatespark.table.stores import TableStores
from slatespark.units import HOUR_MS

WRITES_PER_ROUND: Final = 8  # of many segments that are due at once, each write merges the runs of so small a part
RETRY_MS: Final = HOUR_MS  # pause after a failure, for due files


def compact_automatically(
    stores: TableStores,
    clock: Clock,
    record: CommitRecord,
    options: WriteOptions,
    manifest: Manifest,
    definition: TableDefinition,
) -> None:
    """Merge the small runs of a table if a write has left too many, else rewrite its due files.

    Parameters
    ----------
    manifest, definition : manifest and definition as its commit left them
    """
    trees = trees_of(record.manifest_id, manifest, fetch_layers(stores, manifest))
    pick: Pick = plan_after_write
    if not (planned := _plans_of(pick, trees)):
        pick = partial(plan_due, due=_find_due(stores, clock, manifest, definition, trees))
        planned = _plans_of(pick, trees)
    if not planned or _has_to_wait(stores, clock, planned, record):
        return
    known = file_properties(stores, manifest)
    if definition.merge_operator is None and any(_holds_operands(stores, plan.files, known) for _, plan in planned):
        return
    # The commit fenced the WAL: anything beyond is the work of another client.
    left = Baseline.of(record.manifest_id, manifest, manifest.replay_after_wal_id + 1)
    if not options.cooperates:
        refuse_foreign_client(stores, fetch_latest_manifest(stores), left, now_ms=clock.now_ms())
    request = CompactionRequest(max_jobs=-(-len(trees) // WRITES_PER_ROUND))
    compact_table(stores, clock, request, _merge_options(options), pick=pick, baseline=left)


def _plans_of(pick: Pick, trees: Sequence[Tree]) -> list[tuple[Tree, CompactionPlan]]:
    return [(tree, plan) for tree in trees if (plan := pick(tree)) is not None]


def _find_due(
    stores: TableStores, clock: Clock, manifest: Manifest, definition: TableDefinition, trees: Sequence[Tree]
) -> frozenset[Ulid]:
    """Return the files of a version of slatespark that are due under `periodicCompactionInterval`."""
    interval_ms = definition.periodic_compaction_ms
    files = distinct_files(source.layer for tree in trees for source in tree.layers)
    present_ms = clock.now_ms()
    # No request for tables of young files. One that was copied under a newer name has to wait a little longer.
    if interval_ms is None or all(file.id.timestamp_ms + interval_ms > present_ms for file in files):
        return frozenset()
    # Such a version has no WAL, so its tick is the last one.
    now_ms = default_deletion_time(manifest.last_l0_clock_tick, definition, clock)
    return find_due_files(
        files,
        file_properties(stores, manifest),
        interval_ms,
        present_ms=present_ms,
        expired_ms=expired_until_ms(definition, now_ms),
    )


def _has_to_wait(
    stores: TableStores, clock: Clock, planned: Sequence[tuple[Tree, CompactionPlan]], record: CommitRecord
) -> bool:
    """Tell whether a compaction is running, with which this one could conflict, or one has failed not long ago."""
    listed, now_ms = fetch_compactions(stores)[1], clock.now_ms()
    if any(runs_here(stores, job, now_ms) for job in listed.active_jobs()):
        return True
    failed = [job for job in listed.jobs if job.status is CompactionStatus.FAILED]
    if any(plan.kind == DUE for _, plan in planned):
        return any(now_ms - job.id.timestamp_ms < RETRY_MS for job in failed)
    return bool(failed) and not any(is_worth_a_retry(tree, record) for tree, _ in planned)


def plan_after_write(tree: Tree) -> CompactionPlan | None:
    """Return the plan that merges the small runs of a tree; None if there are few."""
    if len(_small_runs(tree)) < MIN_RUNS:
        return None
    return plan_small_runs(tree, below_bytes=SMALL_BYTES, at_least=MIN_SERIES, at_most=MAX_RUNS)


def is_worth_a_retry(tree: Tree, record: CommitRecord) -> bool:
    """Tell whether a write raised the number of small runs past the next multiple of `MIN_RUNS`."""
    small = _small_runs(tree)
    before = [run for run in small if any(str(view.sst_id) not in record.files for view in run.views)]
    return len(small) // MIN_RUNS > len(before) // MIN_RUNS


def _small_runs(tree: Tree) -> list[SourceLayer]:
    return [layer for layer in tree.layers if layer.stored_bytes < SMALL_BYTES]


def _holds_operands(stores: TableStores, files: Sequence[SstFile], known: Mapping[Ulid, SstProperties]) -> bool:
    """Tell whether files may hold merge operands; reads the statistics of those that are not in `known`."""
    told = any(known[file.id].merges for file in files if file.id in known)
    return told or count_operands(stores, files, known) != 0


def _merge_options(options: WriteOptions) -> WriteOptions:
    """Return the options of the merge: file options of the write, and no fencing of a client that came since.

    Where a live client committed the write, it commits the merge too.
    """
    return WriteOptions(
        path=options.path,
        compression=options.compression,
        block_bytes=options.block_bytes,
        sst_bytes=options.sst_bytes,
        bloom_bits_per_key=options.bloom_bits_per_key,
        write_buffer_bytes=options.write_buffer_bytes,
        gc_min_age_ms=options.gc_min_age_ms,
        if_client_active="cooperate" if options.cooperates else "fail",
        client_timeout_ms=options.client_timeout_ms,
        wal_path=options.wal_path,
        storage=options.storage,
    )
