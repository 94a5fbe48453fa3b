"""The table property autoCompact: a write that leaves many small runs merges them, in a commit of its own.

Each write adds a run, and each read merges all of them. The merge is bounded, and it is no part of the write: whatever
goes wrong with it, the rows are written. What had to fail once would fail at every write, after all its work; so once
`.compactions` tells of a failure, it is tried again when the small runs have become another `MIN_RUNS` more.
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

SMALL_BYTES: Final = 16 << 20  # a run below it is small
MIN_RUNS: Final = 16  # so many small runs are too many
MIN_SERIES: Final = 4  # so many have to follow each other
MAX_RUNS: Final = 64  # are merged at once: 1 GiB at most

_log = logging.getLogger(__name__)


def compact_after_write(stores: TableStores, clock: Clock, record: CommitRecord | None, options: WriteOptions) -> None:
    """Merge the small runs of a table if a write has left too many; fails never, and may do nothing.

    A failure is logged, unless others have changed the table meanwhile.

    Parameters
    ----------
    record : of the write's commit; None if it made none
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
        return  # somebody is at it, and one of both would be in vain
    if any(job.status is CompactionStatus.FAILED for job in listed.jobs) and not is_worth_a_retry(trees, record):
        return
    if definition.merge_operator is None and _holds_operands(stores, plan.files, file_properties(stores, manifest)):
        return
    left = _left_by(record, manifest)
    refuse_foreign_client(stores, *fetch_latest_manifest(stores), left, now_ms=clock.now_ms())
    compact_table(stores, clock, pick=plan_after_write, options=_options(options), baseline=left)


def _left_by(record: CommitRecord, manifest: Manifest) -> Baseline:
    """Return how far the database had come with a commit, which fenced the WAL: what is beyond is of others."""
    return Baseline(
        record.manifest_id,
        manifest.writer_epoch,
        manifest.compactor_epoch,
        manifest.last_l0_seq,
        manifest.replay_after_wal_id + 1,
    )


def plan_after_write(trees: Trees) -> CompactionPlan | None:
    """Return the plan that merges the small runs of a table; None while there are few."""
    if len(_small_runs(trees)) < MIN_RUNS:
        return None
    return plan_small_runs(trees, below_bytes=SMALL_BYTES, at_least=MIN_SERIES, at_most=MAX_RUNS)


def is_worth_a_retry(trees: Trees, record: CommitRecord) -> bool:
    """Tell whether a write brought the small runs to another `MIN_RUNS` more; so each of them is counted once."""
    small = _small_runs(trees)
    before = [run for run in small if any(str(view.sst_id) not in record.files for view in run.views)]
    return len(small) // MIN_RUNS > len(before) // MIN_RUNS


def _small_runs(trees: Trees) -> list[SourceLayer]:
    return [layer for layer in trees.layers if layer.stored_bytes < SMALL_BYTES]


def _holds_operands(stores: TableStores, files: Sequence[SstFile], known: Mapping[Ulid, SstProperties]) -> bool:
    """Tell whether files may hold merge operands; `known` is what is known of them, the others are asked."""
    told = any(known[file.id].merges for file in files if file.id in known)
    return told or count_operands(stores, files, known) != 0


def _options(options: WriteOptions) -> WriteOptions:
    """Return how the merged files are written: as those of the write. A client that came since is left alone."""
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
