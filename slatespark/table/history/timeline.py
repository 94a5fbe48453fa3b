"""The versions of a table, newest first: when each was committed, by whom, and what it did.

A version is a manifest. Our commit records say more of those we published; of the others only the time is known. A
commit of ours makes two: the claim of the epochs, then the version with the rows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from slatespark.errors import CorruptDataError, SlateError
from slatespark.format.paths import MANIFEST_DIR, MANIFEST_EXTENSION, numbered
from slatespark.table.records import (
    CommitRecord,
    fetch_claimed_digests,
    fetch_claimed_ids,
    fetch_commit_record,
    manifest_digest,
)
from slatespark.table.snapshot import fetch_latest_manifest, manifest_log
from slatespark.table.stores import TableStores
from slatespark.table.write.commit import ENGINE

CLAIM: Final = "claim"


@dataclass(frozen=True, slots=True)
class VersionFacts:
    """One version of a table.

    Attributes
    ----------
    version : the manifest id
    committed_ms : wall clock at publication; of a version without a record, when its object was stored
    operation : `write`, `overwrite`, `create`, ...; `claim` for the step of a commit that takes the epochs over; None
        where nothing is noted, as for everything a SlateDB client publishes
    engine : who committed; None if nothing is noted
    write_id : of the job; None if nothing is noted
    first_seq, last_seq : sequence numbers it used, both inclusive; None if none, or unknown
    rows : row versions that it added, by kind
    files : files that it added; None if nothing is noted
    """

    version: int
    committed_ms: int
    operation: str | None = None
    engine: str | None = None
    write_id: str | None = None
    first_seq: int | None = None
    last_seq: int | None = None
    rows: Mapping[str, int] = field(default_factory=dict)
    files: int | None = None


def list_versions(stores: TableStores, limit: int | None = None) -> tuple[VersionFacts, ...]:
    """Return the newest `limit` versions, newest first; all without a limit.

    Costs two listings, a request per version for its record, and two more per claim.

    Raises
    ------
    TableNotFoundError, UnavailableError
    """
    fetch_latest_manifest(stores)  # says so where there is no table
    numbers = manifest_log(stores).numbers()[::-1][:limit]
    if not numbers:
        return ()
    modified = _stored_ms(stores, numbers[-1])
    claimed = fetch_claimed_ids(stores.main)
    return tuple(_version_facts(stores, number, modified.get(number, 0), claimed) for number in numbers)


def _stored_ms(stores: TableStores, first: int) -> dict[int, int]:
    """Return when the objects of the manifests from `first` on were stored."""
    log = manifest_log(stores)
    listed = stores.main.list(MANIFEST_DIR, log.path(first - 1))
    found = ((numbered(meta.path, MANIFEST_EXTENSION), meta.modified_ms) for meta in listed)
    return {number: modified_ms for number, modified_ms in found if number is not None}


def _version_facts(stores: TableStores, number: int, modified_ms: int, claimed: frozenset[int]) -> VersionFacts:
    record = _find_record(stores, number)
    if record is not None:
        return VersionFacts(
            version=number,
            committed_ms=record.committed_ms,
            operation=record.operation,
            engine=record.engine,
            write_id=record.write_id,
            first_seq=record.first_seq,
            last_seq=record.last_seq,
            rows=record.rows,
            files=len(record.files),
        )
    if number in claimed and _is_claim(stores, number):
        return VersionFacts(number, modified_ms, operation=CLAIM, engine=ENGINE)
    return VersionFacts(number, modified_ms)


def _find_record(stores: TableStores, number: int) -> CommitRecord | None:
    """Return the record of a commit; records are best effort, so a damaged one says nothing."""
    try:
        return fetch_commit_record(stores.main, number)
    except CorruptDataError:
        return None


def _is_claim(stores: TableStores, number: int) -> bool:
    """Tell whether a manifest is the one that a claim of ours announced, rather than one that was faster."""
    with contextlib.suppress(SlateError):
        return manifest_digest(bytes(manifest_log(stores).get(number))) in fetch_claimed_digests(stores.main, number)
    return False
