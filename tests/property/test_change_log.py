"""The change feed of kind `log`: every write between two positions, in order, or a refusal that names a later start.

The model is the list of writes, each with its sequence number, and the versions that changed rows without writing them.
"""

from __future__ import annotations

import itertools
import json
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark import SlateStore
from slatespark.errors import HistoryTrimmedError
from tests.property.test_changes import (
    BOUNDS,
    COORDINATOR,
    FENCE,
    FILES,
    KEYS,
    NAMES,
    ROWS,
    TTLS,
    TYPED_STEPS,
    RawLife,
    TypedLife,
)
from tests.support.client import Client, Delete, Location, Merge, Put, Ttl, Write
from tests.support.client_admin import collect_garbage, compact_full, compact_segments
from tests.support.effort import examples
from tests.support.feeds import ADDED, key_of, state_of

Logged: TypeAlias = tuple[int, str, bytes, bytes | None]  # seq, what, key, value

STEPS = st.one_of(
    st.tuples(st.just("write"), ROWS, TTLS, FILES),
    st.tuples(st.just("write"), ROWS, TTLS, FILES),
    st.tuples(st.just("overwrite"), ROWS, FILES),
    st.tuples(st.just("delete_range"), BOUNDS),
    st.tuples(st.just("restore"), st.integers(0, 20)),
    st.tuples(st.just("compact"), st.booleans(), BOUNDS),
    st.tuples(st.just("compact"), st.booleans(), BOUNDS),
    st.tuples(st.just("reap")),
    st.tuples(st.just("erase"), st.sampled_from(KEYS)),
    st.tuples(st.just("checkpoint")),
    st.tuples(st.just("run_client"), st.lists(ROWS, max_size=3), TTLS, st.sampled_from(["wal", "flush", "compact"])),
    st.tuples(st.just("run_client"), st.lists(ROWS, max_size=3), TTLS, st.sampled_from(["wal", "flush", "compact"])),
    st.tuples(st.just("conflict")),
)
LOSSES = ("vacuum", "collect", "lose_record")
BESIDE = st.one_of(STEPS, st.tuples(st.just("cooperate"), ROWS), *(st.tuples(st.just(name)) for name in LOSSES))
WORDS = {"put": "upsert", "same": "upsert", "delete": "delete", "merge": "merge"}


@dataclass
class LoggedLife(RawLife):
    """A raw table under both writers, and what they wrote."""

    log: list[Logged] = field(default_factory=list)
    untold: list[int] = field(default_factory=list)  # versions
    lost_records: bool = False  # without its record, a commit that removed nothing may pass for one that only adds

    def take(self, name: str, *arguments: Any) -> None:
        step: Callable[..., None] = getattr(self, name)
        step(*arguments)

    @property
    def seq(self) -> int:
        return self.store.resolve().seq

    # --- ours ---------------------------------------------------------------------------------------------------------

    def rows(self, kinds: dict[bytes, str]) -> list[tuple[str, bytes, bytes | None]]:
        return [(kind, key, None if kind == "delete" else self.value(key, kind)) for key, kind in sorted(kinds.items())]

    def write(self, kinds: dict[bytes, str], ttl_ms: int | None, files: dict[str, Any], **more: Any) -> None:
        rows = self.rows(kinds)
        table = pa.table(
            {
                "key": pa.array([key for _, key, _ in rows], pa.binary()),
                "value": pa.array([value for _, _, value in rows], pa.binary()),
                "op": pa.array(["put" if kind == "same" else kind for kind, _, _ in rows], pa.string()),
            }
        )
        self.store.write(table, opColumn="op", ttl=ttl_ms or "none", **FENCE, **files, **more)
        self.log += [(self.seq, WORDS[kind], key, value) for kind, key, value in rows]

    def overwrite(self, kinds: dict[bytes, str], files: dict[str, Any]) -> None:
        before = self.last_commit()
        puts = {key: kind for key, kind in kinds.items() if kind in ("put", "same")}
        self.write(puts, None, files, mode="overwrite")
        self.mark_untold(before)

    def delete_range(self, bounds: list[bytes]) -> None:
        before = self.last_commit()
        self.store.deleteRange(startKey=bounds[0], endKey=bounds[1], **FENCE)
        self.mark_untold(before)

    def mark_untold(self, before: int) -> None:
        if (latest := self.last_commit()) > before:
            self.untold.append(latest)

    def last_commit(self) -> int:
        """The newest version that has a record; later ones may only change checkpoints."""
        return max((int(path.stem) for path in self.location.folder.glob("slatespark/commits/*.json")), default=0)

    def restore(self, number: int) -> None:
        before, versions = self.last_commit(), self.versions()
        try:
            self.store.restoreToVersion(versions[number % len(versions)], **FENCE)
        except HistoryTrimmedError:  # erased
            return
        self.mark_untold(before)

    def reap(self) -> None:
        if self.retention_ms is not None:
            self.store.reap(**FENCE)

    def erase(self, key: bytes) -> None:
        before = self.last_commit()
        self.store.erase(key, releaseVersions=True, **FENCE)
        self.mark_untold(before)

    def checkpoint(self) -> None:
        self.store.createCheckpoint(lifetime="1h")

    # --- the client ---------------------------------------------------------------------------------------------------

    def run_client(self, batches: list[dict[bytes, str]], ttl_ms: int | None, end: str) -> None:
        with Client.open(self.location, self.client_options) as client:
            for kinds in batches:
                if kinds:
                    self.client_batch(client, kinds, ttl_ms)
                client.flush_wal()
                if end == "flush":
                    client.flush_memtable()
            if end == "compact":
                client.flush_memtable()
                (compact_segments if self.segmented else compact_full)(client)

    def client_batch(self, client: Client, kinds: dict[bytes, str], ttl_ms: int | None) -> None:
        ttl = None if ttl_ms is None else Ttl(after_ms=ttl_ms)
        rows = self.rows(kinds)
        seq = client.write([written(kind, key, value, ttl) for kind, key, value in rows]).seq
        self.log += [(seq, WORDS[kind], key, value) for kind, key, value in rows]

    def conflict(self) -> None:
        """A transaction that is refused takes a number, and writes nothing."""
        with Client.open(self.location, self.client_options) as client:
            self.client_batch(client, {KEYS[0]: "put"}, None)
            transaction = client.begin()
            transaction.put(KEYS[0], b"lost")
            self.client_batch(client, {KEYS[0]: "put"}, None)
            with pytest.raises(Exception, match=r"(?i)conflict"):
                transaction.commit()
            self.client_batch(client, {KEYS[1]: "put"}, None)
            client.flush_wal()

    def cooperate(self, kinds: dict[bytes, str]) -> None:
        """A load that the client commits, at the number of rows that were there before."""
        options = replace(self.client_options, settings=COORDINATOR)
        with Client.open(self.location, options) as client:
            self.client_batch(client, {KEYS[0]: "put"}, None)
            client.flush_memtable()
            if kinds:
                table = pa.table(
                    {"key": pa.array(sorted(kinds), pa.binary()), "value": pa.array([b"load"] * len(kinds))}
                )
                self.untold.append(self.store.write(table, ifClientActive="cooperate") or 0)

    # --- what takes the past away -------------------------------------------------------------------------------------

    def vacuum(self) -> None:
        self.store.vacuum(minAge="0s", force=True, fences=True)

    def collect(self) -> None:
        collect_garbage(self.location)

    def lose_record(self) -> None:
        """Records are best effort, but for those of loads: they exist before the load is forgotten."""
        for path in sorted(self.location.folder.glob("slatespark/commits/*.json"))[-1:]:
            if json.loads(path.read_text())["operation"] != "cooperativeWrite":
                path.unlink()
                self.lost_records = True

    # --- what must be shown -------------------------------------------------------------------------------------------

    def state_seq(self, version: int) -> int:
        return self.store.resolve(versionAsOf=version).seq if version else 0

    def between(self, after_seq: int, last_seq: int) -> list[Logged]:
        return [entry for entry in self.log if after_seq < entry[0] <= last_seq]

    def told(self, after: int, last: int) -> bool:
        return not any(after < version <= last for version in self.untold)


def written(kind: str, key: bytes, value: bytes | None, ttl: Ttl | None) -> Write:
    if value is None:
        return Delete(key)
    return Merge(key, value, ttl) if kind == "merge" else Put(key, value, ttl)


def read_log(store: SlateStore, before: int, after: int | None, **options: Any) -> list[Logged]:
    start: dict[str, Any] = {"startingVersion": max(before, 1)} | ({"startingBoundInclusive": False} if before else {})
    end: dict[str, Any] = {} if after is None else {"endingVersion": after}
    rows = store.changes(changes="log", **start, **end, **options).read_all().to_pylist()
    shown = [row["_commit_version"] for row in rows]
    whole = [version for version in shown if version is not None]
    assert shown == whole + [None] * (len(shown) - len(whole))
    assert whole == sorted(whole)
    assert not whole or (whole[0] > before and (after is None or whole[-1] <= after))
    assert after is None or len(whole) == len(shown)
    return [(row["_seq"], row["_change_type"], row["key"], row["value"]) for row in rows]


def check_logs(life: LoggedLife, data: st.DataObject, *, collected: bool) -> None:
    """Compare the logs of some pairs of positions with the model."""
    versions = life.versions()
    pairs: list[tuple[int, int | None]] = [
        (before, after) for before, after in itertools.combinations([0, *versions], 2) if before < after
    ]
    pairs += [(version, None) for version in [0, *versions]]
    chosen = data.draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=12, unique=True))
    for before, after in [*chosen, (0, None), (versions[-1], None)]:
        try:
            after_seq, last_seq = life.state_seq(before), life.seq if after is None else life.state_seq(after)
        except HistoryTrimmedError:
            assert collected
            continue
        last = versions[-1] if after is None else after
        options = data.draw(st.sampled_from([{}, {"splitSize": 40}]))
        try:
            found = read_log(life.store, before, after, **options)
        except HistoryTrimmedError as exc:
            assert collected or not life.told(before, last)
            check_named_start(life, str(exc), after)
        else:
            assert life.told(before, last) or life.lost_records
            assert found == life.between(after_seq, last_seq)


def check_named_start(life: LoggedLife, message: str, after: int | None) -> None:
    """The version that a refusal names is one that can be started from."""
    named = re.search(r"startingVersion=(\d+), startingBoundInclusive=false", message)
    if named is not None and (after is None or int(named[1]) <= after):
        start = int(named[1])
        last_seq = life.seq if after is None else life.state_seq(after)
        assert read_log(life.store, start, after) == life.between(life.state_seq(start), last_seq)


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["plain", "segmented"])
@settings(max_examples=examples(5))
@given(steps=st.lists(STEPS, min_size=2, max_size=9), retention_ms=st.sampled_from([None, None, 40]), data=st.data())
def test_raw_tables(shape: str, steps: list[tuple[Any, ...]], retention_ms: int | None, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        life = LoggedLife(Location.local(Path(folder) / "db"), shape == "segmented", retention_ms)
        for step in steps:
            life.take(*step)
        erased = any(step[0] == "erase" for step in steps)  # which takes versions away
        check_logs(life, data, collected=erased)


@pytest.mark.slow
@settings(max_examples=examples(5))
@given(steps=st.lists(BESIDE, min_size=2, max_size=9), data=st.data())
def test_what_was_collected_is_refused(steps: list[tuple[Any, ...]], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        life = LoggedLife(Location.local(Path(folder) / "db"))
        for step in steps:
            life.take(*step)
        check_logs(life, data, collected=True)


# --- typed tables, and tables with history ---------------------------------------------------------------------------

KEY_COLUMNS = ["shop", "id"]
UNTIMED_STEPS = TYPED_STEPS.filter(lambda step: step[0] not in ("reap", "write") or step[2:] == (None, None))


@pytest.mark.slow
@pytest.mark.parametrize("history", [False, True], ids=["plain", "history"])
@settings(max_examples=examples(10))
@given(steps=st.lists(UNTIMED_STEPS, min_size=2, max_size=10), data=st.data())
def test_typed_tables(history: bool, steps: list[tuple[Any, ...]], data: st.DataObject) -> None:
    """Applied to one version in order, the writes make the other; every stored version is one of them."""
    life = TypedLife(f"logs/{next(NAMES)}", history=history, retention_ms=None)
    untold: list[int] = []
    for step in steps:
        before = life.versions()[-1]
        life.take(*step)
        after = life.versions()[-1]
        cuts = ("restore", "trim") if history else ("restore", "replace", "delete_range")
        if step[0] in cuts and after > before:
            untold.append(after)
    versions = life.versions()
    pairs = list(itertools.combinations([0, *versions], 2))
    for before, after in data.draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=6, unique=True)):
        start = {"startingVersion": 1} if before == 0 else {"startingVersion": before, "startingBoundInclusive": False}
        asked: dict[str, Any] = {"changes": "log", **start, "endingVersion": after}
        if any(before < version <= after for version in untold):
            with pytest.raises(HistoryTrimmedError):
                life.store.changes(**asked)
            continue
        rows = life.store.changes(**asked).read_all().to_pylist()
        state = state_of(life.store, KEY_COLUMNS, before)
        columns = life.store.changes(**asked, columns="shop").schema  # a plan for some columns alone
        assert columns.names == ["shop"]
        for row in rows:
            key = key_of(row, KEY_COLUMNS)
            if row["_change_type"] == "delete":
                state.pop(key, None)
            else:
                state[key] = {name: value for name, value in row.items() if name not in (*ADDED, "_seq")}
        shown = state_of(life.store, KEY_COLUMNS, after)
        assert state == shown
        seqs = [row["_seq"] for row in rows]
        assert seqs == sorted(seqs)
        logged = {(row["_seq"], *key_of(row, KEY_COLUMNS)) for row in rows}
        stored = life.store.scan(versionAsOf=after, readVersions="all").read_all().to_pylist()
        first = life.store.resolve(versionAsOf=before).seq if before else 0
        assert {(row["_seq"], *key_of(row, KEY_COLUMNS)) for row in stored if row["_seq"] > first} <= logged
