"""Compares what is there with slatespark's commit records, which have a checksum, as manifests have none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import takewhile

from slatespark.errors import CorruptDataError, TableNotFoundError, UnsupportedFormatError
from slatespark.format.paths import manifest_path
from slatespark.table.definition.versions import DEFINITION_DIR
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.records.commit_record import COMMITS_DIR, CommitRecord, commit_path
from slatespark.table.records.commits import fetch_records_between, newest_commit_records
from slatespark.table.records.json_objects import list_numbered
from slatespark.table.records.operations import Operation
from slatespark.table.stores import TableStores
from slatespark.table.verify.findings import Findings


def check_manifests(stores: TableStores, digests: Mapping[int, str], findings: Findings) -> None:
    """Note manifests that are not those that commits published, and one that is gone though it was the newest.

    Parameters
    ----------
    digests : of the manifests that were read, by version; the newest is among them
    """
    try:
        for record in _records_of(stores, digests):
            if record.manifest_sha256 is not None and record.manifest_sha256 != digests.get(record.manifest_id):
                url = f"{stores.url}/{manifest_path(record.manifest_id)}"
                findings.damage(url, "manifest", "It is not what its commit published: it was changed, or replaced.")
    except UnsupportedFormatError as exc:
        findings.error(f"{stores.url}/{COMMITS_DIR}", "commit records", exc)
    _check_newest(stores, max(digests), findings)


def check_definition(stores: TableStores, findings: Findings) -> None:
    """Note that there is no definition, though slatespark made the table: each table that it makes has one.

    A clone, whose first version has no record, is read as its parent. A copy has one only if the original has.
    """
    if stores.main.list(DEFINITION_DIR):
        return
    if any(record.operation != Operation.COPY for record in fetch_records_between(stores.main, 1, 1).values()):
        what = "There is no definition, but slatespark made this table: a typed one shows its rows as bytes."
        findings.damage(f"{stores.url}/{DEFINITION_DIR}", "definition", what)


def _records_of(stores: TableStores, digests: Mapping[int, str]) -> Iterable[CommitRecord]:
    """Yield the sound records of versions."""
    first, last = min(digests), max(digests)
    if first == last:
        return fetch_records_between(stores.main, first, last).values()
    newest = newest_commit_records(stores.main, sound_only=True)
    return (each for each in takewhile(lambda each: each.manifest_id >= first, newest) if each.manifest_id in digests)


def _check_newest(stores: TableStores, newest: int, findings: Findings) -> None:
    """Note that a commit has a record, but no manifest any more: a collector never deletes the newest manifest."""
    number = max(list_numbered(stores.main, COMMITS_DIR, commit_path(newest)), default=0)
    if number <= newest:
        return
    try:
        newest = fetch_latest_manifest(stores).number
    except (CorruptDataError, TableNotFoundError, UnsupportedFormatError):
        return
    if number > newest:
        what = (
            f"The object does not exist, but there is a record of its commit: what followed version {newest} is lost."
        )
        findings.damage(f"{stores.url}/{manifest_path(number)}", "object", what)
