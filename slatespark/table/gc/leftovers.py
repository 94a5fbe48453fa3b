"""Leftovers of a table creation that failed before the first version: a definition, files, leases.

While the lease of the failed job lives, such a definition binds every creator of a table at this place; afterwards it
blocks them. If there are signs of an earlier table nothing is deleted: then its manifests are missing. See
docs/reference/table-metadata.md.
"""

from __future__ import annotations

from dataclasses import replace

from slatespark.errors import InvalidRequestError
from slatespark.format.paths import COLUMNS_DIR, COMPACTED_DIR
from slatespark.table.commit.earlier_table import find_earlier_objects
from slatespark.table.commit.wal_place import refuse_dropped
from slatespark.table.definition.versions import DEFINITION_DIR
from slatespark.table.gc.plan import Needs, Reason, Verdict, judge_copies, judge_ssts
from slatespark.table.gc.report import CollectedFile, VacuumReport
from slatespark.table.gc.survey import delete_unchanged, survey_leases
from slatespark.table.log.manifests import fetch_latest_manifest, find_latest_manifest
from slatespark.table.stores import TableStores


def collect_leftovers(stores: TableStores, *, now_ms: int, min_age_ms: int, dry_run: bool) -> VacuumReport:
    """Delete the leftovers of a failed table creation.

    Raises
    ------
    TableNotFoundError
        When there are none.
    RaceLostError
        When a table was created meanwhile.
    InvalidRequestError
        When there was a table, and its manifests are missing.
    """
    ssts, definitions = stores.main.list(COMPACTED_DIR), stores.main.list(DEFINITION_DIR)
    leases = survey_leases(stores, now_ms)
    if not definitions and not leases.verdicts:
        fetch_latest_manifest(stores)  # raises that there is no table
    refuse_dropped(stores)
    if found := find_earlier_objects(stores):
        raise InvalidRequestError(
            f"{stores.url} has no manifest, but {found[0]}.",
            why="There was a table here, and its manifests are missing.",
            todo="Restore them; nothing was deleted.",
        )
    # A copy takes up files of one that died, which are older than its lease.
    live = tuple(replace(lease, created_ms=None) for lease in leases.live)
    needs = Needs(now_ms=now_ms, min_age_ms=min_age_ms, replay_after=0, versions=(), leases=live)
    verdicts = [
        *(("columns", verdict) for verdict in judge_copies(stores.main.list(COLUMNS_DIR), needs)),
        *(("sst", verdict) for verdict in judge_ssts(ssts, needs)),
        *(("lease", verdict) for verdict in leases.verdicts),
    ]
    for meta in definitions:
        reason = needs.young_reason(meta.modified_ms)
        if leases.live:
            lease = leases.live[0]
            reason = Reason(f"job {lease.write_id} is running and may create the table", lease.expires_ms)
        verdicts.append(("definition", Verdict.on(meta, reason, "no table was created")))
    if not dry_run:
        for _, verdict in verdicts:
            if verdict.goes:
                _delete(stores, verdict)
    files = (CollectedFile.of(item, kind, dry_run=dry_run) for kind, item in verdicts)
    return VacuumReport(stores.url, None, now_ms, min_age_ms, dry_run, tuple(files))


def _delete(stores: TableStores, verdict: Verdict) -> None:
    """Delete an object, unless a table was created meanwhile."""
    if find_latest_manifest(stores) is None:
        delete_unchanged(stores.main, verdict.meta)
