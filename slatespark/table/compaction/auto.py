"""The table property autoCompact: a write that leaves many small runs merges them, in a separate commit.

Each write adds a run, and each read merges all runs. The merge is bounded and independent of the write: if it fails,
the rows are still written. A merge that fails once would probably fail at every write, after all its work. So once
`.compactions` lists a failure, the next attempt waits for another `MIN_RUNS` small runs.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from slatespark.errors import ConflictError
from slatespark.format.compactions import CompactionStatus
from slatespark.format.manifest import Manifest
from slatespark.format.properties import SstProperties
from slatespark.format.ulid import Ulid
from slatespark.options import WriteOptions
from slatespark.table.clock import Clock
from slatespark.table.commit.active_jobs import runs_here
from slatespark.table.commit.foreign_clients import Baseline, refuse_foreign_client
from slatespark.table.compaction.plan import CompactionPlan, SourceLayer, Trees, plan_small_runs, trees_of
from slatespark.table.compaction.run import compact_table
from slatespark.table.compaction.state import count_operands
from slatespark.table.definition.table_definition import NO_DEFINITION
from slatespark.table.definition.versions import resolve_definition
from slatespark.table.log.compactions import fetch_compactions
from slatespark.table.log.manifests import fetch_latest_manifest, fetch_manifest
from slatespark.table.read.layers import fetch_layers
from slatespark.table.read.plan import SstFile
from slatespark.table.read.properties import file_properties
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.stores import TableStores

SMALL_BYTES: Final = 16 << 20  # smaller runs are small
MIN_RUNS: Final = 16  # small runs that trigger a merge
MIN_SERIES: Final = 4  # small runs in a row that are worth a merge
MAX_RUNS: Final = 64  # merged at once: 1 GiB at most

_log = logging.getLogger(__name__)


def compact_after_write(stores: TableStores, clock: Clock, record: CommitRecord | None, options: WriteOptions) -> None:
    """Merge the small runs of a table if a write has left too many; never raises.

    A failure is logged, unless it was a conflict.

    Parameters
    ----------
    record : of the write's commit; None if there was no commit
    options : of the write
    """
    if record is None:
        return
    try:
        _compact(stores, clock, record, options)
    except ConflictError:
        return
    except Exception as exc:  # the rows are written; `.compactions` lists what was tried
        _log.warning("autoCompact of %s failed: %s", stores.url, exc)


def _compact(stores: TableStores, clock: Clock, record: CommitRecord, options: WriteOptions) -> None:
    manifest = fetch_manifest(stores, record.manifest_id)
    if len(manifest.compacted) < MIN_RUNS or manifest.segments:
        return
    definition = resolve_definition(stores, manifest)
    if definition == NO_DEFINITION or not definition.auto_compacts:
        return
    trees = trees_of(record.manifest_id, manifest, fetch_layers(stores, manifest))
    plan = plan_after_write(trees)
    if plan is None:
        return
    listed = fetch_compactions(stores)[1]
    if any(runs_here(stores, job, clock.now_ms()) for job in listed.active_jobs()):
        return  # one of two concurrent merges would conflict
    if any(job.status is CompactionStatus.FAILED for job in listed.jobs) and not is_worth_a_retry(trees, record):
        return
    if definition.merge_operator is None and _holds_operands(stores, plan.files, file_properties(stores, manifest)):
        return
    left = _left_by(record, manifest)
    refuse_foreign_client(stores, *fetch_latest_manifest(stores), left, now_ms=clock.now_ms())
    compact_table(stores, clock, pick=plan_after_write, options=_options(options), baseline=left)


def _left_by(record: CommitRecord, manifest: Manifest) -> Baseline:
    """Return the state after a commit of ours, which fenced the WAL. Anything beyond is the work of another client."""
    return Baseline(
        record.manifest_id,
        manifest.writer_epoch,
        manifest.compactor_epoch,
        manifest.last_l0_seq,
        manifest.replay_after_wal_id + 1,
    )


def plan_after_write(trees: Trees) -> CompactionPlan | None:
    """Return the plan that merges the small runs of a table; None if there are few."""
    if len(_small_runs(trees)) < MIN_RUNS:
        return None
    return plan_small_runs(trees, below_bytes=SMALL_BYTES, at_least=MIN_SERIES, at_most=MAX_RUNS)


def is_worth_a_retry(trees: Trees, record: CommitRecord) -> bool:
    """Tell whether a write raised the number of small runs past the next multiple of `MIN_RUNS`."""
    small = _small_runs(trees)
    before = [run for run in small if any(str(view.sst_id) not in record.files for view in run.views)]
    return len(small) // MIN_RUNS > len(before) // MIN_RUNS


def _small_runs(trees: Trees) -> list[SourceLayer]:
    return [layer for layer in trees.layers if layer.stored_bytes < SMALL_BYTES]


def _holds_operands(stores: TableStores, files: Sequence[SstFile], known: Mapping[Ulid, SstProperties]) -> bool:
    """Tell whether files may hold merge operands; reads the statistics of those that are not in `known`."""
    told = any(known[file.id].merges for file in files if file.id in known)
    return told or count_operands(stores, files, known) != 0


def _options(options: WriteOptions) -> WriteOptions:
    """Return the options of the merge: file options of the write, and no fencing of a client that came since."""
    return WriteOptions(
        path=options.path,
        compression=options.compression,
        block_bytes=options.block_bytes,
        sst_bytes=options.sst_bytes,
        bloom_bits_per_key=options.bloom_bits_per_key,
        write_buffer_bytes=options.write_buffer_bytes,
        gc_min_age_ms=options.gc_min_age_ms,
        if_client_active="fail",
        wal_path=options.wal_path,
        storage=options.storage,
    )
