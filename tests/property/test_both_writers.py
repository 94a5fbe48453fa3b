"""Our writes and the real client's, interleaved on one database: both read what the model says, after every step."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark import SlateStore
from slatespark.storage import open_store
from slatespark.table.records.commits import newest_commit_records
from tests.support.client import Client, ClientOptions, Delete, Location, Merge, Put, Ttl, Write, Written, read_rows
from tests.support.effort import examples
from tests.support.model import Model
from tests.support.our_reads import our_rows
from tests.support.workload import FAR_FUTURE_MS, Run, Step, client_options, keys, values, workloads

NOW_MS = FAR_FUTURE_MS - 1


@dataclass(frozen=True)
class OurWrite:
    """One commit of ours: rows by `opColumn`, a TTL for all, and how the files are made."""

    rows: tuple[tuple[str, bytes, bytes], ...]
    ttl_ms: int | None
    overwrite: bool
    options: dict[str, Any]


@dataclass(frozen=True)
class ClientSession:
    """The client opens the database, works, and closes with or without a flush of its memtable."""

    options: ClientOptions
    workload: tuple[Step, ...]
    flush: bool
    stays_open: bool  # our next commit finds it open


Turn: TypeAlias = OurWrite | ClientSession


def our_writes() -> st.SearchStrategy[OurWrite]:
    row = st.tuples(st.sampled_from(["put", "put", "delete", "merge"]), keys(), values(max_bytes=3000))
    options = st.fixed_dictionaries(
        {
            "compression": st.sampled_from(["none", "snappy", "zlib", "lz4", "zstd"]),
            "blockSize": st.sampled_from([1024, 4096, 65536]),
            "sstSize": st.sampled_from([2000, 1 << 20]),
            "writeBuffer": st.sampled_from([1000, 1 << 20]),
            "bloomBitsPerKey": st.sampled_from([0, 10]),
        }
    )
    return st.builds(
        OurWrite,
        rows=st.lists(row, min_size=0, max_size=25).map(tuple),
        ttl_ms=st.sampled_from([None, 0, FAR_FUTURE_MS]),
        overwrite=st.sampled_from([False, False, False, True]),
        options=options,
    )


def sessions() -> st.SearchStrategy[ClientSession]:
    return st.builds(
        ClientSession,
        options=client_options(),
        workload=workloads(max_steps=12).map(tuple),
        flush=st.booleans(),
        stays_open=st.booleans(),
    )


@pytest.mark.slow
@settings(max_examples=examples(10))
@given(st.lists(st.one_of(our_writes(), sessions()), min_size=2, max_size=6))
def test_both_read_what_both_wrote(turns: list[Turn]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        location = Location.local(Path(folder) / "db")
        Database(location, str(location.folder), {}).live_through(turns)


class Database:
    """One database, its model, and a client that may still be open."""

    def __init__(self, location: Location, url: str, storage: dict[str, Any]) -> None:
        self.location = location
        self.objects = open_store(url, storage)
        self.model = Model()
        self.store = SlateStore.create(url, **storage)
        self.open_client: Client | None = None

    def live_through(self, turns: list[Turn]) -> None:
        try:
            for turn in turns:
                if isinstance(turn, OurWrite):
                    self.write(turn)
                else:
                    self.run_client(turn)
                self.check()
        finally:
            self.close_client()

    def write(self, turn: OurWrite) -> None:
        table = pa.table(
            {
                "key": pa.array([row[1] for row in turn.rows], pa.binary()),
                "value": pa.array([row[2] for row in turn.rows], pa.binary()),
                "op": pa.array([row[0] for row in turn.rows], pa.string()),
            }
        )
        version = self.store.write(
            table,
            mode="overwrite" if turn.overwrite else "append",
            opColumn="op",
            ttl=turn.ttl_ms if turn.ttl_ms is not None else "none",
            mergeOperator="concat",
            ifClientActive="fence",
            **turn.options,
        )
        if turn.overwrite:
            self.model.versions.clear()
        if turn.rows:
            record = next(newest_commit_records(self.objects, 1))
            assert record.manifest_id == version
            assert record.last_seq is not None
            written = Written(record.last_seq, record.write_time_ms)
            self.model.apply([self.as_write(row, turn.ttl_ms) for row in turn.rows], written)
        self.close_client()

    @staticmethod
    def as_write(row: tuple[str, bytes, bytes], ttl_ms: int | None) -> Write:
        op, key, value = row
        ttl = Ttl(after_ms=ttl_ms)
        return Delete(key) if op == "delete" else Put(key, value, ttl) if op == "put" else Merge(key, value, ttl)

    def run_client(self, session: ClientSession) -> None:
        self.close_client()
        run = Run(self.location, session.options)
        run.model = self.model
        try:
            run.apply(session.workload)
            run.make_durable()
        except BaseException:
            run.client.close(flush=False)
            raise
        if session.stays_open:
            self.open_client = run.client
        else:
            run.client.close(flush=session.flush)

    def close_client(self) -> None:
        if self.open_client is not None:
            client, self.open_client = self.open_client, None
            client.close(flush=False)

    def check(self) -> None:
        ours = our_rows(self.store, now=NOW_MS)
        assert ours == self.model.visible(NOW_MS)
        expired = self.model.keys_with_expiry_by(NOW_MS)
        theirs = [row for row in read_rows(self.location) if row.key not in expired]
        assert theirs == [row for row in ours if row.key not in expired]
