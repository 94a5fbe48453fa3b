"""Writes with a time per row, and what all versions of a history table have to be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pyarrow as pa

from slatespark import SlateStore
from slatespark.options import WriteOptions
from slatespark.table.clock import Clock
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.stores import TableStores
from slatespark.table.write.load_commit import commit_load
from slatespark.table.write.load_plan import begin_load
from slatespark.table.write.load_task import run_task
from tests.support.our_reads import to_ms

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("at", pa.int64())])


@dataclass(frozen=True, slots=True)
class Timed:
    """A row of a write; `name` None is a deletion."""

    id: int
    at: int
    name: str | None = ""
    ttl: int | None = None


@dataclass(slots=True)
class VersionModel:
    """Every version of every key in the order of the table: time, name, expiry."""

    keys: dict[int, list[tuple[int, str | None, int | None]]] = field(default_factory=dict)
    last_seq: int = 0

    def write(self, rows: Iterable[Timed]) -> bool:
        """Add a write: of rows with one key and time the last counts. False if it would break the order."""
        distinct: dict[tuple[int, int], Timed] = {(row.id, row.at): row for row in rows}
        if any(row.at < self.newest(row.id) for row in distinct.values()):
            return False
        for _, row in sorted(distinct.items()):
            expires = None if row.ttl is None or row.name is None else row.at + row.ttl
            self.keys.setdefault(row.id, []).append((row.at, row.name, expires))
        self.last_seq += max(Counter(key for key, _ in distinct).values(), default=0)
        return True

    def newest(self, key: int) -> int:
        versions = self.keys.get(key)
        return versions[-1][0] if versions else -(10**18)

    def stored(self) -> list[tuple[int, int, str | None, int | None]]:
        """All versions by key, newest first."""
        return [(key, *version) for key, versions in sorted(self.keys.items()) for version in reversed(versions)]


def timed_table(rows: Sequence[Timed]) -> pa.Table:
    """The rows with the columns `op` and `ttl` for the options of these names."""
    return pa.table(
        {
            "id": pa.array([row.id for row in rows], pa.int64()),
            "name": pa.array([row.name for row in rows], pa.string()),
            "at": pa.array([row.at for row in rows], pa.int64()),
            "op": pa.array(["put" if row.name is not None else "delete" for row in rows], pa.string()),
            "ttl": pa.array([row.ttl for row in rows], pa.int64()),
        }
    )


TIMED = {"timestampColumn": "at", "opColumn": "op", "ttlColumn": "ttl"}


def write_tasks(
    stores: TableStores, clock: Clock, tasks: Sequence[Sequence[Timed]], *, batch_rows: int = 1000, **options: Any
) -> CommitRecord | None:
    """Write rows as Spark would: each list is a task of its own, all in one commit."""
    parsed = WriteOptions.parse({"path": "p", **TIMED, **options})
    load = begin_load(stores, clock, timed_table(()).schema, parsed)
    assert load is not None
    outputs = [
        run_task(stores, clock, load, number, timed_table(rows).to_batches(max_chunksize=batch_rows))
        for number, rows in enumerate(tasks)
    ]
    return commit_load(stores, clock, load, outputs)


def stored_versions(store: SlateStore, **options: Any) -> list[tuple[int, int, str | None, int | None]]:
    """All versions that a table shows, as `VersionModel.stored`; their sequence numbers have to descend by key."""
    rows = store.scan(readVersions="all", **options).read_all().to_pylist()
    for before, after in pairwise(rows):
        assert before["_key"] != after["_key"] or before["_seq"] > after["_seq"]
    for row in rows:
        assert (row["name"] is None) == (row["_op"] == "delete")
        assert row["name"] is None or row["at"] == to_ms(row["_create_ts"])
    return [(key_of(row), to_ms(row["_create_ts"]) or 0, row["name"], to_ms(row["_expire_ts"])) for row in rows]


def key_of(row: dict[str, Any]) -> int:
    """The key of a row."""
    return int(row["id"])
