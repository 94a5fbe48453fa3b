"""The explanation of an erasure: its survey, its proof and its vacuum are made without changing anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from slatespark.options import WriteOptions
from slatespark.ranges import KeyRange
from slatespark.storage.requests import Requests, delete_requests
from slatespark.table.clock import Clock
from slatespark.table.explain.cost import RequestRange
from slatespark.table.explain.explanation import EraseOutlook, ExplanationFacts, layer_uses
from slatespark.table.explain.meter import Meter
from slatespark.table.explain.overheads import collection, commits, upload
from slatespark.table.explain.read_cost import SplitCosts
from slatespark.table.gc.absence import prove_absent
from slatespark.table.gc.absence_report import AbsenceReport
from slatespark.table.gc.report import VacuumReport
from slatespark.table.gc.run import vacuum_table
from slatespark.table.read.merge.cursor import FILE_WINDOW_BYTES
from slatespark.table.read.planning.layers import distinct_files, fetch_layers
from slatespark.table.read.planning.plan import Layer
from slatespark.table.stores import TableStores
from slatespark.table.write.erase import ErasePlan, plan_erasure

_KINDS_DELETED: Final = 12  # of objects, each deleted by itself
_RECORD_REQUESTS: Final = 3  # to rewrite a record that named a key


def explain_erasure(
    stores: TableStores,
    clock: Clock,
    keys: Sequence[KeyRange],
    options: WriteOptions,
    *,
    release_versions: bool,
) -> ExplanationFacts:
    """Return what an erasure rewrites, where copies are now, and what it costs.

    The plan searches the table as the proof after the erasure does, and lists what its vacuum lists.

    Parameters
    ----------
    keys, options, release_versions : as for `erase_keys`

    Raises
    ------
    SlateError
        As `erase_keys`.
    """
    meter = Meter.on(stores)
    plan = plan_erasure(meter.stores, clock, keys, options)
    surveyed = meter.requests
    proof = prove_absent(meter.stores, clock, keys)
    vacuum = vacuum_table(meter.stores, clock, min_age_ms=0, dry_run=True)
    planning = meter.requests
    searched = planning - surveyed
    layers = fetch_layers(stores, plan.snapshot.manifest)
    considered = distinct_files(layers)
    used = frozenset(part.file for part in plan.parts)
    rewriting = _rewriting(stores, plan, options, planning) if plan.commits else RequestRange()
    most = Requests()
    for _ in range(4 if release_versions else 2):  # the erasure, then the vacuum and the proof, perhaps both twice
        most += searched + _vacuum_at_most(vacuum, planning)
    most += _after(plan, proof, rewriting)
    return ExplanationFacts(
        url=stores.url,
        operation="erase",
        version=plan.snapshot.manifest_id,
        estimated=RequestRange.of(surveyed) + rewriting + RequestRange(Requests(), most),
        planning=planning,
        layers=layer_uses(layers, used),
        files=len(considered),
        skipped={"no row of the keys": len(considered) - len(used)} if len(used) < len(considered) else {},
        plan=EraseOutlook(
            version=plan.snapshot.manifest_id,
            files=len(used),
            bytes=sum(file.data_bytes for file in used),
            wal_rows=plan.wal_rows,
            copies=len(proof.found),
            rows=proof.rows,
        ),
    )


def _rewriting(stores: TableStores, plan: ErasePlan, options: WriteOptions, planning: Requests) -> RequestRange:
    """Return the requests to rewrite files and to commit."""
    costs = SplitCosts(stores, 0, files=frozenset(part.file for part in plan.parts), is_concurrent=len(plan.parts) > 1)
    total = commits(1, planning)
    for part in plan.parts:
        read = costs.of_layers([Layer("erased", (part,))], FILE_WINDOW_BYTES)
        total += read + upload(options, read.high.read_bytes)
    return total


def _vacuum_at_most(vacuum: VacuumReport, planning: Requests) -> Requests:
    """Return the requests of a vacuum besides its survey, if all that it lists goes."""
    count = len(vacuum.files)
    deletions = Requests(delete=2 * _KINDS_DELETED * delete_requests(max(1, count)) + count)
    return (collection(planning, leases=count, releases=1)).high + deletions


def _after(plan: ErasePlan, proof: AbsenceReport, rewriting: RequestRange) -> Requests:
    """Return the requests for what the erasure itself adds: records that forget keys, and a search of new files."""
    records = len(proof.found) + len(plan.parts)
    written = rewriting.high.written_bytes
    forgets = Requests(get=_RECORD_REQUESTS * records, put=_RECORD_REQUESTS * records, list=_RECORD_REQUESTS)
    searches = Requests(get=4 * rewriting.high.put, read_bytes=2 * written)
    return forgets + searches + Requests(written_bytes=written)
