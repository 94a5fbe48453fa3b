"""Rows that expire and retire, under all that may happen to them: reads at any instant show what the model says.

Our writes with every kind of TTL, the real client's, deletions, erasures, a clock that goes on, properties that change,
flushes by the client, compactions by both, reapers, collections, upkeep. What was purged by the clock tick of a rewrite
is gone for an earlier `now` too; the model purges the same versions, so there is no instant at which the two may
differ.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import note, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from slatespark import ClockRegressionError, SlateStore
from slatespark.options import WriteOptions
from slatespark.table.clock import SystemClock
from slatespark.table.records.commits import fetch_commit_record
from slatespark.table.retention.reap_arguments import ReapLimits
from slatespark.table.retention.reap_report import ReapReport
from slatespark.table.retention.reap_run import reap_table
from slatespark.table.stores import open_stores
from tests.property.timed_table import COLUMNAR, FAR_MS, HOUR_MS, TimedTable, duration_text, durations
from tests.support.client import Client, ClientOptions, Delete, Merge, Put, Ttl, Write, Written
from tests.support.client_admin import compact_full
from tests.support.effort import examples
from tests.support.time_tables import op_column
from tests.support.upkeep import keep_up
from tests.support.used_copies import copies_wherever_possible

TURNS = [
    *["write"] * 5,
    *[
        "delete",
        "set_columnar",
        "set_retention",
        "reap",
        "reap",
        "run_client",
        "compact",
        "compact_ours",
        "erase",
        "keep_up",
    ],
]

write_options = st.fixed_dictionaries(
    {
        "compression": st.sampled_from(["none", "zstd"]),
        "sstSize": st.sampled_from([200, 1 << 20]),
        "writeBuffer": st.sampled_from([200, 1 << 20]),
        "bloomBitsPerKey": st.sampled_from([0, 10]),
    }
)


class TimeMachine(TimedTable):
    """Everything that may happen to a table of rows that expire and retire."""

    @rule(turn=st.sampled_from(TURNS), data=st.data())
    def take(self, turn: str, data: st.DataObject) -> None:
        """One rule for all turns: hypothesis would leave some rules out of an example, mostly the writes."""
        if turn == "reap" and (self.model.retention_ms in (None, HOUR_MS) or self.model.tick_ms is None):
            turn = "write"
        if turn == "reap" and self.table.takes_operands and data.draw(st.booleans()):
            turn = "reap_below_an_operand"
        if turn == "run_client" and self.own_time:  # it would stamp its rows with its own clock
            turn = "compact"
        if turn.startswith("compact") and self.model.tick_ms is None:
            turn = "write"
        note(turn)
        turns: dict[str, Callable[[st.DataObject], None]] = {
            "write": self.write,
            "delete": self.delete,
            "set_columnar": self.set_columnar,
            "set_retention": self.set_retention,
            "reap": self.reap,
            "reap_below_an_operand": self.reap_below_an_operand,
            "run_client": self.run_client,
            "compact": lambda _: self.compact(),
            "compact_ours": self.compact_ours,
            "erase": self.erase,
            "keep_up": self.keep_up,
        }
        turns[turn](data)

    # --- time and properties ------------------------------------------------------------------------------------------

    def pass_time(self, data: st.DataObject) -> None:
        """Let time pass; not beyond the present, since the client would wait for it."""
        self.advance(data.draw(st.sampled_from([0, 1, 1000, 30_000, 60_000, 600_000])))

    def set_default_ttl(self, ttl_ms: int | None) -> None:
        """Change what counts for later writes, and for no earlier one."""
        self.store.setProperties(defaultTtl=duration_text(ttl_ms))
        self.model.default_ttl_ms = ttl_ms

    def set_retention(self, data: st.DataObject) -> None:
        retention_ms = data.draw(st.sampled_from([None, 0, 1000, 1000, 60_000, 60_000, HOUR_MS]))
        self.store.setProperties(retention=duration_text(retention_ms))
        self.model.retention_ms = retention_ms

    def set_columnar(self, data: st.DataObject) -> None:
        self.store.setProperties(columnar=data.draw(COLUMNAR))

    # --- our writes ---------------------------------------------------------------------------------------------------

    def write(self, data: st.DataObject) -> None:
        how = data.draw(st.sampled_from(["default", "none", "ttl", "ttlColumn", "expireAtColumn"]))
        options = data.draw(write_options)
        overwrite = data.draw(st.sampled_from([False] * 9 + [True]))
        self.pass_time(data)
        if data.draw(st.integers(0, 3)) == 0:
            self.set_default_ttl(data.draw(st.none() | durations))
        writes = self.draw_rows(data, how)
        given: dict[str, Any] = {**options, "opColumn": "op"}
        columns = {**self.table.columns(writes), "op": op_column(writes)}
        created_ms, timestamp = self.draw_time(data)
        ttls = [None if isinstance(write, Delete) else write.ttl for write in writes]
        if how in ("default", "none"):
            given |= data.draw(st.sampled_from([{"ttl": "default"}, {}])) if how == "default" else {"ttl": "none"}
        else:
            fallback = Ttl(after_ms=data.draw(durations))
            given["ttl"] = fallback.after_ms
            if how == "ttlColumn":
                given["ttlColumn"] = "T"
                columns["t"] = pa.array([None if ttl is None else ttl.after_ms for ttl in ttls], pa.int64())
            if how == "expireAtColumn":
                given["expireAtColumn"] = "t"
                columns["t"] = pa.array([None if ttl is None else ttl.at_ms for ttl in ttls], pa.timestamp("ms", "UTC"))
            writes = [_with_ttl(write, fallback) for write in writes]
        if how == "none":
            writes = [_with_ttl(write, Ttl()) for write in writes]
        mode = "overwrite" if overwrite else "append"
        self.commit(
            writes, created_ms, lambda: self.store.write(pa.table(columns), mode=mode, **given, **timestamp), overwrite
        )

    def draw_rows(self, data: st.DataObject, how: str) -> list[Write]:
        """Rows of several keys; where each has an expiry of its own, with it."""
        keys = data.draw(st.lists(st.sampled_from(self.table.keys), min_size=1, unique=True))
        kinds = ["put", "put", "delete", "merge", "merge"] if self.table.takes_operands else ["put", "put", "delete"]
        ttls: dict[str, st.SearchStrategy[Ttl | None]] = {
            "ttlColumn": st.none() | durations.map(lambda ms: Ttl(after_ms=ms)),
            "expireAtColumn": st.none() | self.instants().map(lambda ms: Ttl(at_ms=ms)),
        }
        rows: list[Write] = []
        for key in keys:
            kind, value = data.draw(st.sampled_from(kinds)), b"%d." % len(rows) * data.draw(st.sampled_from([1, 40]))
            ttl = data.draw(ttls[how]) if how in ttls else None
            rows.append(
                Delete(key) if kind == "delete" else Put(key, value, ttl) if kind == "put" else Merge(key, value, ttl)
            )
        return rows

    def instants(self) -> st.SearchStrategy[int]:
        offsets = st.sampled_from([-40 * HOUR_MS, -1, 0, 1, 600_000, HOUR_MS, 2 * HOUR_MS])
        return offsets.map(lambda ms: self.start_ms + ms) | st.just(FAR_MS)

    def draw_time(self, data: st.DataObject) -> tuple[int, dict[str, Any]]:
        """The creation time that the next rows must get, and the option that says it."""
        tick_ms = self.model.tick_ms
        if self.own_time:
            return self.own_ms, {"timestamp": self.own_ms}
        now_ms = self.clock.now_ms()
        low_ms = now_ms if tick_ms is None else max(now_ms, tick_ms)
        if not data.draw(st.booleans()):
            return low_ms, {}
        low_ms = now_ms - 1000 if tick_ms is None else tick_ms
        given_ms = max(low_ms, data.draw(st.sampled_from([low_ms, now_ms - 1, now_ms])))
        text = datetime.fromtimestamp(given_ms / 1000, UTC).isoformat(timespec="milliseconds")
        return given_ms, {"timestamp": data.draw(st.sampled_from([given_ms, text]))}

    def delete(self, data: st.DataObject) -> None:
        """Delete by a condition what is visible by now."""
        self.pass_time(data)
        keys = data.draw(st.lists(st.sampled_from(self.table.keys), min_size=1, unique=True))
        visible = {row.key for row in self.model.shown(self.now_ms())}
        created_ms, timestamp = self.draw_time(data)
        gone: list[Write] = [Delete(key) for key in keys if key in visible]
        condition = self.table.condition(keys)
        note(condition)
        delete = self.store.delete
        self.commit(
            gone, created_ms, lambda: delete(condition, mergeOperator="concat", ifClientActive="fence", **timestamp)
        )

    def commit(self, writes: Sequence[Write], created_ms: int, act: Callable[[], int], overwrite: bool = False) -> None:
        version = act()
        self.close_client()
        if overwrite:
            self.model.versions.clear()
        if writes:
            record = fetch_commit_record(open_stores(self.store.url, storage={}).main, version)
            assert record is not None
            assert record.last_seq is not None
            assert record.last_seq > self.model.last_seq
            self.model.write(writes, Written(record.last_seq, created_ms))
            self.model.drain()
            self.versions[version] = copy.deepcopy(self.model)

    # --- the reaper -----------------------------------------------------------------------------------------------

    def reap(self, data: st.DataObject) -> None:
        """Remove what is retired; at an earlier `now` such keys may or may not show something from then on."""
        self.pass_time(data)
        max_batch_rows = data.draw(st.sampled_from([None, 1, 2]))
        tick_ms = self.model.tick_ms
        assert tick_ms is not None
        now_ms = max(tick_ms, self.clock.now_ms())
        asked_ms = data.draw(st.sampled_from([None, now_ms, now_ms, now_ms - 600_000]))
        judged_ms = max(tick_ms, self.clock.now_ms() - 60_000) if asked_ms is None else asked_ms
        if self.own_time:
            asked_ms = data.draw(st.sampled_from([None, tick_ms, tick_ms - 600_000]))
            judged_ms = tick_ms if asked_ms is None else asked_ms
        stores = open_stores(self.store.url, storage={})
        fence = WriteOptions.parse({"path": self.store.url, "ifClientActive": "fence"})
        report = reap_table(stores, self.clock, now_ms=asked_ms, limits=ReapLimits(max_batch_rows), options=fence)
        assert report.now_ms == judged_ms
        is_exact = self.model.is_exact(judged_ms)  # else an earlier reap may have removed it, where it had expired
        gone = set(filter(is_exact, self.model.reap(judged_ms)))
        assert report.rows >= len(gone)
        if report.passes:
            self.close_client()
            self.model.drain()
            if report.tombstones and not self.own_time:
                self.model.tick_ms = now_ms
            self.versions[report.version] = copy.deepcopy(self.model)

    def reap_below_an_operand(self, data: st.DataObject) -> None:
        """Let an operand come right before the reaper: the row that it folds onto is as young as the operand."""
        assert self.model.retention_ms is not None
        key = data.draw(st.sampled_from(self.table.keys))
        for write in (Put(key, b"base", Ttl()), Merge(key, b"+", Ttl())):
            time: dict[str, Any] = {"timestamp": self.own_ms} if self.own_time else {}
            created_ms = self.own_ms if self.own_time else self.now_ms()
            rows = pa.table({**self.table.columns([write]), "op": op_column([write])})
            options = {"opColumn": "op", "ttl": "none", "ifClientActive": "fence", **time}
            self.commit([write], created_ms, partial(self.store.write, rows, **options))
            self.advance(self.model.retention_ms)
        self.reap(data)

    def compact_ours(self, data: st.DataObject) -> None:
        """Merge all files into one run, judged at the tick as by the client, and perhaps collect what is left over."""
        tick_ms = self.model.tick_ms
        assert tick_ms is not None
        present = SlateStore.open(
            self.store.url
        )  # a client's compaction may be on the list, of a time ahead of our clock
        report = present.compact(full=True, now=tick_ms, mergeOperator="concat", ifClientActive="fence")
        if report.jobs:
            self.close_client()
            if self.model.retention_ms is not None:
                self.model.reap(tick_ms)
            self.model.compact()
            self.model.drain()
            self.versions[report.version] = copy.deepcopy(self.model)
        if data.draw(st.booleans()):
            present.vacuum(minAge="0s", force=True)
            self.versions = {report.version: copy.deepcopy(self.model)} if report.jobs else {}

    def keep_up(self, data: st.DataObject) -> None:
        """Reap and merge; it depends on sizes which runs are merged, so an earlier `now` may miss what had expired.

        The merges go by the present: a client's compaction may be on the list, of a time ahead of our clock.
        """
        self.pass_time(data)
        tick_ms, now_ms = self.model.tick_ms, self.now_ms()
        options: dict[str, Any] = {"ifClientActive": "fence", "mergeOperator": "concat"}
        reaped = keep_up(self.store.url, self.clock, duties=["historyFloor", "reap", "vacuum"], **options)
        present_ms = SystemClock().now_ms()
        merged = keep_up(self.store.url, duties=["compact"], **options)
        if tick_ms is None or not any(outcome.is_done for outcome in (*reaped, *merged)):
            return
        self.close_client()
        self.model.drain()
        if self.model.retention_ms is not None:
            self.model.reap(tick_ms if self.own_time else max(tick_ms, self.clock.now_ms() - 60_000))
        if any(outcome.is_done for outcome in merged):
            self.model.purge(tick_ms if self.own_time else max(tick_ms, present_ms))
        reports = [outcome.report for outcome in reaped if isinstance(outcome.report, ReapReport)]
        if any(report.tombstones for report in reports) and not self.own_time:
            self.model.tick_ms = now_ms
        self.versions[self.store.resolve().version] = copy.deepcopy(self.model)

    def erase(self, data: st.DataObject) -> None:
        """Erase keys with all their versions, and the versions of the table that nothing keeps."""
        keys = data.draw(st.lists(st.sampled_from(self.table.keys), min_size=1, unique=True))
        report = self.store.erase(keys=[self.table.key_of(key) for key in keys], ifClientActive="fence")
        assert all(place.is_kept and not place.is_current for place in report.found)
        for key in keys:
            self.model.versions[key].clear()
        self.model.touched -= set(keys)
        self.versions.clear()
        assert report.erasure is not None
        version = report.erasure.removed.version
        if version is not None:
            self.close_client()
            self.model.drain()
            self.versions[version] = copy.deepcopy(self.model)

    # --- the client's -------------------------------------------------------------------------------------------------

    def run_client(self, data: st.DataObject) -> None:
        steps = data.draw(st.lists(st.sampled_from(["put", "put", "delete", "merge", "flush"]), max_size=6))
        compacts, end = data.draw(st.booleans()), data.draw(st.sampled_from(["stays open", "flush", "crash"]))
        behind_ms = data.draw(st.sampled_from([0, 0, 9_000]))
        self.close_client()
        self.client = client = Client.open(self.location, ClientOptions(compactor=compacts))
        for step in steps:
            if step == "flush":
                client.flush_memtable()
                self.model.flush()
            else:
                self.client_writes(data, client, step)
        client.flush_wal()
        if compacts:
            self.compact_with(client)
        self.client_is_ahead(behind_ms)
        if end == "flush":
            self.client = None
            client.close(flush=True)
            self.model.flush()
        elif end == "crash":
            self.close_client()

    def client_writes(self, data: st.DataObject, client: Client, kind: str) -> None:
        key = data.draw(st.sampled_from(self.table.keys))
        ttl = data.draw(st.none() | self.instants().map(lambda ms: Ttl(at_ms=ms))) or Ttl()
        value = b"c%d." % self.steps
        stored = self.table.client_value(self.location.folder, key, value)
        if kind == "delete":
            self.model.write_by_client(Delete(key), client.delete(key))
        elif kind == "merge" and self.table.takes_operands:
            self.model.write_by_client(Merge(key, value, ttl), client.merge(key, stored, ttl))
        else:
            self.model.write_by_client(Put(key, value, ttl), client.put(key, stored, ttl))

    def compact(self) -> None:
        """Let a client that writes nothing compact: it purges by our clock tick."""
        self.close_client()
        with Client.open(self.location, ClientOptions(compactor=True)) as client:
            self.compact_with(client)

    def compact_with(self, client: Client) -> None:
        client.flush_memtable()
        self.model.flush()
        if compact_full(client) is not None:
            self.model.compact()

    def client_is_ahead(self, behind_ms: int) -> None:
        """Its rows may be ahead of our clock: then we do not write until our clock is where it should be."""
        tick_ms, now_ms = self.model.tick_ms, self.clock.now_ms()
        if tick_ms is None or now_ms >= tick_ms:
            return
        if now_ms + 10_000 < tick_ms:
            rows = pa.table({**self.table.columns([Put(self.table.keys[0], b"late")])})
            with pytest.raises(ClockRegressionError) as caught:
                self.store.write(rows, ifClientActive="fence")
            assert f"({tick_ms})" in str(caught.value)
            assert f"({now_ms})" in str(caught.value)
        self.clock.advance(tick_ms - behind_ms - now_ms)


def _with_ttl(write: Write, ttl: Ttl) -> Write:
    """The write with the TTL that it has, or else this one."""
    match write:
        case Put(key, value, own):
            return Put(key, value, own or ttl)
        case Merge(key, value, own):
            return Merge(key, value, own or ttl)
        case _:
            return write


@pytest.mark.slow
def test_any_instant_shows_what_the_model_says() -> None:
    with copies_wherever_possible():
        run_state_machine_as_test(TimeMachine, settings=settings(max_examples=examples(6), stateful_step_count=12))
