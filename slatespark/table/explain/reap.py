"""The explanation of a reap, from the properties of files: no row is read, so the bounds lie far apart."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from slatespark.options import ReadOptions
from slatespark.ranges import ALL_KEYS
from slatespark.storage.requests import Requests
from slatespark.table.clock import Clock
from slatespark.table.definition.versions import fetch_definition
from slatespark.table.explain.cost import NOTHING, RequestRange
from slatespark.table.explain.explanation import ExplanationFacts, ReapOutlook, layer_uses
from slatespark.table.explain.meter import Meter
from slatespark.table.explain.overheads import commits, definition_change
from slatespark.table.read.fetch import fetch_wal_rows
from slatespark.table.read.planning.layers import distinct_files, fetch_layers
from slatespark.table.read.planning.plan import Layer, SstFile
from slatespark.table.read.versions.file_properties import file_properties
from slatespark.table.read.versions.resolve import resolve_snapshot
from slatespark.table.retention.deletion_time import resolve_deletion_time
from slatespark.table.retention.expiry_files import MAX_GAP_BYTES
from slatespark.table.retention.history_floor import followed
from slatespark.table.retention.plan import FilePlan, StoredView, plan_files
from slatespark.table.retention.reap_report import MAX_PINNED_VERSIONS
from slatespark.table.retention.reap_run import MAX_BATCH_BYTES
from slatespark.table.retention.reap_state import due_until_ms
from slatespark.table.retention.reap_tombstones import wal_keys
from slatespark.table.stores import TableStores

_NOTHING_DUE: Final = FilePlan((), ())
_READS: Final = 3  # of a file with due rows, at most: to count them, to search them, to rewrite the file
_OUTLINE_REQUESTS: Final = 2
_OUTLINE_BYTES: Final = 64 << 10  # of a footer and slatespark's properties; the index behind the rows is counted apart
_LAST_REAP: Final = Requests(get=40, list=8, read_bytes=1 << 20)  # at most, to find it among recent commit records


@dataclass(frozen=True, slots=True)
class _Prospect:
    """What a reap would find.

    Attributes
    ----------
    layers : the layers of the table
    plan : what goes, and what has to be looked at; nothing if no row can be due
    checkpoints : whose versions a reap looks at in the end
    unknown : files without known properties, which a reap reads first
    has_moving_floor : whether a reap looks first whether the history floor is to be raised
    """

    outlook: ReapOutlook
    layers: tuple[Layer, ...] = ()
    plan: FilePlan = _NOTHING_DUE
    checkpoints: int = 0
    unknown: tuple[SstFile, ...] = ()
    has_moving_floor: bool = False


def explain_reap(
    stores: TableStores,
    clock: Clock,
    *,
    max_batch_bytes: int | None = None,
    now_ms: int | None = None,
) -> ExplanationFacts:
    """Return what a reap would drop and look at, and what it costs at most.

    Parameters
    ----------
    max_batch_bytes, now_ms : as for `reap_table`

    Raises
    ------
    TableNotFoundError, OptionError, UnsupportedFormatError, CorruptDataError
        As `reap_table`.
    """
    meter = Meter.on(stores)
    found = _read_prospect(meter.stores, clock, now_ms)
    planning, outlook = meter.requests, found.outlook
    considered = distinct_files(found.layers)
    dropped = {view.part.file for view in found.plan.drops}
    examined = {view.stored.part.file for view in found.plan.due} - dropped
    young = len(considered) - len(dropped) - len(examined)
    used = dropped | examined
    return ExplanationFacts(
        url=stores.url,
        operation="reap",
        version=outlook.version,
        estimated=RequestRange.of(planning) + _work(found, considered, max_batch_bytes or MAX_BATCH_BYTES, planning),
        planning=planning,
        layers=layer_uses(found.layers, used),
        files=len(considered),
        skipped={"no row is past retention": young} if young else {},
        plan=outlook,
    )


def _read_prospect(stores: TableStores, clock: Clock, now_ms: int | None) -> _Prospect:
    snapshot = resolve_snapshot(stores, ReadOptions(path=stores.url), clock)
    manifest = snapshot.manifest
    number, definition = fetch_definition(stores, manifest)
    now_ms = resolve_deletion_time(snapshot, definition, clock, now_ms)
    if number:  # else it is that of the parent, whose floor a clone does not move
        definition = followed(definition, now_ms)
    retired_ms, moves = due_until_ms(definition, now_ms), definition.history_retention_ms is not None
    outlook = ReapOutlook(snapshot.manifest_id, now_ms, definition.retention_ms, retired_ms)
    if retired_ms is None:
        return _Prospect(outlook, has_moving_floor=moves)
    layers, known = fetch_layers(stores, manifest), file_properties(stores, manifest)
    wal = fetch_wal_rows(stores, snapshot.wal, manifest.last_l0_seq, ALL_KEYS)
    parts = (part for layer in layers for part in layer.slices)
    views = [
        StoredView(view, part, known.get(part.file.id)) for view, part in zip(manifest.views(), parts, strict=True)
    ]
    plan = plan_files(views, *wal_keys(wal), retired_ms)
    outlook = ReapOutlook(
        outlook.version,
        now_ms,
        definition.retention_ms,
        retired_ms,
        dropped_files=len({view.part.file for view in plan.drops}),
        dropped_bytes=_data_bytes(view.part.file for view in plan.drops),
        examined_files=len({view.stored.part.file for view in plan.due}),
        examined_bytes=_data_bytes(view.stored.part.file for view in plan.due),
    )
    unknown = tuple(file for file in distinct_files(layers) if file.id not in known)
    pinned = min(len({point.manifest_id for point in manifest.checkpoints}), MAX_PINNED_VERSIONS)
    return _Prospect(outlook, layers, plan, pinned, unknown, moves)


def _work(found: _Prospect, files: Iterable[SstFile], batch_bytes: int, planning: Requests) -> RequestRange:
    """Return the requests of a reap besides those to look."""
    total = _floor(planning) if found.has_moving_floor else NOTHING
    if found.outlook.retired_ms is None:
        return total
    total += definition_change(planning)
    total += RequestRange(Requests(), Requests(get=3 * found.checkpoints, list=3 * found.checkpoints + 2))
    total += RequestRange(Requests(), _LAST_REAP if found.checkpoints else Requests())
    for file in found.unknown:
        total += RequestRange(Requests(), _outline(file) + _reads(file.data_bytes))
    passes = found.outlook.examined_bytes // batch_bytes
    least = 1 if found.plan.drops else 0
    most = least + (2 + passes if found.plan.due else 0)
    total += RequestRange(commits(least, planning).low, commits(most, planning).high)
    due = {view.stored.part.file for view in found.plan.due}
    for file in due:
        most_read = Requests()
        for _ in range(_READS):
            most_read += _reads(file.data_bytes)
        rewritten = Requests(
            put=1 + file.data_bytes // MAX_GAP_BYTES, written_bytes=2 * file.data_bytes + _OUTLINE_BYTES
        )
        total += RequestRange(Requests(), _outline(file) + most_read + rewritten)
    for file in set(files) - due if due else ():  # may hold older versions of due rows
        total += RequestRange(Requests(), _outline(file) + _reads(file.data_bytes))
    return total


def _floor(planning: Requests) -> RequestRange:
    """Return the requests to look at the table once more, and to raise its history floor if it is time."""
    look = Requests(get=planning.get, list=planning.list, read_bytes=planning.read_bytes)
    return definition_change(planning) + RequestRange(Requests(), look)


def _outline(file: SstFile) -> Requests:
    sections = file.info.index_len + file.info.filter_len + file.info.stats_len
    return Requests(get=_OUTLINE_REQUESTS, read_bytes=2 * sections + _OUTLINE_BYTES)


def _reads(size: int) -> Requests:
    """Return the most requests that read so many bytes; what lies closer together is read at once."""
    return Requests(get=1 + size // MAX_GAP_BYTES, read_bytes=size)


def _data_bytes(files: Iterable[SstFile]) -> int:
    return sum(file.data_bytes for file in set(files))
