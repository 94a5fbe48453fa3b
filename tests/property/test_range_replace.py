"""Ranges replaced, deleted, erased, compacted, and upkeep, among our writes and the client's.

Both read what the model says.
"""

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
from slatespark.ranges import ALL_KEYS, KeyRange, point_range
from slatespark.storage import open_store
from slatespark.table.records.commits import newest_commit_records
from tests.property.test_both_writers import NOW_MS, ClientSession, Database, OurWrite, our_writes, sessions
from tests.support.client import Client, ClientOptions, Location, Put, Written
from tests.support.client_admin import clone_database, compact_full
from tests.support.effort import examples
from tests.support.our_reads import our_rows
from tests.support.upkeep import keep_up
from tests.support.workload import keys


@dataclass(frozen=True)
class Replace:
    """An interval gets other rows, or none; of `rows` those outside of it are left out."""

    keys: KeyRange
    rows: tuple[tuple[bytes, bytes], ...]
    options: dict[str, Any]


@dataclass(frozen=True)
class DeleteRange:
    """An interval loses its rows."""

    keys: KeyRange


@dataclass(frozen=True)
class Compact:
    """We compact an interval, or all of it, and perhaps collect unreferenced files."""

    keys: KeyRange
    collects: bool


@dataclass(frozen=True)
class Erase:
    """An interval, or some keys, are erased."""

    keys: KeyRange | tuple[bytes, ...]


@dataclass(frozen=True)
class KeepUp:
    """Upkeep does all that is due."""


Turn: TypeAlias = OurWrite | ClientSession | Replace | DeleteRange | Compact | Erase | KeepUp


def key_ranges() -> st.SearchStrategy[KeyRange]:
    """Intervals that begin and end at keys, just behind them, or nowhere."""
    bounds = st.one_of(keys(), keys(), keys().map(lambda key: key + b"\0"))
    pairs = st.tuples(st.one_of(st.just(b""), bounds, bounds), st.one_of(st.none(), bounds, bounds))
    ordered = pairs.map(lambda pair: pair if pair[1] is None or pair[0] <= pair[1] else (pair[1], pair[0]))
    return ordered.map(lambda pair: KeyRange(*pair)).filter(lambda found: not found.is_empty())


def replacements() -> st.SearchStrategy[Replace]:
    rows = st.lists(st.tuples(keys(), st.binary(max_size=20)), max_size=12).map(tuple)
    options = st.fixed_dictionaries({"sstSize": st.sampled_from([200, 1 << 20])})
    return st.builds(Replace, key_ranges(), rows, options)


def turns() -> st.SearchStrategy[list[Turn]]:
    """Databases of both writers, with a replacement or a deletion in between and at the end."""
    change = st.one_of(replacements(), st.builds(DeleteRange, key_ranges()))
    compactions = st.builds(Compact, st.just(ALL_KEYS) | key_ranges(), st.booleans())
    erasures = st.builds(Erase, key_ranges() | st.lists(keys(), max_size=3).map(tuple))
    upkeep = st.builds(KeepUp)
    kinds = st.one_of(our_writes(), sessions(), sessions(), change, change, change, compactions, erasures, upkeep)
    return st.tuples(sessions(), st.lists(kinds, max_size=5), change).map(lambda parts: [parts[0], *parts[1], parts[2]])


@pytest.mark.slow
@settings(max_examples=examples(8))
@given(turns(), st.booleans())
def test_intervals_are_replaced_for_both(drawn: list[Turn], is_clone: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        location = Location.local(Path(folder) / "db")
        database = ReplacedDatabase(location, str(location.folder), {})
        try:
            database.take_turn(drawn[0])
            if is_clone:
                database.become_clone(Path(folder) / "clone")
            for turn in drawn[1:]:
                database.take_turn(turn)
                database.check()
            database.check_points()
            database.check_timeline()
            database.compact_and_check()
        finally:
            database.close_client()


class ReplacedDatabase(Database):
    """A database of both writers, of which intervals are replaced."""

    def __init__(self, location: Location, url: str, storage: dict[str, Any]) -> None:
        super().__init__(location, url, storage)
        self.forgotten: set[bytes] = set()  # keys that were in a replaced interval

    def take_turn(self, turn: Turn) -> None:
        match turn:
            case OurWrite():
                self.write(turn)
            case ClientSession():
                self.run_client(turn)
            case Replace():
                self.replace(turn)
            case DeleteRange():
                self.store.deleteRange(startKey=turn.keys.start, endKey=turn.keys.end, ifClientActive="fence")
                self.forget(turn.keys)
                self.close_client()
            case Compact():
                self.compact(turn)
            case Erase():
                self.erase(turn.keys)
            case KeepUp():
                self.keep_up()

    def compact(self, turn: Compact) -> None:
        chosen: dict[str, Any] = {"startKey": turn.keys.start, "endKey": turn.keys.end}
        what = {"full": True} if turn.keys == ALL_KEYS else chosen
        report = self.store.compact(mergeOperator="concat", ifClientActive="fence", **what)
        if report.jobs:
            self.close_client()
        if turn.collects:
            self.store.vacuum(minAge="0s", force=True)

    def keep_up(self) -> None:
        outcomes = keep_up(self.store.url, ifClientActive="fence", mergeOperator="concat")
        if any(outcome.is_done for outcome in outcomes):
            self.close_client()

    def erase(self, chosen: KeyRange | tuple[bytes, ...]) -> None:
        """Erase keys: no object holds or names them any more, but what something else keeps."""
        ranges = (chosen,) if isinstance(chosen, KeyRange) else tuple(map(point_range, chosen))
        if isinstance(chosen, KeyRange):
            report = self.store.erase(startKey=chosen.start, endKey=chosen.end, ifClientActive="fence")
        else:
            report = self.store.erase(keys=list(chosen), ifClientActive="fence")
        assert all(place.is_kept and not place.is_current for place in report.found)
        assert report.gone == (not report.found)
        for erased in ranges:
            self.forget(erased)
        assert report.erasure is not None
        if report.erasure.removed.version is not None:
            self.close_client()

    def become_clone(self, folder: Path) -> None:
        """Go on with a clone made by the client, most of whose files lie in the database it was made from."""
        self.close_client()
        clone_database(self.location, folder.name)
        self.location = Location.local(folder)
        self.store, self.objects = SlateStore.open(str(folder)), open_store(str(folder), {})

    def replace(self, turn: Replace) -> None:
        rows = [(key, value) for key, value in turn.rows if turn.keys.contains(key)]
        table = pa.table(
            {
                "key": pa.array([key for key, _ in rows], pa.binary()),
                "value": pa.array([value for _, value in rows], pa.binary()),
            }
        )
        bounds: dict[str, Any] = {"startKey": turn.keys.start, "endKey": turn.keys.end}
        self.store.write(table, mode="overwrite", ttl="none", ifClientActive="fence", **bounds, **turn.options)
        self.forget(turn.keys)
        if rows:
            record = next(newest_commit_records(self.objects, 1))
            assert record.last_seq is not None
            written = Written(record.last_seq, record.write_time_ms)
            self.model.apply([Put(key, value) for key, value in rows], written)
        self.close_client()

    def forget(self, replaced: KeyRange) -> None:
        for key in [key for key in self.model.versions if replaced.contains(key)]:
            del self.model.versions[key]
            self.forgotten.add(key)

    def check_timeline(self) -> None:
        """Every row lies in an interval that shows a file, unless the WAL alone has it; nothing is shown of others."""
        timeline = self.store.timeline()
        shown = [item for item in timeline.intervals if any(file.is_visible for file in item.files)]
        assert [item.start for item in timeline.intervals] == sorted({item.start for item in timeline.intervals})
        for row in our_rows(self.store, now=NOW_MS) if not timeline.wal_files else ():
            assert any(KeyRange(item.start, item.end).contains(row.key) for item in shown), row.key
        assert timeline.version == self.store.resolve().version
        assert not self.store.verify().has_damage

    def check_points(self) -> None:
        """Ask both for keys one by one: of those that are there, and of those that were."""
        rows = {row.key: row.value for row in self.model.visible(NOW_MS)}
        wanted = sorted({*rows, *self.forgotten, b"a", b"\x00", b"\xff", b"a\x01"})
        for key in wanted:
            found = self.store.get(key, now=NOW_MS, mergeOperator="concat")
            assert (None if found is None else found["value"]) == rows.get(key), key

    def compact_and_check(self) -> None:
        """Let the client look keys up, rewrite everything, and look again."""
        self.close_client()
        expired = self.model.keys_with_expiry_by(NOW_MS)
        with Client.open(self.location, ClientOptions(compactor=True)) as client:
            before = [row for row in client.scan() if row.key not in expired]
            assert before == [row for row in our_rows(self.store, now=NOW_MS) if row.key not in expired]
            assert [client.get(row.key) for row in before] == [row.value for row in before]
            gone = self.forgotten - {row.key for row in before} - expired
            assert [client.get(key) for key in sorted(gone)] == [None] * len(gone)
            compact_full(client)
            assert [row for row in client.scan() if row.key not in expired] == before
        self.check()
