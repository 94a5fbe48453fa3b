"""Segmented databases under random changes, ours and the real client's: both read what a plain model says."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark import SlateStore
from slatespark.table.log.manifests import fetch_latest_manifest
from tests.support.client import Client, ClientOptions, Location, read_rows
from tests.support.client_admin import collect_garbage, compact_segments
from tests.support.effort import examples
from tests.support.segments import FixedPrefix, UpTo

FENCE: dict[str, Any] = {"ifClientActive": "fence"}
EXTRACTORS: dict[str, Any] = {"slash": UpTo(b"/"), "fixed": FixedPrefix(2)}

Rows: TypeAlias = dict[bytes, bytes | None]  # None deletes
State: TypeAlias = dict[bytes, bytes]


def named(extractor: str, name: bytes, rest: bytes) -> bytes:
    return (name + b"/" if extractor == "slash" else name.ljust(2, b"-")[:2]) + rest


NAMES = st.text("abc", max_size=2).map(str.encode)
PARTS = st.tuples(NAMES, st.text("012/", max_size=3).map(str.encode))
ROWS = st.dictionaries(PARTS, st.binary(max_size=3) | st.none(), max_size=12)
BOUNDS = st.tuples(st.text("abc/01", max_size=3).map(str.encode), st.text("abc/01", max_size=3).map(str.encode))

STEPS = st.one_of(
    st.tuples(st.just("write"), ROWS),
    st.tuples(st.just("write"), ROWS),
    st.tuples(st.just("transaction"), ROWS),
    st.tuples(st.just("overwrite"), ROWS),
    st.tuples(st.just("replace"), BOUNDS, ROWS),
    st.tuples(st.just("delete range"), BOUNDS),
    st.tuples(st.just("drop"), NAMES),
    st.tuples(st.just("compact"), st.sampled_from(["full", "tiered", "interval"]), BOUNDS),
    st.tuples(st.just("restore"), st.integers(0, 9)),
    st.tuples(st.just("vacuum")),
    st.tuples(st.just("client"), ROWS, st.sampled_from(["wal", "flush", "compact", "collect"])),
    st.tuples(st.just("client"), ROWS, st.sampled_from(["wal", "flush", "compact", "collect"])),
)


@pytest.mark.slow
@pytest.mark.parametrize("extractor", EXTRACTORS)
@settings(max_examples=examples(6))
@given(data=st.data())
def test_segments_show_what_a_plain_model_says(extractor: str, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        database = Database(Location.local(Path(folder) / "db"), extractor)
        for step in data.draw(st.lists(STEPS, min_size=3, max_size=9)):
            database.take(*step)
            database.check()
        database.check_at_the_end()


@dataclass
class Database:
    """A database, what it must show, and what earlier versions showed."""

    location: Location
    extractor: str
    state: State = field(default_factory=dict)
    versions: dict[int, State] = field(default_factory=dict)

    def __post_init__(self) -> None:
        extractor = EXTRACTORS[self.extractor]
        self.options = ClientOptions(compactor=True, segments=extractor)
        self.store = SlateStore.create(str(self.location.folder), versionRetention="1h", **extractor.options)

    def take(self, name: str, *arguments: Any) -> None:
        before = self.store.resolve().version
        steps: dict[str, Callable[..., int | None]] = {
            "write": self.write,
            "transaction": self.transact,
            "overwrite": self.overwrite,
            "replace": self.replace,
            "delete range": self.delete_range,
            "drop": self.drop,
            "compact": self.compact,
            "restore": self.restore,
            "vacuum": self.vacuum,
            "client": self.run_client,
        }
        version = steps[name](*arguments)
        if version is not None and version != before:
            self.versions[version] = dict(self.state)

    # --- ours -------------------------------------------------------------------------------------------------------

    def write(self, parts: dict[tuple[bytes, bytes], bytes | None]) -> int:
        rows = self.keys_of(parts)
        self.apply(rows)
        return self.store.write(as_table(rows), opColumn="op", **FENCE)

    def transact(self, parts: dict[tuple[bytes, bytes], bytes | None]) -> int | None:
        rows = self.keys_of(parts)
        with self.store.begin(**FENCE) as transaction:
            for chosen in (dict(list(rows.items())[::2]), dict(list(rows.items())[1::2])):
                if chosen:
                    transaction.write(as_table(chosen), opColumn="op")
            if rows:
                key = min(rows)
                transaction.write(as_table({key: b"last"}), opColumn="op")
                rows[key] = b"last"
        self.apply(rows)
        return self.store.resolve().version if rows else None

    def overwrite(self, parts: dict[tuple[bytes, bytes], bytes | None]) -> int:
        rows = self.keys_of(parts)
        self.state.clear()
        self.apply(rows)
        return self.store.write(as_table(rows), mode="overwrite", opColumn="op", **FENCE)

    def replace(self, bounds: tuple[bytes, bytes], parts: dict[tuple[bytes, bytes], bytes | None]) -> int | None:
        start, end = sorted(bounds)
        if start == end:
            return None
        rows = {key: value for key, value in self.keys_of(parts).items() if start <= key < end}
        self.cut(start, end)
        self.apply(rows)
        return self.store.write(as_table(rows), mode="overwrite", opColumn="op", startKey=start, endKey=end, **FENCE)

    def delete_range(self, bounds: tuple[bytes, bytes]) -> int | None:
        start, end = sorted(bounds)
        if start == end:
            return None
        self.cut(start, end)
        return self.store.deleteRange(startKey=start, endKey=end, **FENCE)

    def drop(self, name: bytes) -> int:
        prefix = named(self.extractor, name, b"")
        self.cut(prefix, prefix + b"\xff")
        version = self.store.deleteRange(keyPrefix=prefix, **FENCE)
        assert not any(segment.l0 for segment in self.manifest().segments if segment.prefix == prefix)
        return version

    def compact(self, kind: str, bounds: tuple[bytes, bytes]) -> None:
        start, end = sorted(bounds)
        if kind == "full":
            self.store.compact(full=True, **FENCE)
            assert all(len(tree.compacted) == 1 for tree in self.manifest().segments)
        elif kind == "tiered":
            self.store.compact(minCompactionSources=2, **FENCE)
        elif start < end:
            self.store.compact(startKey=start, endKey=end, **FENCE)

    def restore(self, choice: int) -> int | None:
        if not self.versions:
            return None
        chosen = sorted(self.versions)[choice % len(self.versions)]
        self.state = dict(self.versions[chosen])
        self.store.restoreToVersion(chosen, **FENCE)
        return self.store.resolve().version

    def vacuum(self) -> None:
        self.store.vacuum("0h", force=True)

    # --- the client's -----------------------------------------------------------------------------------------------

    def run_client(self, parts: dict[tuple[bytes, bytes], bytes | None], then: str) -> None:
        rows = self.keys_of(parts)
        with Client.open(self.location, self.options) as client:
            for key, value in rows.items():
                client.delete(key) if value is None else client.put(key, value)
            client.flush_wal()
            if then != "wal":
                client.flush_memtable()
            if then in ("compact", "collect"):
                compact_segments(client)
            self.apply(rows)
            assert {row.key: row.value for row in client.scan()} == self.state
        if then == "collect":
            collect_garbage(self.location)

    # --- checks -----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        assert self.shown() == self.state
        manifest = self.manifest()
        assert not manifest.l0
        assert not manifest.compacted

    def check_at_the_end(self) -> None:
        assert {row.key: row.value for row in read_rows(self.location, options=self.options)} == self.state
        for version, state in self.versions.items():
            assert self.shown(versionAsOf=version) == state
        assert self.store.verify().findings == ()
        with Client.open(self.location, self.options) as client:
            assert {key: client.get(key) for key in self.state} == self.state

    def shown(self, **read: Any) -> State:
        return {row["key"]: row["value"] for row in self.store.scan(**read).read_all().to_pylist()}

    def manifest(self) -> Any:
        return fetch_latest_manifest(self.store._stores)[1]

    def prefixes(self) -> list[bytes]:
        return [segment.prefix for segment in self.manifest().segments]

    # --- the model --------------------------------------------------------------------------------------------------

    def keys_of(self, parts: dict[tuple[bytes, bytes], bytes | None]) -> Rows:
        return {named(self.extractor, *part): value for part, value in parts.items()}

    def apply(self, rows: Rows) -> None:
        for key, value in rows.items():
            if value is None:
                self.state.pop(key, None)
            else:
                self.state[key] = value

    def cut(self, start: bytes, end: bytes) -> None:
        self.state = {key: value for key, value in self.state.items() if not start <= key < end}


def as_table(rows: Rows) -> pa.Table:
    return pa.table(
        {
            "key": pa.array(rows, pa.binary()),
            "value": pa.array([value or b"" for value in rows.values()], pa.binary()),
            "op": pa.array(["delete" if value is None else "put" for value in rows.values()], pa.string()),
        }
    )
