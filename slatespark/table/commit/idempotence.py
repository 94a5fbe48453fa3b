"""Idempotent writes: at most one commit takes effect per pair of `txnAppId` and `txnVersion`, even after a lost answer.

The manifest of the commit carries a checkpoint named for the pair, so rows and name become visible together. A
checkpoint's name is the only field of a manifest that slatespark can set and that other clients preserve. A record
under `slatespark/txn/` follows, and the next commit drops the checkpoint, which pins files. A lookup reads the manifest
first and the record second: a pair that has left the one is in the other. The claim comes right after the manifest that
was searched, so no commit lies in between. See docs/explanation/how-a-commit-works.md,
docs/reference/format/checkpoints.md.

Pairs of other writes may come in any order, and their records stay. Those of a stream ascend, and only its last record
is sure to be there. So a lower number is refused: its batch may have been committed and its record deleted, or it comes
from a checkpoint location that was set back, and holds other rows.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final
from uuid import UUID

from slatespark.errors import InvalidRequestError, SlateError, TableNotFoundError
from slatespark.format.manifest import Checkpoint, Manifest
from slatespark.log_lines import log_event
from slatespark.options import WriteOptions
from slatespark.options.values import STREAM_APPS
from slatespark.table.checkpoints.store import LAST_S, OWN_NAMES
from slatespark.table.commit.handed_loads import find_committed_load
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.records.idempotent_writes import (
    TxnRecord,
    fetch_txn_record,
    list_txn_versions,
    publish_txn_record,
)
from slatespark.table.records.operations import ENGINE, Operation
from slatespark.table.stores import TableStores
from slatespark.units import ms_to_s, s_to_ms

TXN_NAMES: Final = f"{OWN_NAMES}txn/"

_NAME: Final = re.compile(rf"{TXN_NAMES}([0-9a-f]{{16}})/(0|[1-9][0-9]{{0,18}})/(.+)", re.ASCII | re.DOTALL)

_log = logging.getLogger(__name__)


def find_outcome(stores: TableStores, manifest: Manifest, options: WriteOptions) -> TxnRecord | None:
    """Return the outcome of the pair of a write; None if there is none, or if the write has no pair.

    Parameters
    ----------
    manifest : the newest one, fetched before this is called

    Raises
    ------
    InvalidRequestError
        When the write is a batch of a stream of which a later one was committed.
    CorruptDataError
        When the record of the pair is damaged.
    UnavailableError
        When the write was handed to a client, and it is not known any more whether that committed it.
    """
    if options.txn is None:
        return None
    app, number = options.txn
    found = None
    if not app.startswith(STREAM_APPS) or refuse_passed_batch(stores, manifest, app, number):
        named = (entry for entry in _outcomes(manifest, app) if entry.version == number)
        found = next(named, None) or fetch_txn_record(stores.main, app, number)
    found = found or find_committed_load(stores, options.txn)
    if found is not None:
        log_event(_log, "already-committed", stores.url, version=found.manifest_id, txnAppId=app, txnVersion=number)
    return found


def refuse_passed_batch(stores: TableStores, manifest: Manifest, app: str, number: int) -> bool:
    """Refuse a batch of a stream of which a later one was committed; return whether this one was.

    Parameters
    ----------
    manifest : the newest one, fetched before this is called

    Raises
    ------
    InvalidRequestError
        When a later one was.
    """
    recorded = list_txn_versions(stores.main, app, least=number)
    last = max((*recorded, *(entry.version for entry in _outcomes(manifest, app))), default=-1)
    if last <= number:
        return last == number
    raise InvalidRequestError(
        f"{stores.url}: batch {number} of the stream {app.removeprefix(STREAM_APPS)} comes after its batch {last}.",
        why="The checkpoint location of the query was set back to an earlier state, or is used by two queries, or a "
        "later run of the query was faster than this one.",
        todo="Unless a later run goes on: start the query with a new checkpointLocation and, if it has a txnAppId, "
        "with another one.",
    )


def find_earlier(
    stores: TableStores, manifest: Manifest, options: WriteOptions, operation: Operation
) -> CommitRecord | None:
    """Return the known facts of the commit that a write repeats; None if it repeats none. See `find_outcome`."""
    outcome = find_outcome(stores, manifest, options)
    return None if outcome is None else _known_record(outcome, operation)


def fetch_outcome(stores: TableStores, options: WriteOptions) -> TxnRecord | None:
    """Return what `find_outcome` finds in the newest version; None if there is no table."""
    if options.txn is None:
        return None
    with contextlib.suppress(TableNotFoundError):
        return find_outcome(stores, fetch_latest_manifest(stores)[1], options)
    return None


def fetch_earlier(stores: TableStores, options: WriteOptions, operation: Operation) -> CommitRecord | None:
    """Return what `find_earlier` finds in the newest version."""
    outcome = fetch_outcome(stores, options)
    return None if outcome is None else _known_record(outcome, operation)


def is_committed(stores: TableStores, options: WriteOptions) -> bool:
    """Tell whether a write was committed before."""
    return fetch_outcome(stores, options) is not None


def outcome_of(options: WriteOptions, manifest_id: int, write_id: str, now_ms: int) -> TxnRecord | None:
    """Return the outcome to record for a write; None if it has no pair."""
    return None if options.txn is None else TxnRecord(*options.txn, manifest_id, write_id, now_ms)


def with_outcome(
    stores: TableStores, manifest: Manifest, own: TxnRecord | None, new_id: Callable[[], UUID]
) -> Manifest:
    """Return the manifest of a commit with its own outcome, and without earlier ones, which have records by then.

    Parameters
    ----------
    own : outcome of this commit, if it has a pair
    """
    points = tuple(point for point in manifest.checkpoints if not _try_record(stores, point))
    if own is not None:
        name = f"{TXN_NAMES}{own.write_id}/{own.version}/{own.app}"
        points += (Checkpoint(new_id(), own.manifest_id, 0, min(ms_to_s(own.committed_ms), LAST_S), name),)
    return replace(manifest, checkpoints=points)


def record_outcome(stores: TableStores, own: TxnRecord | None) -> None:
    """Record an outcome; a failure does not matter, since the checkpoint stays until it is recorded."""
    if own is not None:
        with contextlib.suppress(SlateError):
            publish_txn_record(stores.main, own)


def record_outcomes(stores: TableStores) -> frozenset[UUID]:
    """Record all outcomes that the newest manifest names, and return the ids of their checkpoints.

    These can be released from then on.
    """
    noted = set()
    for point in fetch_latest_manifest(stores)[1].checkpoints:
        if (outcome := _outcome(point)) is not None:
            publish_txn_record(stores.main, outcome)
            noted.add(point.id)
    return frozenset(noted)


def is_outcome(point: Checkpoint) -> bool:
    """Tell whether a checkpoint only carries the outcome of an idempotent write."""
    return _outcome(point) is not None


def _known_record(outcome: TxnRecord, operation: str) -> CommitRecord:
    """Return what is known of the commit that a repeated write repeats."""
    return CommitRecord(
        manifest_id=outcome.manifest_id,
        operation=operation,
        write_id=outcome.write_id,
        engine=ENGINE,
        committed_ms=outcome.committed_ms,
        write_time_ms=outcome.committed_ms,
        first_seq=None,
        last_seq=None,
    )


def _try_record(stores: TableStores, point: Checkpoint) -> bool:
    """Record the outcome that a checkpoint carries; True once it is recorded, so that the checkpoint can go."""
    outcome = _outcome(point)
    if outcome is None:
        return False
    with contextlib.suppress(SlateError):
        publish_txn_record(stores.main, outcome)
        return True
    return False


def _outcomes(manifest: Manifest, app: str) -> list[TxnRecord]:
    """Return the outcomes of an application that checkpoints of a version carry."""
    return [entry for entry in map(_outcome, manifest.checkpoints) if entry is not None and entry.app == app]


def _outcome(point: Checkpoint) -> TxnRecord | None:
    """Return the outcome that a checkpoint carries; None for any other checkpoint."""
    parts = _NAME.fullmatch(point.name or "")
    if parts is None:
        return None
    write_id, version, app = parts.groups()
    return TxnRecord(app, int(version), point.manifest_id, write_id, s_to_ms(point.create_time_s))
