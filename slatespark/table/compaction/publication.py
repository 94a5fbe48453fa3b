"""The commit of a merge: what must hold for it. It is repeated while what others put above its sources is harmless."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from slatespark.errors import CommitConflictError
from slatespark.format.ulid import Ulid
from slatespark.options import WriteOptions
from slatespark.table.clock import Clock
from slatespark.table.commit.commit import commit_write
from slatespark.table.commit.job import WriteJob
from slatespark.table.commit.requirements import FilesExist, Requirement, SameMergeOperator, SameRetention
from slatespark.table.commit.tree_edit import MergeRuns
from slatespark.table.compaction.merge import MergeRules
from slatespark.table.compaction.plan import CompactionPlan
from slatespark.table.compaction.state import CompactionState, hold_no_operands
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read.versions.file_properties import file_properties
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.stores import TableStores

MAX_CONFLICTS: Final = 5  # with files that turn out to be harmless


def merge_requirements(state: CompactionState, plan: CompactionPlan, rules: MergeRules) -> Iterator[Requirement]:
    """Yield what must hold for the outputs of a merge to be published.

    Parameters
    ----------
    state : state from which it was planned
    """
    yield FilesExist()
    has_operands = not hold_no_operands((file.id for file in plan.files), state.known)
    if rules.merge_operator is not None and has_operands:
        yield SameMergeOperator(state.definition)
    if rules.retired_ms is not None:
        yield SameRetention(state.definition)


def publish_merge(
    stores: TableStores,
    clock: Clock,
    job: WriteJob,
    edit: MergeRuns,
    options: WriteOptions,
    requirements: tuple[Requirement, ...],
    *,
    count_lapses: Callable[[], int],
) -> CommitRecord:
    """Commit the outputs of a merge in the place of its sources.

    Parameters
    ----------
    edit : the edit of the trees; its `known_above` grows by new files without operands
    count_lapses : see `FileGuard`

    Raises
    ------
    CommitConflictError
        When the sources changed, or a file above them may hold operands.
    """
    for _ in range(MAX_CONFLICTS):
        try:
            record = commit_write(
                stores, clock, job, (), options, edit=edit, requirements=requirements, count_lapses=count_lapses
            )
        except CommitConflictError:
            above = _find_harmless(stores)
            if edit.known_above is None or above <= edit.known_above:
                raise
            edit = replace(edit, known_above=edit.known_above | above)
            continue
        assert record is not None  # only a write without rows has none
        return record
    raise CommitConflictError(
        f"{stores.url}: {MAX_CONFLICTS} other commits conflicted with this one.", todo="Run it again."
    )


def _find_harmless(stores: TableStores) -> frozenset[Ulid]:
    """Return the files of the newest version that are known to hold no operands."""
    manifest = fetch_latest_manifest(stores)[1]
    known = file_properties(stores, manifest)
    return frozenset(sst_id for sst_id in manifest.ssts if hold_no_operands([sst_id], known))
