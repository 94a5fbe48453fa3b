"""A history table under all that may happen to it: every read as of a time is the model's, or refused with the bound.

Timed writes, deletions, range deletions and erasures of ours, floors and `historyRetention`, trims, restores,
collections, compactions, which keep what the floor asks for, and upkeep, which does all of that; the real client's
writes, flushes and compactions, which may cost versions: then reads from before are refused, and later ones stay exact.
Every version, checkpoint and clone knows of each instant what it knew then, from the bounds on that it had then.
"""

from __future__ import annotations

import contextlib
import copy
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from hypothesis import note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from slatespark import CommitConflictError, HistoryTrimmedError, InvalidRequestError, SlateStore
from slatespark.format.manifest import NO_TICK, Manifest
from slatespark.table.clock import SystemClock
from slatespark.table.log.manifests import fetch_latest_manifest, fetch_manifest
from slatespark.table.read.versions.floor import HistoryFloors
from slatespark.table.retention.deletion_time import SKEW_MS
from slatespark.table.retention.history_floor import STEPS
from slatespark.table.stores import open_stores
from slatespark.units import ms_to_text
from tests.support.client import Client, ClientOptions, Location, read_rows
from tests.support.client_admin import CheckpointHandle, compact_full, list_checkpoints
from tests.support.effort import examples
from tests.support.fake_clock import FakeClock
from tests.support.history_model import HistoryModel, HistoryVersion, Rows
from tests.support.our_reads import to_ms
from tests.support.upkeep import keep_up

KEYS = [b"a", b"b", b"c", b"d"]
AGE_MS, STEP_MS = 3_600_000, 1000
TTL_MS = 1500
INSTANTS_PER_STEP = 6

places = st.integers(0, 30)  # in time, a step apart
keys = st.sampled_from(KEYS)
Span: TypeAlias = tuple[int | None, int | None, tuple[bytes, bytes]]  # since when, until when, the row
shapes = st.fixed_dictionaries({"sstSize": st.sampled_from([200, 1 << 20]), "blockSize": st.sampled_from([1024, 4096])})


@dataclass(frozen=True, slots=True)
class Known:
    """What one version of the table knows, since when that is whole (None is from the beginning), and its last tick."""

    model: HistoryModel
    bound: int | None
    top: int


ARGUMENTS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "write": {
        "rows": st.lists(st.tuples(keys, places), min_size=1, max_size=6),
        "ttl": st.booleans(),
        "shape": shapes,
    },
    "delete": {"rows": st.sets(st.tuples(keys, places), min_size=1, max_size=3)},
    "delete_range": {"first": st.sampled_from(KEYS[:-1]), "place": st.none() | places},
    "raise_floor": {"place": places},
    "set_retention": {"place": st.none() | places},
    "trim": {"place": places},
    "restore": {"number": st.integers(0, 100)},
    "compact": {"start": st.none() | keys},
    "vacuum": {},
    "keep_up": {},
    "erase": {"key": keys},
    "make_checkpoint": {},
    "clone": {"place": places},
    "clone_a_checkpoint": {"number": st.integers(0, 100)},
    "use_client": {
        "writes": st.lists(st.tuples(keys, st.booleans()), max_size=4),
        "end": st.sampled_from(["leave in the WAL", "flush", "compact", "compact"]),
    },
}
TURNS = [*ARGUMENTS, *["write"] * 4, *["raise_floor", "make_checkpoint", "use_client", "compact"] * 2]


class HistoryMachine(RuleBasedStateMachine):
    """One table, its model, and how far its past is whole.

    `has_losses` says whether the client flushed or compacted since our last commit; a read then counts as lost what is
    as old as the clock tick.
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.location = Location.local(self.folder / "db")

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @initialize(hold=st.booleans())
    def create(self, hold: bool) -> None:
        properties: dict[str, Any] = {"history": True, "holdHistory": hold, "versionRetention": "1d"}
        self.clock = FakeClock(SystemClock().now_ms())
        self.store = SlateStore.create(str(self.location.folder), clock=self.clock, **properties)
        self.base = self.clock.now_ms() - AGE_MS
        self.model = HistoryModel()
        self.known: dict[int, Known] = {}  # by version
        self.named: dict[str, Known] = {}  # by the name of a checkpoint
        self.floor: int | None = None  # as stored
        self.retention: int | None = None
        self.lost: int | None = None
        self.has_losses = self.was_compacted = self.has_committed = False
        self.written = self.steps = self.tick = 0
        self.top = NO_TICK  # the time of the latest row

    @rule(turn=st.sampled_from(TURNS), data=st.data())
    def take(self, turn: str, data: st.DataObject) -> None:
        """One rule for all turns: hypothesis would leave some rules out of an example, mostly the writes."""
        if (turn == "restore" and not self.known) or (turn == "clone_a_checkpoint" and not self.named):
            turn = "write"
        self.clock.advance(max(0, SystemClock().now_ms() - self.clock.now_ms()))  # and stands until the next turn
        arguments = {name: data.draw(strategy, name) for name, strategy in ARGUMENTS[turn].items()}
        note(turn)
        getattr(self, turn)(**arguments)

    # --- what happens -------------------------------------------------------------------------------------------------

    def write(self, rows: list[tuple[bytes, int]], ttl: bool, shape: dict[str, Any]) -> None:
        timed = {(key, self.at(place)): self.value() for key, place in rows}
        columns = self.columns(list(timed), value=pa.array(timed.values(), pa.binary()))
        if self.commit(timed, columns, ttl=TTL_MS if ttl else None, **shape):
            for (key, ts), value in sorted(timed.items()):
                self.add(key, HistoryVersion(ts, value, ts + TTL_MS if ttl else None))

    def delete(self, rows: set[tuple[bytes, int]]) -> None:
        timed = {(key, self.at(place)): b"" for key, place in rows}
        if self.commit(timed, self.columns(list(timed)), operation="delete"):
            for key, ts in sorted(timed):
                self.add(key, HistoryVersion(ts, None))

    def delete_range(self, first: bytes, place: int | None) -> None:
        where = f"key >= X'{first.hex()}' AND key < X'64'"
        ts, first_ts = self.now() if place is None else self.at(place), self.first_ts()
        if place is not None and first_ts is not None and ts < first_ts:
            self.refuses(first_ts, lambda: self.store.deleteRange(where, ts))
            return
        gone = [key for key, _ in self.model.as_of(ts) if first <= key < b"d"]
        if not gone:
            assert self.store.deleteRange(where, ts) == self.version()
            return
        try:
            self.store.deleteRange(where, None if place is None else ts)
        except CommitConflictError:
            assert self.model.is_out_of_order((key, ts) for key in gone)
            return
        self.committed()
        for key in gone:
            self.add(key, HistoryVersion(self.stored_ts(key), None))

    def raise_floor(self, place: int) -> None:
        ts = self.at(place)
        if self.floor is not None and ts < self.floor:
            with pytest.raises(InvalidRequestError, match=ms_to_text(self.floor)):
                self.store.setHistoryFloor(ts)
            return
        self.store.setHistoryFloor(ts)
        self.floor = ts

    def set_retention(self, place: int | None) -> None:
        """Let reads of the newest state reach back to about that instant."""
        self.retention = None if place is None else AGE_MS - place * STEP_MS
        self.store.setProperties(historyRetention=None if self.retention is None else f"{self.retention}ms")

    def trim(self, place: int) -> None:
        bound, ts = self.whole_from(), self.at(place)
        if bound is not None and ts < bound:
            with pytest.raises(HistoryTrimmedError, match=ms_to_text(bound)):
                self.store.trimHistory(ts)
            return
        before = self.version()
        late = any(version.ts > ts for versions in self.model.versions.values() for version in versions)
        after = self.store.trimHistory(ts)
        if after != before:
            self.committed()
            assert late
            shown = self.latest(versionAsOf=after - 1, now=self.now())
            assert shown == self.model.as_of(self.now()), "what it replaced stays readable"
        self.model.trim(ts)

    def restore(self, number: int) -> None:
        version = sorted(self.known)[number % len(self.known)]
        self.store.restoreToVersion(version)
        self.committed()
        self.model = copy.deepcopy(self.known[version].model)

    def compact(self, start: bytes | None) -> None:
        """Of versions above the floor nothing goes, and no read may tell the difference. The stored floor follows."""
        before = self.version()
        self.follow_retention()
        self.store.compact(mergeOperator="concat", **({"full": True} if start is None else {"startKey": start}))
        if self.version() != before:
            self.committed()

    def keep_up(self) -> None:
        before = self.version()
        self.follow_retention()
        keep_up(self.store.url, self.clock, mergeOperator="concat")
        if self.version() != before:
            self.committed()

    def follow_retention(self) -> None:
        if self.retention is not None:
            floor = max(self.top, self.clock.now_ms() - SKEW_MS) - self.retention
            if self.floor is None or floor - self.floor >= self.retention // STEPS:
                self.floor = floor

    def vacuum(self) -> None:
        """Versions stay for `versionRetention`, and so does what proves that nobody else dropped anything."""
        SlateStore.open(self.store.url).vacuum(minAge="0s", force=True)  # by the clock that files have their times of

    def erase(self, key: bytes) -> None:
        """Everything of a key goes from the newest version, and nothing of others; older versions are kept here."""
        report = self.store.erase(key)
        assert all(place.is_kept and not place.is_current for place in report.found)
        self.model.versions.pop(key, None)
        assert report.erasure is not None
        if report.erasure.removed.version is not None:
            self.committed()

    def make_checkpoint(self) -> None:
        name = f"point {len(self.named)}"
        self.store.createCheckpoint(name, lifetime="1d")
        self.named[name] = self.present()

    def clone(self, place: int) -> None:
        """A clone has the same past, and goes on by itself."""
        copied = self.store.clone(str(self.folder / f"clone {self.steps}"))
        bound, first, instant = self.bound(), self.first_ts(), self.at(place)
        if first is None or instant >= first:
            rows = copied.scan(timestampAsOf=instant).read_all().to_pylist()
            assert [(row["key"], row["value"]) for row in rows] == self.model.as_of(instant)
        elif bound is not None:
            with pytest.raises(HistoryTrimmedError):
                copied.scan(timestampAsOf=instant)
        copied.write(self.columns([(b"d", self.now())], value=pa.array([b"copied"])), timestampColumn="ts")
        assert (found := copied.get(b"d")) is not None
        assert found["value"] == b"copied"

    def clone_a_checkpoint(self, number: int) -> None:
        """It has the past of the checkpoint, whatever was given up or lost since."""
        name = sorted(self.named)[number % len(self.named)]
        copied = self.store.clone(str(self.folder / f"clone {self.steps}"), checkpoint=name)
        known = self.named[name]
        self.check_past(copied, replace(known, bound=self.bound_of(known)))

    def use_client(self, writes: list[tuple[bytes, bool]], end: str) -> None:
        before = self.stored()
        with Client.open(self.location, ClientOptions(compactor=end == "compact")) as client:
            for key, is_put in writes:
                value = self.value() if is_put else None
                written = client.delete(key) if value is None else client.put(key, value)
                self.add(key, HistoryVersion(written.create_ts, value))
            if end == "compact":
                compact_full(client)
            elif end == "flush":
                client.flush_memtable()
            else:
                client.flush_wal()
                client.close(flush=False)
        self.was_compacted |= end == "compact"
        self.has_losses |= self.stored() != before
        self.tick = self.manifest()[1].last_l0_clock_tick

    # --- what must hold -----------------------------------------------------------------------------------------------

    @invariant()
    def reads_are_the_model_or_refused(self) -> None:
        self.steps += 1
        if self.has_committed:
            self.known[self.version()], self.has_committed = self.present(), False
        bound, first = self.bound(), self.first_ts()
        assert self.store.detail().history_floors == HistoryFloors(self.floor, bound)
        times = [edge + more for edge in [*self.model.times(), bound or self.base] for more in (-1, 0)]
        chosen = times[self.steps % 7 :: max(1, len(times) // INSTANTS_PER_STEP)]
        spans = self.spans(self.store)
        answered: list[tuple[int, dict[bytes, bytes]]] = []
        for instant in [*chosen, *([] if bound is None else [bound - 1, bound]), self.now()]:
            if first is not None and instant < first:
                self.refuses(first, lambda at=instant: self.latest(timestampAsOf=at))
                continue
            expected = self.model.as_of(instant)
            assert self.latest(timestampAsOf=instant) == expected
            assert self.latest("desc", timestampAsOf=instant) == expected[::-1]
            assert valid_at(spans, instant) == expected
            answered.append((instant, dict(expected)))
        self.check_join(answered)
        key = KEYS[self.steps % len(KEYS)]
        found = self.store.get(key, timestampAsOf=instant)
        assert (found is None) == (key not in dict(expected))
        assert self.latest() == expected

    @invariant()
    def versions_and_checkpoints_stay_as_they_were(self) -> None:
        now = self.now()
        for name in sorted(self.named)[-2:]:
            assert self.latest(checkpoint=name, now=now) == self.named[name].model.as_of(now)
            self.check_past(self.store, self.named[name], checkpoint=name)
        for version in sorted(self.known)[self.steps % 3 :: 3]:
            expected = self.known[version].model.as_of(now)
            assert self.latest(versionAsOf=version, now=now) == expected
            with contextlib.suppress(HistoryTrimmedError):
                assert self.latest(seqAsOf=self.seq(version), now=now) == expected
        if self.known:
            version = sorted(self.known)[self.steps % len(self.known)]
            self.check_past(self.store, self.known[version], versionAsOf=version)
        ours = {CheckpointHandle(point.id, point.version) for point in self.store.checkpoints()}
        assert ours == set(list_checkpoints(self.location))

    @invariant()
    @precondition(lambda self: self.steps % 5 == 0)
    def the_client_agrees(self) -> None:
        """It shows expired rows until they are rewritten, so only the others are compared."""
        shown = {row.key: row.value for row in read_rows(self.location)}
        assert dict(self.model.as_of(self.now())).items() <= shown.items()

    def check_join(self, answered: list[tuple[int, dict[bytes, bytes]]]) -> None:
        """Join every key at every instant, in one go."""
        probes = [(key, instant, rows.get(key)) for instant, rows in answered for key in KEYS]
        rows = pa.table({"key": [key for key, _, _ in probes], "at": [instant for _, instant, _ in probes]})
        found = self.store.asOf(rows, "at", mergeOperator="concat").read_all()
        assert found["value"].to_pylist() == [value for _, _, value in probes]

    def check_past(self, store: SlateStore, known: Known, **chosen: Any) -> None:
        """Compare what a version knows of some instants, and its intervals, with what it knew then."""
        bound, times = known.bound, known.model.times()
        edges = times[self.steps % 3 :: 3][:3] + ([] if bound is None else [bound - 1, bound])
        whole_from = min(times, default=None) if bound is None else bound
        spans = self.spans(store, **chosen)
        for instant in edges:
            if whole_from is not None and instant < whole_from:
                with pytest.raises(HistoryTrimmedError, match=ms_to_text(whole_from)):
                    store.scan(timestampAsOf=instant, **chosen)
                continue
            expected = known.model.as_of(instant)
            assert self.rows(store, timestampAsOf=instant, **chosen) == expected
            assert valid_at(spans, instant) == expected

    # --- in between ---------------------------------------------------------------------------------------------------

    def at(self, place: int) -> int:
        return self.base + place * STEP_MS

    def now(self) -> int:
        return max(self.clock.now_ms(), self.top)

    def add(self, key: bytes, version: HistoryVersion) -> None:
        self.model.add(key, version)
        self.top = max(self.top, version.ts)

    def value(self) -> bytes:
        self.written += 1
        return b"%d" % self.written

    def columns(self, rows: list[tuple[bytes, int]], **more: pa.Array) -> pa.Table:
        return pa.table({"key": pa.array([key for key, _ in rows], pa.binary()), "ts": [ts for _, ts in rows], **more})

    def commit(self, rows: dict[tuple[bytes, int], bytes], columns: pa.Table, **options: Any) -> bool:
        """Write; False if the table refused it, as it must where a version would be older than the newest one."""
        out_of_order = self.model.is_out_of_order(rows)
        is_below_floor = self.floor is not None and min(ts for _, ts in rows) < self.floor
        try:
            self.store.write(columns, timestampColumn="ts", **options)
        except CommitConflictError:
            if not out_of_order and not is_below_floor:
                raise
            return False
        assert not is_below_floor
        assert not out_of_order or self.was_compacted, (
            "the client's compaction drops deletions, and nobody knows of them"
        )
        self.committed()
        return True

    def committed(self) -> None:
        if self.has_losses:
            self.lost = max(self.tick, self.lost or 0)
        self.has_losses, self.has_committed = False, True
        assert self.store.definition.lost_through_ms == self.lost

    def latest(self, order: str = "asc", **options: Any) -> Rows:
        return self.rows(self.store, order, **options)

    def rows(self, store: SlateStore, order: str = "asc", **options: Any) -> Rows:
        return [(row["key"], row["value"]) for row in store.scan(order, **options).read_all().to_pylist()]

    def spans(self, store: SlateStore, **options: Any) -> list[Span]:
        found = store.versions(mergeOperator="concat", **options).read_all().to_pylist()
        return [(to_ms(row["_valid_from"]), to_ms(row["_valid_to"]), (row["key"], row["value"])) for row in found]

    def present(self) -> Known:
        return Known(copy.deepcopy(self.model), self.whole_from(), self.top)

    def stored_ts(self, key: bytes) -> int:
        """The time of a deletion that was just made."""
        row = self.store.get(key, includeDeleted=True, metadataColumns=True)
        assert row is not None
        return to_ms(row["_create_ts"]) or 0

    def manifest(self) -> tuple[int, Manifest]:
        return fetch_latest_manifest(open_stores(str(self.location.folder), storage={}))

    def version(self) -> int:
        return self.manifest()[0]

    def seq(self, version: int) -> int:
        return fetch_manifest(open_stores(str(self.location.folder), storage={}), version).last_l0_seq

    def stored(self) -> tuple[int, set[str]]:
        """What changes with each flush and each compaction."""
        manifest = self.manifest()[1]
        return manifest.last_l0_seq, {str(view.sst_id) for view in manifest.views()}

    def whole_from(self) -> int | None:
        """The earliest instant of which the newest version has everything."""
        return latest_of(self.floor, self.lost, self.tick if self.has_losses else None)

    def bound(self) -> int | None:
        """The earliest instant that a read of the newest state can ask for."""
        return self.bound_of(Known(self.model, self.whole_from(), self.top))

    def bound_of(self, known: Known) -> int | None:
        """The same of the newest state of a table with this version, under the present `historyRetention`."""
        present = max(self.clock.now_ms(), known.top)
        return latest_of(known.bound, None if self.retention is None else present - self.retention)

    def first_ts(self) -> int | None:
        """The earliest instant that can be asked for."""
        bound = self.bound()
        return min(self.model.times(), default=None) if bound is None else bound

    def refuses(self, bound: int, read: Any) -> None:
        """Before the first version a read may be empty instead, where nobody noted the times of an old file."""
        if self.bound() is None:
            with contextlib.suppress(HistoryTrimmedError):
                assert read() in ([], self.version())
            return
        with pytest.raises(HistoryTrimmedError, match=ms_to_text(bound)):
            read()


def latest_of(*instants: int | None) -> int | None:
    return max((instant for instant in instants if instant is not None), default=None)


def valid_at(spans: list[Span], instant: int) -> Rows:
    return sorted(row for start, end, row in spans if (start or 0) <= instant and (end is None or instant < end))


def test_histories() -> None:
    run_state_machine_as_test(HistoryMachine, settings=settings(max_examples=examples(4), stateful_step_count=12))
