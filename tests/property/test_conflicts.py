"""The check of what a commit depends on, against a model that remembers what was committed to which key when."""

from __future__ import annotations

import itertools
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark import SlateStore, TransactionConflictError
from slatespark.options import ReadOptions, WriteOptions
from slatespark.ranges import ALL_KEYS, KeyRange
from slatespark.table.clock import SystemClock
from slatespark.table.commit.conflicts import check_unchanged
from slatespark.table.commit.read_set import ReadSet
from slatespark.table.read.versions.resolve import resolve_snapshot
from slatespark.table.write.load_run import load_batches
from tests.support.client import Client, ClientOptions, Delete, Location, Put
from tests.support.client_admin import compact_full
from tests.support.effort import examples

KEYS = [b"k%d" % number for number in range(10)]
CLIENT = ClientOptions(compactor=True)
_numbers = itertools.count()

Pair: TypeAlias = tuple[bytes, bytes]

some_keys = st.sets(st.sampled_from(KEYS), min_size=1, max_size=3)
intervals = st.tuples(st.sampled_from(KEYS), st.sampled_from([*KEYS, b"l"])).filter(lambda pair: pair[0] < pair[1])
our_steps = st.one_of(
    st.tuples(st.sampled_from(["put", "put", "operand", "delete"]), some_keys),
    st.tuples(st.sampled_from(["delete range", "replace", "delete where"]), intervals),
    st.tuples(st.sampled_from(["compact", "compact", "checkpoint", "claim", "overwrite"]), st.none()),
)
client_steps = st.one_of(
    our_steps,
    st.tuples(st.sampled_from(["client put", "client delete"]), some_keys),
    st.tuples(st.sampled_from(["client flush", "client compact", "client close"]), st.none()),
)


@dataclass
class Reader:
    """What a commit depends on, and what the model says of it since."""

    reads: ReadSet
    written: set[bytes]
    changed: set[bytes] = field(default_factory=set)
    removed: list[KeyRange] = field(default_factory=list)

    @property
    def is_in_conflict(self) -> bool:
        locked = set(self.reads.keys) | {key for key in self.written if self.reads.covers_write(key)}
        return (
            any(key in locked or self.reads.covers(key) for key in self.changed)
            or any(gone.contains(key) for gone in self.removed for key in locked)
            or any(gone.overlaps(keys) for gone in self.removed for keys in self.reads.ranges)
        )


class Table:
    """A table, those who have read it, and a client that may be open."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.store = SlateStore.create(url)
        self.visible: set[bytes] = set()
        self.readers: list[Reader] = []
        self.client: Client | None = None

    def begin(self, keys: set[bytes], ranges: list[Pair], written: set[bytes], covered: list[Pair] | None) -> None:
        """Read: `written` keys in the ranges `covered` must be unchanged, all of them if that is None."""
        snapshot = resolve_snapshot(self.store._stores, ReadOptions.parse({"path": self.url}), SystemClock())
        spans = [KeyRange(*pair) for pair in ranges]
        parts = [ALL_KEYS] if covered is None else [KeyRange(*pair) for pair in covered]
        reads = ReadSet.of(snapshot, keys=keys, ranges=spans, written=parts)
        self.readers.append(Reader(reads, written))

    def change(self, keys: set[bytes], *, gone: bool = False) -> None:
        self.visible = self.visible - keys if gone else self.visible | keys
        for reader in self.readers:
            reader.changed |= keys

    def remove(self, keys: KeyRange) -> None:
        self.visible = {key for key in self.visible if not keys.contains(key)}
        for reader in self.readers:
            reader.removed.append(keys)

    def write(self, keys: set[bytes], **options: Any) -> None:
        rows = pa.table(
            {"key": pa.array(sorted(keys), pa.binary()), "value": pa.array([b"v"] * len(keys), pa.binary())}
        )
        self.store.write(rows, ifClientActive="fence", **options)

    def apply(self, step: str, on: object) -> None:
        if step.startswith("client"):
            self.ask_client(step, on)
        elif isinstance(on, set):
            operation = {"put": "upsert", "operand": "merge", "delete": "delete"}[step]
            self.write(on, operation=operation)
            self.change(on, gone=step == "delete")
        elif isinstance(on, tuple):
            self.apply_to_range(step, KeyRange(*on))
        elif step == "compact":
            self.store.compact(full=True, mergeOperator="concat", ifClientActive="fence")
        elif step == "checkpoint":
            self.store.createCheckpoint(lifetime="1h")
        elif step == "overwrite":
            self.write({KEYS[0]}, mode="overwrite")
            self.remove(KeyRange())
            self.change({KEYS[0]})
        else:  # a commit that changes nothing of these keys
            self.write({b"apart"})
            self.change({b"apart"})

    def apply_to_range(self, step: str, keys: KeyRange) -> None:
        bounds: dict[str, Any] = {"startKey": keys.start, "endKey": keys.end}
        if step == "delete where":
            found = {key for key in self.visible if keys.contains(key)}
            condition = f"key >= X'{keys.start.hex()}' AND key < X'{(keys.end or b'').hex()}'"
            self.store.delete(condition, mergeOperator="concat", ifClientActive="fence")
            self.change(found, gone=True)
        elif step == "delete range":
            before = self.store.detail().version
            if self.store.deleteRange(ifClientActive="fence", **bounds) == before:  # nothing is stored there
                assert not any(map(keys.contains, self.visible))
            else:
                self.remove(keys)
        else:
            self.write({keys.start}, mode="overwrite", **bounds)
            self.remove(keys)
            self.change({keys.start})

    def ask_client(self, step: str, on: object) -> None:
        self.close()  # a commit of ours may have shut it out
        if step == "client close":
            return
        self.client = Client.open(Location.local(Path(self.url)), CLIENT)
        if isinstance(on, set):
            make = Delete if step == "client delete" else (lambda key: Put(key, b"c"))
            self.client.write([make(key) for key in sorted(on)])
            self.client.flush_wal()
            self.change(on, gone=step == "client delete")
        elif step == "client flush":
            self.client.flush_memtable()
        else:
            self.client.flush_memtable()
            compact_full(self.client)

    def close(self) -> None:
        if self.client is not None:
            self.client.close(flush=False)
            self.client = None

    def check(self) -> None:
        """Every reader is in conflict if the model says so; then the last one commits, or is refused."""
        codec, options = self.store.definition.codec(), WriteOptions(path=self.url, if_client_active="fence")
        for reader in self.readers:
            rows = pa.table({"key": sorted(reader.written), "value": [b"own"] * len(reader.written)})
            before = self.store.scan(mergeOperator="concat").read_all()
            table = rows.cast(pa.schema([("key", pa.binary()), ("value", pa.binary())]))
            if reader.is_in_conflict:
                with pytest.raises(TransactionConflictError):
                    self.commit(reader, table, options)
                assert self.store.scan(mergeOperator="concat").read_all() == before
            else:
                check_unchanged(self.store._stores, reader.reads, (), codec, options)
                self.commit(reader, table, options)
                self.change(reader.written)

    def commit(self, reader: Reader, rows: pa.Table, options: WriteOptions) -> None:
        batches = rows.to_batches()
        load_batches(self.store._stores, SystemClock(), rows.schema, batches, options, depends_on=reader.reads)


readers = st.tuples(
    st.sets(st.sampled_from(KEYS), max_size=2),
    st.lists(intervals, max_size=2),
    some_keys,
    st.none() | st.lists(intervals, max_size=2),
)
turns = st.lists(st.one_of(our_steps, our_steps, readers), min_size=2, max_size=10)


def live(url: str, turns: list[tuple[object, ...]]) -> None:
    table = Table(url)
    try:
        table.apply("put", set(KEYS[::2]))
        for turn in turns:
            if isinstance(turn[0], str):
                table.apply(turn[0], turn[1])
            else:
                keys, ranges, written, covered = turn
                assert isinstance(keys, set)
                assert isinstance(ranges, list)
                assert isinstance(written, set)
                assert covered is None or isinstance(covered, list)
                table.begin(keys, ranges, written, covered)
        table.check()
    finally:
        table.close()


@settings(max_examples=examples(13))
@given(turns)
def test_what_others_of_ours_did(turns: list[tuple[object, ...]]) -> None:
    live(f"memory://conflict-model-{next(_numbers)}", turns)


@settings(max_examples=examples(6))
@given(st.lists(st.one_of(client_steps, client_steps, readers), min_size=3, max_size=8))
def test_what_a_client_did_too(turns: list[tuple[object, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        live(str(Path(folder) / "db"), turns)
