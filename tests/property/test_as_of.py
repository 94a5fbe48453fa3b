"""Reads of the past by version, sequence number and time: what the model was then, or a refusal, nothing else."""

from __future__ import annotations

import contextlib
import copy
import tempfile
import time
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from slatespark.errors import HistoryTrimmedError, OptionError
from slatespark.format.paths import manifest_path, wal_path
from slatespark.table.clock import SystemClock
from slatespark.table.log.manifests import fetch_latest_manifest, fetch_manifest, manifest_log
from tests.property.test_both_writers import ClientSession, Database, OurWrite
from tests.support.client import ClientOptions, Delete, Location, Merge, Put, ScanRow, Ttl, Written
from tests.support.client_admin import collect_garbage, create_checkpoint
from tests.support.effort import examples
from tests.support.model import Model, Version
from tests.support.our_reads import our_rows
from tests.support.workload import (
    FAR_FUTURE_MS,
    LONG_PAST_MS,
    Compact,
    FlushMemtable,
    FlushWal,
    Reopen,
    Step,
)

Rows: TypeAlias = dict[bytes, list[Version]]


@dataclass(frozen=True)
class Collect:
    """Versions vanish: all that the client's collector takes, or some, with WAL files that nothing needs."""

    by_client: bool
    every: int


@dataclass(frozen=True)
class Pin:
    """A checkpoint of the newest state, by the client or by us."""

    by_client: bool


@dataclass(frozen=True)
class Restore:
    """An earlier version becomes the newest one."""

    place: int


Turn: TypeAlias = OurWrite | ClientSession | Collect | Pin | Restore


@dataclass(slots=True)
class RecordingModel(Model):
    """A model that remembers what it was after each sequence number."""

    seqs: list[int] = field(default_factory=lambda: [0])
    states: list[Rows] = field(default_factory=lambda: [{}])

    def apply(self, writes: Any, written: Written) -> None:
        Model.apply(self, writes, written)
        self.remember(written.seq)

    def remember(self, seq: int) -> None:
        self.seqs.append(seq)
        self.states.append(copy.deepcopy(dict(self.versions)))

    def state(self, seq: int) -> Rows:
        return self.states[bisect_right(self.seqs, seq) - 1]

    def as_of(self, seq: int, now_ms: int) -> list[ScanRow]:
        return Model(versions=defaultdict(list, self.state(seq))).visible(now_ms)


class Past(Database):
    """A database, and what was seen of it at each point."""

    def __init__(self, location: Location, url: str, storage: dict[str, Any]) -> None:
        super().__init__(location, url, storage)
        self.history = RecordingModel()
        self.model = self.history
        self.seen: list[tuple[int, int]] = []  # an instant, and the last sequence number of the newest version then
        self.collected = False

    def take(self, turn: Turn) -> None:
        match turn:
            case OurWrite():
                self.write(turn)
                if turn.overwrite:
                    self.history.remember(fetch_latest_manifest(self.store._stores)[1].last_l0_seq)
            case ClientSession():
                self.run_client(turn)
            case Collect():
                self.close_client()
                self.collect(turn)
            case Pin(by_client=True):
                create_checkpoint(self.location)
            case Pin():
                self.store.createCheckpoint()
            case Restore():
                self.close_client()
                self.restore(turn)
        if self.open_client is None:  # one that is open publishes versions whenever it likes
            version = fetch_latest_manifest(self.store._stores)[0]
            time.sleep(0.002)  # time goes on after the commit, and before the next one
            self.seen.append((SystemClock().now_ms(), self.store.resolve(versionAsOf=version).seq))
            time.sleep(0.002)

    def restore(self, turn: Restore) -> None:
        kept = manifest_log(self.store._stores).numbers()
        version = kept[turn.place % len(kept)]
        try:
            seq = self.store.resolve(versionAsOf=version).seq
            self.store.restoreToVersion(version, ifClientActive="fence")
        except HistoryTrimmedError:  # collected, WAL files or others
            return
        self.history.versions = defaultdict(list, copy.deepcopy(self.history.state(seq)))
        self.history.remember(fetch_latest_manifest(self.store._stores)[1].last_l0_seq)

    def collect(self, turn: Collect) -> None:
        self.collected = True
        if turn.by_client:
            collect_garbage(self.location)
            return
        numbers = manifest_log(self.store._stores).numbers()
        latest = fetch_latest_manifest(self.store._stores)[1]
        pinned = {point.manifest_id for point in latest.checkpoints}
        for number in numbers[: -1 : turn.every]:
            if number not in pinned:
                self.objects.delete(manifest_path(number))
        for number in range(1, latest.replay_after_wal_id, turn.every):
            self.objects.delete(wal_path(number))

    def check_past(self) -> None:
        stores = self.store._stores
        present_ms = SystemClock().now_ms() + 1000
        kept = manifest_log(stores).numbers()
        ends = {fetch_manifest(stores, number).last_l0_seq for number in kept}
        for seq in sorted({*self.history.seqs, *(seq + 1 for seq in self.history.seqs)}):
            self.compare(seq, seq in ends, now=present_ms, seqAsOf=seq)
        for time_ms, seq in self.seen:
            self.compare(seq, not self.collected, timestampAsOf=time_ms)
        for version in kept:
            self.compare(self.end_of(version), not self.collected, versionAsOf=version)

    def end_of(self, version: int) -> int:
        """Return the last sequence number of a version that exists; 0 where its WAL files do not."""
        with contextlib.suppress(HistoryTrimmedError):
            return self.store.resolve(versionAsOf=version).seq
        return 0

    def compare(self, seq: int, answerable: bool, **options: Any) -> None:
        """Compare a read with what the model was at a sequence number."""
        name = min(options, key=lambda each: each == "now")
        try:
            now_ms = self.store.resolve(**options).now_ms
            found = our_rows(self.store, **options)
        except HistoryTrimmedError:
            event(f"{name} refused")
            assert not answerable
        except OptionError:
            assert seq > self.history.seqs[-1]
        else:
            event(f"{name} answered")
            assert found == self.history.as_of(seq, now_ms)


KEYS = (b"a", b"b", b"c")  # so few that a flush has versions of one key to merge
TTLS = (None, Ttl(), Ttl(after_ms=1), Ttl(after_ms=30), Ttl(at_ms=LONG_PAST_MS), Ttl(at_ms=FAR_FUTURE_MS))


def steps() -> st.SearchStrategy[Step]:
    """A step of the client; most are writes."""
    key, value, ttl = st.sampled_from(KEYS), st.binary(max_size=3), st.sampled_from(TTLS)
    put, merge = st.builds(Put, key, value, ttl), st.builds(Merge, key, value, ttl)
    flush = st.one_of(st.builds(FlushWal), st.builds(FlushMemtable), st.builds(Compact))
    return st.one_of(put, put, put, st.builds(Delete, key), merge, flush, st.builds(Reopen, st.booleans()))


def turns() -> st.SearchStrategy[Turn]:
    row = st.tuples(st.sampled_from(["put", "put", "delete", "merge"]), st.sampled_from(KEYS), st.binary(max_size=3))
    write = st.builds(
        OurWrite,
        rows=st.lists(row, max_size=4).map(tuple),
        ttl_ms=st.sampled_from([None, 0, 1, 30, FAR_FUTURE_MS]),
        overwrite=st.sampled_from([False, False, False, True]),
        options=st.just({}),
    )
    session = st.builds(
        ClientSession,
        options=st.builds(ClientOptions, wal=st.sampled_from([True, True, False]), compactor=st.just(True)),
        workload=st.lists(steps(), min_size=1, max_size=10).map(tuple),
        flush=st.booleans(),
        stays_open=st.booleans(),
    )
    collect = st.builds(Collect, by_client=st.booleans(), every=st.integers(1, 3))
    restore = st.builds(Restore, place=st.integers(0, 100))
    pin = st.builds(Pin, by_client=st.booleans())
    return st.one_of(write, write, write, session, session, session, collect, pin, restore)


@pytest.mark.slow
@settings(max_examples=examples(5))
@given(st.lists(turns(), min_size=2, max_size=8))
def test_the_past_is_what_it_was_or_is_refused(life: list[Turn]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        location = Location.local(Path(folder) / "db")
        past = Past(location, str(location.folder), {})
        try:
            for turn in life:
                past.take(turn)
            past.close_client()
            past.check_past()
        finally:
            past.close_client()
