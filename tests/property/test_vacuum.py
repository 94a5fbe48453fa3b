"""Random lives of a table with vacuums in between: nothing that is kept ever goes, and nothing else stays for long."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark import SlateStore
from slatespark.format.paths import sst_path
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.log.manifests import fetch_latest_manifest, fetch_manifest, list_manifests
from slatespark.table.records.leases import LEASE_LIFETIME_MS
from slatespark.units import parse_duration_ms
from tests.faults.jobs import Job, stores_of, table_of
from tests.support.effort import examples
from tests.support.fake_clock import FakeClock

MINUTE_MS: Final = 60_000
KEYS: Final = [b"a", b"b", b"c", b"d"]
RETENTIONS: Final = ["none", "10m", "3h"]
_names = itertools.count()

Rows = dict[bytes, bytes]


@dataclass
class Life:
    """A table, and what a model knows of it.

    Attributes
    ----------
    shown : rows of versions
    replaced_ms : when the version after came
    pins : id of each checkpoint of ours -> version and instant of expiry
    jobs : under way, each with the row that it will commit
    commits : version of each commit -> when the next one replaced it
    """

    retention: str
    clock: FakeClock = field(default_factory=FakeClock)
    shown: dict[int, Rows] = field(default_factory=dict)
    replaced_ms: dict[int, int] = field(default_factory=dict)
    pins: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    jobs: list[tuple[Job, bytes, int]] = field(default_factory=list)
    commits: dict[int, int | None] = field(default_factory=dict)
    writes: int = 0

    def __post_init__(self) -> None:
        self.store = MemoryStore(f"vacuum-life-{next(_names)}/db", self.clock.now_ms)
        self.stores = stores_of(self.store)
        options: dict[str, Any] = {"versionRetention": self.retention, "autoCompact": False}
        self.table = SlateStore.create(self.store.url, clock=self.clock, **options)
        self.note({})  # a table without rows is kept by nothing

    @property
    def rows(self) -> Rows:
        return self.shown[max(self.shown)]

    def note(self, rows: Rows) -> None:
        """What the newest version shows; versions in between show the same as before, or as after."""
        newest = fetch_latest_manifest(self.stores)[0]
        before = max(self.shown, default=0)
        for number in range(before, newest):
            self.replaced_ms.setdefault(number, self.clock.now_ms())
        self.shown[newest] = rows

    def note_commit(self, rows: Rows) -> None:
        """`note`, after a commit of rows, if there was anything to do: it replaces the version of the one before."""
        before = max(self.shown)
        self.note(rows)
        if max(self.shown) > before:
            self.commits = {each: when_ms or self.clock.now_ms() for each, when_ms in self.commits.items()}
            self.commits[max(self.shown)] = None

    # --- steps ------------------------------------------------------------------------------------------------------

    def write(self, key: bytes) -> None:
        self.writes += 1
        value = b"%d" % self.writes
        self.table.write(table_of([(key, value)]))
        self.note_commit({**self.rows, key: value})

    def overwrite(self, key: bytes) -> None:
        self.writes += 1
        value = b"%d" % self.writes
        self.table.write(table_of([(key, value)]), mode="overwrite")
        self.note_commit({key: value})

    def cut(self, key: bytes) -> None:
        self.table.deleteRange(startKey=key, endKey=key + b"\0")
        self.note_commit({other: value for other, value in self.rows.items() if other != key})

    def compact(self, key: bytes) -> None:
        self.table.compact(full=True)
        self.note_commit(self.rows)

    def keep(self, key: bytes) -> None:
        lifetime = {b"a": None, b"b": "5m", b"c": "2h", b"d": "40m"}[key]
        made = self.table.createCheckpoint(lifetime=lifetime)
        self.note(self.rows)
        self.pins[made.id] = made.version, made.expires_ms

    def keep_older(self, key: bytes) -> None:
        numbers = [number for number in list_manifests(self.stores) if number in self.shown]
        version = numbers[KEYS.index(key) % len(numbers)]
        made = self.table.createCheckpoint(version=version, lifetime="1h")
        self.note(self.rows)
        self.pins[made.id] = version, made.expires_ms

    def release(self, key: bytes) -> None:
        if self.pins:
            chosen = sorted(self.pins)[KEYS.index(key) % len(self.pins)]
            if chosen in {point.id for point in self.table.checkpoints()}:
                self.table.deleteCheckpoint(chosen)
                self.note(self.rows)
            del self.pins[chosen]

    def begin(self, key: bytes) -> None:
        self.writes += 1
        job = Job(self.store, self.clock).upload(table_of([(key, b"%d" % self.writes)]))
        self.jobs.append((job, key, self.clock.now_ms()))

    def finish(self, key: bytes) -> None:
        if not self.jobs:
            return
        job, written, began_ms = self.jobs.pop(KEYS.index(key) % len(self.jobs))
        if self.clock.now_ms() - began_ms >= LEASE_LIFETIME_MS:
            return  # it was killed
        value = job.outputs[0][0].handle.info.first_entry
        assert value == written
        job.commit()
        self.note_commit(
            {**self.rows, written: self.table.get(written)["value"]}  # type: ignore[index]  # it is there, or this fails
        )

    def wait(self, key: bytes) -> None:
        self.clock.advance({b"a": 1, b"b": 20, b"c": 90, b"d": 25 * 60}[key] * MINUTE_MS)

    def vacuum(self, key: bytes) -> None:
        minutes = {b"a": 0, b"b": 15, b"c": 60, b"d": 24 * 60}[key]
        before = {number: self.replaced_ms.get(number) for number in list_manifests(self.stores)}
        self.table.vacuum(f"{minutes}m", force=True, fences=key == b"b")
        self.note(self.rows)
        now_ms = self.clock.now_ms()
        kept = list_manifests(self.stores)
        for number, replaced_ms in before.items():
            if replaced_ms is None or now_ms - replaced_ms < minutes * MINUTE_MS:
                assert number in kept, "it was the newest one lately"
        for version, expires_ms in self.pins.values():
            if expires_ms is None or expires_ms > now_ms:
                assert version in kept, "a checkpoint keeps it"
        if self.retention != "none":
            for version, replaced_ms in self.commits.items():
                if replaced_ms is None or now_ms - replaced_ms < parse_duration_ms(self.retention):
                    assert version in kept, "versionRetention keeps it, from the commit that replaces it"
        self.check_nothing_else(kept, now_ms, minutes * MINUTE_MS)

    # --- what must hold ---------------------------------------------------------------------------------------------

    def check_nothing_else(self, kept: list[int], now_ms: int, min_age_ms: int) -> None:
        """Every SST is needed, or young, or a job may still publish it; no lease is over.

        No checkpoint has expired, but that of the version which nobody has replaced.
        """
        needed = {sst_path(ulid) for number in kept for ulid in fetch_manifest(self.stores, number).ssts}
        live = [began_ms for _, _, began_ms in self.jobs if now_ms - began_ms < LEASE_LIFETIME_MS]
        for meta in self.store.list("compacted/"):
            if meta.path not in needed:
                assert now_ms - meta.modified_ms < min_age_ms or meta.modified_ms >= min(live, default=now_ms)
        assert len(self.store.list("slatespark/leases/")) == len(live)
        for point in self.table.checkpoints():
            assert not point.expires_ms or point.expires_ms > now_ms or self.commits.get(point.version, 0) is None

    def check(self) -> None:
        """Every version that exists shows what it showed."""
        assert self.read() == self.rows
        for number in list_manifests(self.stores):
            if number in self.shown:
                assert self.read(versionAsOf=number) == self.shown[number], number
        assert not self.table.verify(allVersions=True).findings

    def read(self, **options: Any) -> Rows:
        return {row["key"]: row["value"] for row in self.table.scan(**options).read_all().to_pylist()}


STEPS: Final = ["write", "overwrite", "cut", "compact", "keep", "keep_older", "release", "begin", "finish", "wait"]


@settings(max_examples=examples(10))
@given(
    st.sampled_from(RETENTIONS),
    st.lists(st.tuples(st.sampled_from([*STEPS, "wait", "vacuum", "vacuum"]), st.sampled_from(KEYS)), max_size=25),
)
def test_lives_with_vacuums(retention: str, steps: list[tuple[str, bytes]]) -> None:
    life = Life(retention)
    for step, key in [*steps, ("vacuum", b"b"), ("wait", b"d"), ("vacuum", b"a")]:
        getattr(life, step)(key)
        if step == "vacuum":
            life.check()
    life.store._bucket.objects.clear()
