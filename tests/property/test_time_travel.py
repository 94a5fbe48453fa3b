"""A plain table that is written, cut, restored, compacted, cloned and collected: its past is what it was, or refused.

Ours and the real client take turns. After each step the client sees the newest rows, every checkpoint and
every point of the sequence tracker as we do.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from slatespark import HistoryTrimmedError, SlateStore
from slatespark.table.clock import SystemClock
from slatespark.table.log.manifests import fetch_latest_manifest, manifest_log
from slatespark.table.snapshot import fetch_wal_tail
from slatespark.table.stores import open_stores
from tests.support.client import Client, ClientOptions, Location, read_rows
from tests.support.client_admin import (
    CheckpointHandle,
    collect_garbage,
    compact_full,
    create_checkpoint,
    list_checkpoints,
    seq_for_time,
    time_for_seq,
)
from tests.support.effort import examples
from tests.support.fake_clock import FakeClock
from tests.support.used_copies import copies_wherever_possible

HOUR_MS = 3_600_000
KEYS = (b"a", b"b", b"b\0", b"c")

Rows: TypeAlias = dict[bytes, bytes]

changes = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(["put", "put", "delete"]), min_size=1)
shapes = st.fixed_dictionaries(
    {"sstSize": st.sampled_from([200, 1 << 20]), "compression": st.sampled_from(["none", "lz4"])}
)


@dataclass(frozen=True)
class Seen:
    """What the table held when nothing waited in the WAL."""

    version: int
    seq: int
    time_ms: int
    rows: Rows


class TravelMachine(RuleBasedStateMachine):
    """One table, what it held at each point, and a client that may be open."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.location = Location("db", directory=self.folder)
        self.client: Client | None = None
        self.rows: Rows = {}
        self.seen: list[Seen] = []
        self.named: dict[str, Rows] = {}  # what checkpoints hold, by name
        self.clones: dict[str, Rows] = {}  # by path
        self.number = 0

    def teardown(self) -> None:
        self.close_client()
        shutil.rmtree(self.folder)

    @initialize(
        version_retention=st.sampled_from(["none", "7d"]),
        columnar=st.sampled_from([True, True, False]),
        early=st.lists(changes, max_size=4),
    )
    def create(self, version_retention: str, columnar: bool, early: list[dict[bytes, str]]) -> None:
        """Begin some hours ago, so that the sequence tracker has more than one point."""
        clock = FakeClock()
        clock.advance(-5 * HOUR_MS)
        SlateStore.create(self.url, versionRetention=version_retention, columnar=columnar)
        self.store = SlateStore.open(self.url, clock=clock)
        for each in early:
            clock.advance(HOUR_MS)
            self.store.write(self.apply(each), opColumn="op")
        self.store = SlateStore.open(self.url)
        self.store.compact(full=True)
        self.look()

    @property
    def url(self) -> str:
        return str(self.location.folder)

    # --- what happens -------------------------------------------------------------------------------------------------

    @rule(drawn=changes, shape=shapes, overwrite=st.sampled_from([False, False, False, True]))
    def write(self, drawn: dict[bytes, str], shape: dict[str, Any], overwrite: bool) -> None:
        if overwrite:
            self.rows = {}
        mode = "overwrite" if overwrite else "append"
        self.act(lambda: self.store.write(self.apply(drawn), mode=mode, opColumn="op", ifClientActive="fence", **shape))

    @rule(bounds=st.lists(st.sampled_from([*KEYS, b"", b"\xff"]), min_size=2, max_size=2, unique=True).map(sorted))
    def delete_range(self, bounds: list[bytes]) -> None:
        start, end = bounds
        self.act(lambda: self.store.deleteRange(startKey=start, endKey=end, ifClientActive="fence"))
        self.rows = {key: value for key, value in self.rows.items() if not start <= key < end}

    @rule(data=st.data(), by_time=st.booleans())
    @precondition(lambda self: self.kept())
    def restore(self, data: st.DataObject, by_time: bool) -> None:
        then = data.draw(st.sampled_from(self.kept()))
        if by_time:
            self.act(lambda: self.store.restoreToTimestamp(then.time_ms, ifClientActive="fence"))
        else:
            self.act(lambda: self.store.restoreToVersion(then.version, ifClientActive="fence"))
        self.rows = dict(then.rows)

    @rule(
        drawn=st.lists(changes, max_size=3),
        compacts=st.booleans(),
        end=st.sampled_from(["stays open", "flush", "crash"]),
    )
    def run_client(self, drawn: list[dict[bytes, str]], compacts: bool, end: str) -> None:
        self.close_client()
        self.client = client = Client.open(self.location, ClientOptions(compactor=compacts))
        for each in drawn:
            for row in self.apply(each).to_pylist():
                if row["op"] == "delete":
                    client.delete(row["key"])
                else:
                    client.put(row["key"], row["value"])
        client.flush_wal()
        if compacts:
            compact_full(client)
        if end != "stays open":
            self.client = None
            client.close(flush=end == "flush")

    @rule(by_client=st.booleans(), data=st.data())
    def make_checkpoint(self, by_client: bool, data: st.DataObject) -> None:
        self.number += 1
        name, rows = f"point {self.number}", dict(self.rows)
        if by_client:  # of the newest manifest: rows of the WAL that it does not know are not in it
            create_checkpoint(self.location, name)
            rows = rows if self.is_settled() else self.scan(checkpoint=name)
        elif data.draw(st.booleans()) and self.kept():
            then = data.draw(st.sampled_from(self.kept()))
            self.store.createCheckpoint(name, version=then.version, lifetime="1h")
            rows = then.rows
        else:
            self.store.createCheckpoint(name, lifetime=data.draw(st.sampled_from([None, "1d"])))
        self.named[name] = rows

    @rule(data=st.data())
    @precondition(lambda self: self.named)
    def change_checkpoint(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.named)))
        if data.draw(st.booleans()):
            self.store.refreshCheckpoint(name, data.draw(st.sampled_from([None, "2h"])))
        else:
            self.store.deleteCheckpoint(name)
            del self.named[name]

    @rule()
    def collect(self) -> None:
        """Let the client collect what nothing keeps, however young."""
        self.close_client()
        collect_garbage(self.location)

    @rule(
        bounds=st.none() | st.lists(st.sampled_from([*KEYS, b"\xff"]), min_size=2, max_size=2, unique=True).map(sorted)
    )
    def compact(self, bounds: list[bytes] | None) -> None:
        """Compact everything, or an interval of keys, which shuts a client out if there was anything to do."""
        what: dict[str, Any] = {"full": True} if bounds is None else {"startKey": bounds[0], "endKey": bounds[1]}
        self.act(lambda: self.store.compact(ifClientActive="fence", **what))

    @rule(columnar=st.booleans(), compacts=st.booleans())
    def switch_copies(self, columnar: bool, compacts: bool) -> None:
        """Write copies with compactions to come, or not; and perhaps compact at once."""
        self.store.setProperties(columnar=columnar)
        if compacts:
            self.act(lambda: self.store.compact(full=True, columnar=True, ifClientActive="fence"))

    @rule(fences=st.booleans())
    def vacuum(self, fences: bool) -> None:
        """Collect ourselves what nothing keeps, however young; a client that is open works on."""
        self.store.vacuum(minAge="0s", force=True, fences=fences and self.client is None)
        if self.client is not None:
            self.client.put(b"c", b"after vacuum")
            self.client.flush_wal()
            self.rows = {**self.rows, b"c": b"after vacuum"}

    @rule(data=st.data(), drawn=changes, newest=st.booleans())
    def clone(self, data: st.DataObject, drawn: dict[bytes, str], newest: bool) -> None:
        """Make a clone, and write to it: the parent does not change."""
        self.number += 1
        target = Location(f"clone{self.number}", directory=self.folder)
        what: dict[str, Any] = {}
        rows = dict(self.rows)
        if self.named and not newest:
            name = data.draw(st.sampled_from(sorted(self.named)))
            what, rows = {"checkpoint": name}, self.named[name]
        clone = self.store.clone(str(target.folder), **what)
        assert pairs(clone.scan().read_all()) == rows
        assert {row.key: row.value for row in read_rows(target)} == rows
        table = self.table_of(drawn)
        clone.write(table, opColumn="op")
        self.clones[target.path] = applied(rows, table)

    # --- in between ---------------------------------------------------------------------------------------------------

    def table_of(self, drawn: dict[bytes, str]) -> pa.Table:
        self.number += 1
        values = [b"%d" % self.number for _ in drawn]
        return pa.table({"key": pa.array(drawn, pa.binary()), "value": values, "op": list(drawn.values())})

    def apply(self, drawn: dict[bytes, str]) -> pa.Table:
        table = self.table_of(drawn)
        self.rows = applied(self.rows, table)
        return table

    def act(self, change: Callable[[], object]) -> None:
        """Change the table, which shuts a client out."""
        time.sleep(0.002)  # a commit has a time of its own
        change()
        self.close_client()

    def close_client(self) -> None:
        if self.client is not None:
            client, self.client = self.client, None
            client.close(flush=False)

    def is_settled(self) -> bool:
        """Whether the newest manifest holds everything, so that nothing waits in the WAL."""
        stores = open_stores(self.url, storage={})
        manifest = fetch_latest_manifest(stores)[1]
        return fetch_wal_tail(stores, manifest, None).last_seq <= manifest.last_l0_seq

    def look(self) -> None:
        """Note what the newest version holds."""
        stores = open_stores(self.url, storage={})
        version, manifest = fetch_latest_manifest(stores)
        if self.is_settled():
            time.sleep(0.002)  # time goes on after a commit, and before the next one
            self.seen.append(Seen(version, manifest.last_l0_seq, SystemClock().now_ms(), dict(self.rows)))
            time.sleep(0.002)

    def kept(self) -> list[Seen]:
        """What was seen of versions that were not collected."""
        numbers = set(manifest_log(open_stores(self.url, storage={})).numbers())
        return [seen for seen in self.seen if seen.version in numbers]

    def scan(self, **options: Any) -> Rows:
        return pairs(self.store.scan(**options).read_all())

    # --- what must hold -----------------------------------------------------------------------------------------------

    @invariant()
    def both_see_the_newest_rows_and_every_checkpoint(self) -> None:
        self.look()
        assert self.scan() == self.rows
        assert {row.key: row.value for row in read_rows(self.location)} == self.rows
        ours = {CheckpointHandle(point.id, point.version): point.name for point in self.store.checkpoints()}
        assert set(ours) == set(list_checkpoints(self.location))
        for handle, name in ours.items():
            if name in self.named:
                assert self.scan(checkpoint=name) == self.scan(checkpoint=handle.id) == self.named[name]
                theirs = read_rows(self.location, checkpoint=handle.id)
                assert {row.key: row.value for row in theirs} == self.named[name]
        assert set(self.named) <= set(ours.values())

    @invariant()
    def clones_show_what_they_did(self) -> None:
        """They need files of the parent, whatever is collected there."""
        for path, rows in self.clones.items():
            assert {row.key: row.value for row in read_rows(Location(path, directory=self.folder))} == rows

    @invariant()
    def the_past_is_what_it_was_or_is_refused(self) -> None:
        kept = self.kept()
        for seen in self.seen[-8:]:
            assert seen not in kept or self.scan(versionAsOf=seen.version) == seen.rows
            self.compare(seen, seen in kept, timestampAsOf=seen.time_ms)
            self.compare(seen, seen in kept, seqAsOf=seen.seq)

    def compare(self, seen: Seen, must_answer: bool, **options: Any) -> None:
        try:
            found = self.scan(**options)
        except HistoryTrimmedError:
            assert not must_answer, (seen, options)
        else:
            assert found == seen.rows, (seen, options)

    @invariant()
    def both_find_the_same_in_the_sequence_tracker(self) -> None:
        points = self.store.sequences()
        seqs = {point.seq + by for point in points for by in (-1, 0, 1)} | {0}
        times_s = {point.time_ms // 1000 + by for point in points for by in (-1, 0, 1)}
        for round_up in (False, True):
            side = "up" if round_up else "down"
            for seq in sorted(seqs)[:: max(1, len(seqs) // 3)]:
                found = self.store.seqToTimestamp(max(0, seq), round=side)
                theirs = time_for_seq(self.location, max(0, seq), round_up=round_up)
                assert (None if found is None else found.time_ms // 1000) == theirs, seq
            for time_s in sorted(times_s)[:: max(1, len(times_s) // 3)]:
                found = self.store.timestampToSeq(time_s * 1000, round=side)
                assert (None if found is None else found.seq) == seq_for_time(self.location, time_s, round_up=round_up)


def applied(rows: Rows, table: pa.Table) -> Rows:
    """Rows after the puts and deletions of a table."""
    changed = dict(rows)
    for row in table.to_pylist():
        changed.pop(row["key"], None)
        if row["op"] == "put":
            changed[row["key"]] = row["value"]
    return changed


def pairs(table: pa.Table) -> Rows:
    """Keys and values of a table."""
    return {row["key"]: row["value"] for row in table.to_pylist()}


@pytest.mark.slow
def test_the_past_of_a_table_that_is_cut_restored_and_cloned() -> None:
    with copies_wherever_possible():
        run_state_machine_as_test(TravelMachine, settings=settings(max_examples=examples(6), stateful_step_count=8))
