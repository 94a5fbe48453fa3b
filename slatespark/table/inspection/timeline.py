"""The timeline of a table: which files are visible in each key interval, and which are overshadowed.

The replacement of an interval hides the files that were visible there: they are overshadowed, and their rows are
unreachable. Commit records list the replaced intervals; the previous versions, if they still exist, show the replaced
files. Files that are still visible in other intervals reveal it themselves.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from slatespark.encoding.row_codec import RowCodec
from slatespark.errors import CorruptDataError, SlateError, SnapshotExpiredError
from slatespark.options import Call, ReadOptions
from slatespark.shown import Shown
from slatespark.table.clock import Clock
from slatespark.table.definition.versions import resolve_definition
from slatespark.table.inspection.timeline_intervals import (
    Replacement,
    TimelineInterval,
    VersionPast,
    cut_intervals,
    plan_spans,
    replaced_keys,
    without_slivers,
)
from slatespark.table.log.manifests import fetch_manifest
from slatespark.table.read.planning.layers import fetch_layers
from slatespark.table.read.planning.plan import Layer
from slatespark.table.read.versions.file_properties import MAX_COMMIT_RECORDS
from slatespark.table.read.versions.resolve import resolve_snapshot
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.records.commits import newest_commit_records
from slatespark.table.records.operations import Operation
from slatespark.table.stores import TableStores

MAX_REPLACEMENTS: Final = 100  # newest ones; each costs the read of a manifest


@dataclass(frozen=True, slots=True, repr=False)
class KeyTimeline(Shown):
    """The timeline of one version.

    Attributes
    ----------
    url : the location of the table
    version : the manifest id
    intervals : ascending; none for keys without a known file
    replacements : newest first
    wal_files : number of WAL files above all layers; their keys are not examined
    codec : how the table encodes rows, to format keys
    """

    url: str
    version: int
    intervals: tuple[TimelineInterval, ...]
    replacements: tuple[Replacement, ...]
    wal_files: int
    codec: RowCodec


def read_timeline(stores: TableStores, options: ReadOptions, clock: Clock) -> KeyTimeline:
    """Return the timeline of the version that a read with these options resolves to.

    Reads the newest commit records, and a manifest for each replacement.

    Raises
    ------
    TableNotFoundError, HistoryTrimmedError, OptionError, CorruptDataError
    """
    options.require_options_of(Call.INSPECTION, "A timeline")
    snapshot = resolve_snapshot(stores, options, clock)
    layers = fetch_layers(stores, snapshot.manifest)
    records = _records_until(stores, snapshot.manifest_id)
    replacing = _in_force(records)[:MAX_REPLACEMENTS]
    before = {record.manifest_id: _layers_before(stores, record.manifest_id) for record in replacing}
    spans = plan_spans(layers, VersionPast(replacing, before, _added(records)))
    replacements = tuple(item for record in replacing for item in _replacements(record))
    intervals, codec = cut_intervals(spans, replacements), resolve_definition(stores, snapshot.manifest).codec()
    return KeyTimeline(
        url=stores.url,
        version=snapshot.manifest_id,
        intervals=tuple(without_slivers(intervals, codec)),
        replacements=replacements,
        wal_files=snapshot.wal.end - snapshot.wal.start if snapshot.wal.last_seq else 0,
        codec=codec,
    )


# --- commit records and previous versions ---------------------------------------------------------------------------


def _records_until(stores: TableStores, version: int) -> list[CommitRecord]:
    """Return slatespark's commit records up to a version, newest first; none if one is damaged: this is best effort."""
    try:
        found = newest_commit_records(stores.main, MAX_COMMIT_RECORDS)
        return [record for record in found if record.manifest_id <= version]
    except CorruptDataError:
        return []


def _in_force(records: Sequence[CommitRecord]) -> list[CommitRecord]:
    """Return the records of replacements since the last restore or trim."""
    found = []
    for record in records:
        if record.operation in (Operation.RESTORE, Operation.TRIM):
            break
        with contextlib.suppress(TypeError, ValueError):  # a damaged record is ignored
            if replaced_keys(record):
                found.append(record)
    return found


def _added(records: Iterable[CommitRecord]) -> dict[str, int]:
    return {file_id: record.manifest_id for record in records for file_id in record.files}


def _layers_before(stores: TableStores, version: int) -> tuple[Layer, ...] | None:
    """Return the layers of the previous version; None if it is gone or cannot be read."""
    try:
        return fetch_layers(stores, fetch_manifest(stores, version - 1))
    except (SnapshotExpiredError, FileNotFoundError, SlateError):
        return None


def _replacements(record: CommitRecord) -> Iterator[Replacement]:
    for keys in replaced_keys(record):
        yield Replacement(
            record.manifest_id,
            record.committed_ms,
            record.operation,
            keys.start,
            keys.end,
            sum(record.rows.values()),
        )
