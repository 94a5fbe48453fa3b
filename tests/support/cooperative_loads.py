"""Loads that a live client commits, and what they add to the model of its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from slatespark import SlateStore
from slatespark.storage.local_store import LocalStore
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.records.commits import fetch_commit_record
from slatespark.table.records.handed_loads import fetch_handed_loads
from slatespark.table.records.idempotent_writes import fetch_txn_record
from slatespark.table.records.operations import Operation
from tests.support.model import Kind, Model, Version
from tests.support.workload import LONG_PAST_MS


def load_beside(
    folder: Path, rows: Mapping[bytes, bytes | None], *, operands: bool = False, **options: Any
) -> CommitRecord:
    """Write rows through the live client, and return the record of its commit; a value None deletes the key.

    Give it a pair where other jobs of ours may be committed in the same version.
    """
    kinds = ["delete" if value is None else "merge" if operands else "put" for value in rows.values()]
    table = pa.table(
        {
            "key": pa.array(rows.keys(), pa.binary()),
            "value": pa.array([value or b"" for value in rows.values()], pa.binary()),
            "op": kinds,
        }
    )
    store = SlateStore.open(str(folder))
    version = store.write(table, opColumn="op", ifClientActive="cooperate", **options)
    records = _records_of(LocalStore(folder), version)
    if "txnAppId" in options:
        outcome = fetch_txn_record(LocalStore(folder), options["txnAppId"], options["txnVersion"])
        assert outcome is not None
        records = [record for record in records if record.write_id == outcome.write_id]
    record = records[0]
    assert record.operation == Operation.COOPERATIVE_WRITE
    return record


def _records_of(store: LocalStore, version: int) -> list[CommitRecord]:
    """The record of a version, and loads without one: the client may have committed several jobs of ours in it."""
    found = [replace(load.record, manifest_id=version) for load in fetch_handed_loads(store)]
    committed = fetch_commit_record(store, version)
    return found if committed is None else [committed, *found]


def add_load(model: Model, record: CommitRecord, rows: Mapping[bytes, bytes | None], *, operands: bool = False) -> None:
    """Put the rows where the client has them: at the one number of the load, in place of a row with that number."""
    seq = record.first_seq
    assert seq is not None
    assert seq == record.last_seq
    for key, value in rows.items():
        kind = Kind.DELETE if value is None else Kind.MERGE if operands else Kind.PUT
        version = Version(seq, kind, value or b"", record.write_time_ms, None)
        stored = next((each for each in model.versions[key] if each.seq == seq), None)
        model.insert(key, version if stored is None or kind is not Kind.MERGE else _onto(stored, version))


def _onto(stored: Version, operand: Version) -> Version:
    """One version for an operand and a row with its number; what expired long ago, or was deleted, counts as gone."""
    if stored.kind is Kind.DELETE or stored.is_expired(LONG_PAST_MS + 100):
        return operand if stored.kind is Kind.MERGE else replace(operand, kind=Kind.PUT)
    kind = Kind.MERGE if stored.kind is Kind.MERGE else Kind.PUT
    times = [time for time in (stored.create_ts, operand.create_ts) if time is not None]
    return Version(operand.seq, kind, stored.value + operand.value, max(times), stored.expire_ts)
