"""Reads of the past by version, sequence number and time: what the model was then, or a refusal, nothing else."""

from __future__ import annotations

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
from slatespark.table.snapshot import fetch_latest_manifest, fetch_manifest, manifest_log
from tests.property.test_both_writers import ClientSession, Database, OurWrite, our_writes
from tests.support.client import Location, ScanRow, Written
from tests.support.client_admin import collect_garbage, create_checkpoint
from tests.support.model import Model, Version
from tests.support.our_reads import our_rows
from tests.support.workload import client_options, workloads

Rows: TypeAlias = dict[bytes, list[Version]]


@dataclass(frozen=True)
class Collect:
    """Versions vanish: all that the client's collector takes, or some of them."""

    by_client: bool
    every: int


@dataclass(frozen=True)
class Pin:
    """A checkpoint of the newest version."""


Turn: TypeAlias = OurWrite | ClientSession | Collect | Pin


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

    def as_of(self, seq: int, now_ms: int) -> list[ScanRow]:
        state = self.states[bisect_right(self.seqs, seq) - 1]
        return Model(versions=defaultdict(list, state)).visible(now_ms)


class Past(Database):
    """A database, and what was seen of it at each point."""

    def __init__(self, location: Location, url: str, storage: dict[str, Any]) -> None:
        super().__init__(location, url, storage)
        self.history = RecordingModel()
        self.model = self.history
        self.seen: list[tuple[int, int, int]] = []  # instants at which nothing waited in the WAL: time, version, seq

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
            case Pin():
                create_checkpoint(self.location)
        version, manifest = fetch_latest_manifest(self.store._stores)
        if manifest.last_l0_seq >= self.history.seqs[-1]:
            time.sleep(0.002)  # time goes on after the commit, and before the next one
            self.seen.append((SystemClock().now_ms(), version, manifest.last_l0_seq))
            time.sleep(0.002)

    def collect(self, turn: Collect) -> None:
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
        for time_ms, version, seq in self.seen:
            self.compare(seq, version in kept, timestampAsOf=time_ms)
            self.compare(seq, version in kept, versionAsOf=version)

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


def turns() -> st.SearchStrategy[Turn]:
    session = st.builds(
        ClientSession,
        options=client_options(),
        workload=workloads(max_steps=10, past_ttl=True).map(tuple),
        flush=st.booleans(),
        stays_open=st.booleans(),
    )
    collect = st.builds(Collect, by_client=st.booleans(), every=st.integers(1, 3))
    return st.one_of(our_writes(), our_writes(), session, session, collect, st.builds(Pin))


@pytest.mark.slow
@settings(max_examples=15)
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
