"""A job of a client's scheduler, merged as the client's own compactor would, and handed back to its coordinator.

What is kept is decided by the manifest that is read after the claim: snapshots that are open in the client, its last
clock tick, and whether anything lies below. A history table keeps what its floor keeps, since the client would drop
versions that we can keep. See docs/explanation/what-a-compaction-keeps.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from slatespark.errors import InvalidRequestError
from slatespark.format.compactions import TieredSpec
from slatespark.format.manifest import NO_TICK, Manifest
from slatespark.format.ulid import Ulid
from slatespark.options import WriteOptions
from slatespark.ranges import ALL_KEYS
from slatespark.table.clock import Clock
from slatespark.table.commit.discard import delete_files
from slatespark.table.compaction.client_snapshots import find_snapshot_seq
from slatespark.table.compaction.copies import copy_rule
from slatespark.table.compaction.filter import CompactionFilter
from slatespark.table.compaction.filter_plan import FilterPlan, check_filters, plan_filters
from slatespark.table.compaction.merge import MergedRange, MergeRules
from slatespark.table.compaction.plan import CompactionPlan, SourceLayer, trees_of
from slatespark.table.compaction.ranges import RANGE_FILES, Runner, plan_tasks
from slatespark.table.compaction.retirement import may_retire_beside_client, refuse_operands, with_allowed_retirement
from slatespark.table.compaction.state import check_operands, fetch_state
from slatespark.table.cooperation.claimed_job import ClaimedJob
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.definition.versions import fetch_definition
from slatespark.table.log.versioned_object import Version
from slatespark.table.read.planning.layers import fetch_layers
from slatespark.table.read.versions.file_properties import file_properties
from slatespark.table.records.filtered_jobs import FilteredJob, publish_filtered_job
from slatespark.table.stores import TableStores

CLIENT: Final = "client"  # the kind of such a plan


@dataclass(frozen=True, slots=True)
class ClientMerge:
    """How jobs of clients are merged.

    Attributes
    ----------
    options : options of the files, and `mergeOperator`
    keeps_codec : new files have the codec of the newest source
    filters : decide about the versions that would be kept
    parallelism : how many ranges are merged at a time
    plain : files known to hold no merge operands
    """

    options: WriteOptions
    keeps_codec: bool = True
    filters: tuple[CompactionFilter, ...] = ()
    parallelism: int = 1
    plain: set[Ulid] = field(default_factory=set)


def merge_client_job(
    stores: TableStores, clock: Clock, job: ClaimedJob, how: ClientMerge, runner: Runner
) -> tuple[CompactionPlan, FilterPlan, MergedRange]:
    """Merge a claimed job and hand it back; return what was merged, and by which rules.

    Parameters
    ----------
    runner : merges the ranges and returns the results in their order

    Raises
    ------
    JobLostError, SourcesGoneError
        When the job is no longer this worker's, or cannot be committed. The outputs are deleted.
    CommitConflictError
        When merge operands came, while rows past the retention of a filter were being removed.
    OptionError
        When there are merge operands, and no operator is known.
    """
    assert isinstance(job.entry.spec, TieredSpec)
    plan = plan_client_job(stores, job.found, job.entry.spec)
    filter_plan = plan_client_merge(stores, clock, job.found.value, plan, how)
    options = how.options
    if how.keeps_codec and plan.files:
        options = replace(options, compression=plan.files[0].info.compression.name.lower())
    tasks = plan_tasks(
        stores,
        plan,
        filter_plan,
        options,
        planned_ms=job.id.timestamp_ms,
        range_bytes=RANGE_FILES * options.sst_bytes,
        parallelism=how.parallelism,
        copies=copy_rule(fetch_definition(stores, job.found.value).value, is_lowest=plan.is_lowest),
    )
    parts: list[MergedRange] = []
    try:
        for part in runner(tasks):
            parts.append(part)
            job.check()
        merged = MergedRange.joined(parts)
        refuse_operands(stores.url, filter_plan.rules, partial(_may_retire, stores, clock, how))
        if filter_plan.removed_visible(merged):
            record_removals(stores, clock, job, plan, merged)
        job.hand_over([file.handle for file in merged.files])
    except BaseException:
        discard_outputs(stores, job, parts)
        raise
    return plan, filter_plan, merged


def discard_outputs(stores: TableStores, job: ClaimedJob, parts: Sequence[MergedRange]) -> None:
    """Delete the outputs of a job that failed before its hand-over."""
    if not job.may_be_handed:
        delete_files(stores, MergedRange.joined(parts).ids)


def record_removals(
    stores: TableStores, clock: Clock, job: ClaimedJob, plan: CompactionPlan, merged: MergedRange
) -> None:
    """Record that a job removes rows which transactions may have read, right before its hand-over."""
    sources = tuple(dict.fromkeys(str(file.id) for file in plan.files))
    outputs = tuple(map(str, merged.ids))
    found = FilteredJob(str(job.id), plan.segment.hex(), sources, outputs)
    publish_filtered_job(stores.main, found, clock.random_bits(64))


def plan_client_job(stores: TableStores, found: Version[Manifest], spec: TieredSpec) -> CompactionPlan:
    """Return the plan that merges the sources of a job, whole, in a version that has them."""
    trees = trees_of(found.number, found.value, fetch_layers(stores, found.value))
    layers = next((tree.layers for tree in trees if tree.segment == spec.segment), ())
    merged = [at for at, source in enumerate(layers) if _is_source(source, spec)]  # none if all sources are empty
    below = layers[max(merged) + 1 :] if merged else ()
    above = layers[: min(merged)] if merged else ()
    return CompactionPlan(
        kind=CLIENT,
        version=found.number,
        sources=tuple(layers[at] for at in merged),
        keys=(ALL_KEYS,),
        destination=spec.destination,
        is_lowest=not below,
        above=frozenset(view.sst_id for source in above for view in source.views),
        segment=spec.segment,
    )


def _is_source(source: SourceLayer, spec: TieredSpec) -> bool:
    if source.run_id is not None:
        return source.run_id in spec.sorted_runs
    return source.views[0].id in spec.l0_view_ids


def plan_client_merge(
    stores: TableStores, clock: Clock, manifest: Manifest, plan: CompactionPlan, how: ClientMerge
) -> FilterPlan:
    """Return the rules of the merge, and the filters to call; raises `OptionError` for operands without an operator."""
    definition = fetch_definition(stores, manifest).value
    rules = client_rules(stores, manifest, definition, how.options, drops_tombstones=plan.is_lowest)
    check_operands(stores, plan, rules, file_properties(stores, manifest))
    filters = check_filters(how.filters, definition, stores.url)
    planned = plan_filters(filters, rules, definition, manifest, stores.url)
    return with_allowed_retirement(planned, filters, partial(_may_retire, stores, clock, how))


def _may_retire(stores: TableStores, clock: Clock, how: ClientMerge) -> bool:
    """Tell whether rows past the retention of a filter may be dropped now."""
    try:
        state = fetch_state(stores, clock, None)
    except InvalidRequestError:  # its WAL is elsewhere, and may hold operands
        return False
    return may_retire_beside_client(stores, state, how.options.merge_operator, how.plain)


def client_rules(
    stores: TableStores,
    manifest: Manifest,
    definition: TableDefinition,
    options: WriteOptions,
    *,
    drops_tombstones: bool,
) -> MergeRules:
    """Return what the client's compactor would keep, or more of a history table."""
    tick_ms = manifest.last_l0_clock_tick
    now_ms = None if tick_ms == NO_TICK else tick_ms
    return MergeRules.of(
        manifest,
        definition,
        options.merge_operator,
        now_ms=now_ms,
        drops_tombstones=drops_tombstones,
        snapshot_seq=find_snapshot_seq(stores, manifest, definition),
    )
