"""From read options to the snapshot that a read sees."""

from __future__ import annotations

from dataclasses import replace

from slatespark.errors import InvalidRequestError, OptionError
from slatespark.format.manifest import Manifest
from slatespark.options import ReadOptions
from slatespark.table.checkpoints.resolve import resolve_checkpoint
from slatespark.table.clock import Clock
from slatespark.table.definition.versions import DefinitionFetch
from slatespark.table.log.manifests import fetch_latest_manifest, fetch_manifest
from slatespark.table.snapshot import Snapshot, fetch_newest_state, make_snapshot, pin_version
from slatespark.table.stores import TableStores


def resolve_snapshot(
    stores: TableStores, options: ReadOptions, clock: Clock, fetch: DefinitionFetch | None = None
) -> Snapshot:
    """Return the snapshot that a read with these options sees.

    Parameters
    ----------
    fetch : a fetch of the definition, which begins when a manifest was seen; one is made if it is needed

    Raises
    ------
    TableNotFoundError, HistoryTrimmedError, SnapshotExpiredError, CorruptDataError, UnsupportedFormatError
    InvalidRequestError, OptionError
        When a version, time or sequence number of the future is asked for.
    """
    if options.read_change_feed:
        raise OptionError("readChangeFeed: this call reads rows, and no changes.", todo="Call changes().")
    if options.timestamp_as_of_ms is not None and options.chooses_version:
        from slatespark.table.read.versions.as_of import known_then  # most reads are of the newest state

        fetch = fetch or DefinitionFetch(stores, reuses=True)
        chosen = resolve_snapshot(stores, replace(options, timestamp_as_of_ms=None), clock, fetch)
        return known_then(stores, chosen, options, clock, fetch)
    if options.timestamp_as_of_ms is not None or options.seq_as_of is not None:
        from slatespark.table.read.versions.as_of import resolve_as_of

        return resolve_as_of(stores, options, clock, fetch or DefinitionFetch(stores, reuses=True))
    if options.checkpoint is None and options.version_as_of is None:
        when_seen = None if fetch is None else fetch.begin
        return make_snapshot(*fetch_newest_state(stores, when_seen), options.now_ms, clock)
    latest_id, latest = fetch_latest_manifest(stores)
    if fetch is not None:
        fetch.begin()
    number = _pinned_version(stores, options, latest_id, latest)
    manifest = latest if number == latest_id else fetch_manifest(stores, number)
    return pin_version(stores, number, manifest, options.now_ms)


def _pinned_version(stores: TableStores, options: ReadOptions, latest_id: int, latest: Manifest) -> int:
    """Return the manifest id that the options ask for."""
    if options.checkpoint is not None:
        return resolve_checkpoint(stores.url, latest, options.checkpoint).manifest_id
    version = options.version_as_of
    assert version is not None  # else the read is of the newest state
    if version > latest_id:
        raise InvalidRequestError(
            f"{stores.url}: versionAsOf {version} does not exist yet.", todo=f"The newest version is {latest_id}."
        )
    return version
