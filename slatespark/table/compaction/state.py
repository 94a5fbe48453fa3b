"""CompactionState: the snapshot, layers and file properties that a compaction plans on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from slatespark.errors import OptionError
from slatespark.format.compactions import Compactions
from slatespark.format.properties import SstProperties
from slatespark.format.ulid import Ulid
from slatespark.options import ReadOptions, WriteOptions
from slatespark.storage import run_ahead, run_concurrently
from slatespark.table.clock import Clock
from slatespark.table.commit.active_jobs import is_at_work
from slatespark.table.commit.claim import refuse_unwritable
from slatespark.table.compaction.merge import MergeRules
from slatespark.table.compaction.periodic_plan import find_due_files
from slatespark.table.compaction.plan import CompactionPlan, Tree, trees_of
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.definition.versions import DefinitionFetch
from slatespark.table.log.compactions import fetch_compactions
from slatespark.table.read.fetch import fetch_stats
from slatespark.table.read.merge.merge_function import resolve_operator
from slatespark.table.read.planning.layers import distinct_files, fetch_layers
from slatespark.table.read.planning.plan import SstFile
from slatespark.table.read.versions.file_properties import begin_listing, file_properties
from slatespark.table.read.versions.resolve import resolve_snapshot
from slatespark.table.retention.deletion_time import resolve_deletion_time
from slatespark.table.snapshot import Snapshot
from slatespark.table.stores import TableStores


@dataclass(frozen=True, slots=True, eq=False)
class CompactionState:
    """The state that a job of a compaction plans on.

    Attributes
    ----------
    number, definition : number and definition of the table; the number is None for a raw table without a definition,
        and 0 for a clone that uses its parent's
    trees : those with files
    known : properties of files, from commit records
    jobs : the newest list of compactions
    """

    snapshot: Snapshot
    number: int | None
    definition: TableDefinition
    now_ms: int
    trees: tuple[Tree, ...]
    known: Mapping[Ulid, SstProperties]
    jobs: Compactions

    @property
    def expired_ms(self) -> int | None:
        """Versions that expired at or before it may be dropped; None if none may, so that as-of reads stay exact."""
        return expired_until_ms(self.definition, self.now_ms)

    def due_files(self, clock: Clock) -> frozenset[Ulid]:
        """Return the files that are due under the table's `periodicCompactionInterval`."""
        return find_due_files(
            distinct_files(source.layer for tree in self.trees for source in tree.layers),
            self.known,
            self.definition.periodic_compaction_ms,
            present_ms=clock.now_ms(),
            expired_ms=self.expired_ms,
        )


def expired_until_ms(definition: TableDefinition, now_ms: int) -> int | None:
    """Return the instant up to which expired versions may be dropped, as `CompactionState.expired_ms`."""
    if not definition.has_history:
        return now_ms
    floor_ms = definition.full_history_ts_low_ms
    return None if floor_ms is None else min(now_ms, floor_ms)


def fetch_state(stores: TableStores, clock: Clock, now_ms: int | None) -> CompactionState:
    """Return the present state of a table; raises if there is no table, or it cannot be written.

    Parameters
    ----------
    now_ms : the instant at which expiry and retention are evaluated; for the default see `resolve_deletion_time`
    """
    fetch, listing = DefinitionFetch(stores), begin_listing(stores)
    listed = run_ahead(partial(fetch_compactions, stores), is_remote=stores.main.is_remote)
    snapshot = resolve_snapshot(stores, ReadOptions(path=stores.url), clock, fetch)
    manifest = snapshot.manifest
    refuse_unwritable(stores.url, manifest)
    number, definition = fetch.resolve(snapshot.version)
    judged_ms = resolve_deletion_time(snapshot, definition, clock, now_ms)
    jobs = listed().value
    busy = [job.spec for job in jobs.active_jobs() if is_at_work(stores, job, clock.now_ms())]
    found = trees_of(snapshot.manifest_id, manifest, fetch_layers(stores, manifest))
    trees = tuple(tree.with_busy(busy) for tree in found)
    known = file_properties(stores, manifest, listing=listing)
    return CompactionState(snapshot, number, definition, judged_ms, trees, known, jobs)


# --- operands ---------------------------------------------------------------------------------------------------------


def count_operands(stores: TableStores, files: Iterable[SstFile], known: Mapping[Ulid, SstProperties]) -> int | None:
    """Return how many merge operands files hold; None if one of them has no statistics.

    Parameters
    ----------
    known : properties of files, each of which saves a request
    """
    asked = []
    total = 0
    for file in files:
        if file.id in known:
            total += known[file.id].merges
        else:
            asked.append(partial(fetch_stats, stores, file))
    answers = run_concurrently(asked, is_remote=stores.main.is_remote)
    told = [stats.num_merges for stats in answers if stats is not None]
    return total + sum(told) if len(told) == len(answers) else None


def check_operands(
    stores: TableStores, plan: CompactionPlan, rules: MergeRules, known: Mapping[Ulid, SstProperties]
) -> None:
    """Refuse operands without an operator, before any row is read; raises `OptionError`.

    Parameters
    ----------
    known : as for `count_operands`; files that do not tell are refused by the merge, if need be
    """
    if resolve_operator(rules.merge_operator) is None and count_operands(stores, plan.files, known):
        raise OptionError(
            f"mergeOperator: {stores.url} holds merge operands, but no merge operator is known.",
            todo="Give the option mergeOperator, the same as that of SlateDB clients, or set the table's property.",
        )


def hold_no_operands(sst_ids: Iterable[Ulid], known: Mapping[Ulid, SstProperties]) -> bool:
    """Tell whether files are known to hold no merge operands."""
    return all(sst_id in known and not known[sst_id].merges for sst_id in sst_ids)


def check_operator(options: WriteOptions, definition: TableDefinition, table: str) -> None:
    """Refuse an operator other than that of reads: a compaction folds for good."""
    given, own = options.merge_operator, definition.merge_operator
    if given is None or own is None or resolve_operator(given) is resolve_operator(own):
        return
    raise OptionError(
        f"mergeOperator: {given} was given, but the merge operator of {table} is {own}.",
        why="A compaction folds operands for good.",
        todo="Leave the option out, or change the table's property.",
    )
