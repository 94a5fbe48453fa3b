"""A table of rows that expire and retire, its model, and what reads of it must show at any instant."""

from __future__ import annotations

import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
)

from slatespark.table.clock import SystemClock
from tests.support.client import Client, Location, ScanRow
from tests.support.client import read_rows as client_reads
from tests.support.fake_clock import FakeClock
from tests.support.model import Kind, Model, Version
from tests.support.time_model import TimeModel, canonical
from tests.support.time_tables import RawTable, TimeTable, TypedTable

HOUR_MS = 3_600_000
FAR_MS = 4_000_000_000_000
INSTANTS_PER_STEP = 5
COLUMNAR = st.sampled_from(["false", "true", "seq", "seq", "seq"])  # these reads show sequence numbers

durations = st.sampled_from([0, 1, 60_000, 600_000, HOUR_MS, 40 * HOUR_MS])


class TimedTable(RuleBasedStateMachine):
    """One table, its model, a clock, and a client that may be open; what is done to them is up to subclasses."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.location = Location.local(self.folder / "db")
        self.client: Client | None = None
        self.steps = 0

    def teardown(self) -> None:
        self.close_client()
        shutil.rmtree(self.folder)

    @initialize(
        table=st.sampled_from([RawTable(), RawTable(), RawTable(), TypedTable()]),
        own_time=st.booleans(),
        default_ttl_ms=st.none() | durations,
        retention_ms=st.sampled_from([None, 1000, 60_000, 60_000, HOUR_MS]),
        columnar=COLUMNAR,
    )
    def create(
        self, table: TimeTable, own_time: bool, default_ttl_ms: int | None, retention_ms: int | None, columnar: str
    ) -> None:
        self.table, self.own_time = table, own_time
        self.clock = FakeClock(SystemClock().now_ms() - HOUR_MS)
        self.start_ms = 7 if own_time else self.clock.now_ms()
        self.own_ms = self.start_ms  # how far the times of a table with its own clock have come
        self.model = TimeModel(default_ttl_ms)
        self.model.retention_ms = retention_ms
        properties = {
            "defaultTtl": duration_text(default_ttl_ms),
            "retention": duration_text(retention_ms),
            "columnar": columnar,
        }
        if own_time:
            properties["clock"] = "custom"
        self.store = table.create(self.location.folder, self.clock, **properties)
        self.versions: dict[int, TimeModel] = {}  # by manifest id

    def advance(self, by_ms: int) -> None:
        self.own_ms += by_ms
        self.clock.advance(min(by_ms, max(0, SystemClock().now_ms() - self.clock.now_ms())))

    def close_client(self) -> None:
        if self.client is not None:
            client, self.client = self.client, None
            client.close(flush=False)

    # --- what must hold -----------------------------------------------------------------------------------------------

    def now_ms(self) -> int:
        """What a read goes by that is not told."""
        tick_ms = self.model.tick_ms
        if self.own_time:
            return -(2**63) if tick_ms is None else tick_ms
        return self.clock.now_ms() if tick_ms is None else max(self.clock.now_ms(), tick_ms)

    @invariant()
    def reads_show_what_the_model_says(self) -> None:
        """At the default `now`, and at some of the instants where something changes; further checks take turns."""
        self.steps += 1
        self.check(self.scan(), self.model.shown(self.now_ms()), self.now_ms())
        instants = self.model.instants()
        stride = max(1, len(instants) // INSTANTS_PER_STEP)
        chosen = [*instants[self.steps % stride :: stride], FAR_MS + HOUR_MS]
        for now_ms in chosen:
            self.check(self.scan(now=now_ms), self.model.shown(now_ms), now_ms)
            shown = {row.key for row in self.model.shown(now_ms)}
            for key in filter(self.model.is_exact(now_ms), self.table.keys):
                found = self.store.get(self.table.key_of(key), now=now_ms, mergeOperator="concat")
                assert (found is not None) == (key in shown), (key, now_ms)
        turn = [
            self.scan_in_parts,
            self.include_deleted,
            self.include_expired,
            self.filter_by_metadata,
            self.read_older_versions,
        ]
        turn[self.steps % len(turn)](chosen[self.steps % len(chosen)])

    @invariant()
    def stored_versions_are_those_of_the_model(self) -> None:
        """Those that an instant can show, and no others above them."""
        stored = Model()
        for row in reversed(self.store.scan(readVersions="all").read_all().to_pylist()):
            at = self.table.scan_row(row)
            version = Version(at.seq, Kind(row["_op"]), at.value or b"", at.create_ts, at.expire_ts)
            stored.versions[at.key].append(version)
        exact = self.model.is_exact(None)
        found, expected = (
            {key: canonical(versions) for key, versions in model.versions.items() if versions and exact(key)}
            for model in (stored, self.model)
        )
        assert found == expected

    def scan_in_parts(self, now_ms: int) -> None:
        for size, order in [(1, "asc"), (300, "desc")]:
            rows = self.scan(order=order, splitSize=size, readBuffer=size, now=now_ms)
            self.check(rows if order == "asc" else rows[::-1], self.model.shown(now_ms), now_ms)

    def filter_by_metadata(self, now_ms: int) -> None:
        """Files and blocks that such filters let a read skip hide what they hide all the same."""
        instants = self.model.instants()
        at_ms = instants[self.steps * 7 % len(instants)]
        text = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
        shown = self.model.shown(now_ms)
        newest = max((row.seq for row in shown), default=0)
        for condition, holds in [
            (f"_create_ts >= '{text}'", lambda row: row.create_ts is not None and row.create_ts >= at_ms),
            (f"_create_ts < '{text}'", lambda row: row.create_ts is not None and row.create_ts < at_ms),
            (f"_expire_ts > '{text}'", lambda row: row.expire_ts is not None and row.expire_ts > at_ms),
            (f"_expire_ts <= '{text}'", lambda row: row.expire_ts is not None and row.expire_ts <= at_ms),
            ("_expire_ts IS NULL", lambda row: row.expire_ts is None),
            (f"_seq < {newest}", lambda row: row.seq < newest),
        ]:
            self.check(self.scan(filter=condition, now=now_ms), list(filter(holds, shown)), now_ms)

    def include_expired(self, now_ms: int) -> None:
        everything = self.model.visible(None, include_expired=True)
        self.check(self.scan(includeExpired=True, now=now_ms), everything, None)
        theirs = [self.table.client_row(self.location.folder, row) for row in client_reads(self.location)]
        self.check(theirs, everything, None)

    def include_deleted(self, now_ms: int) -> None:
        options: dict[str, Any] = {
            "includeDeleted": True,
            "metadataColumns": True,
            "mergeOperator": "concat",
            "now": now_ms,
        }
        rows = self.store.scan(**options).read_all().to_pylist()
        deleted = {self.table.scan_row(row).key: row["_seq"] for row in rows if row["_op"] == "delete"}
        exact = self.model.is_exact(None)
        found, expected = (
            {key: seq for key, seq in seqs.items() if exact(key)} for seqs in (deleted, self.model.deleted(now_ms))
        )
        assert found == expected

    def read_older_versions(self, now_ms: int) -> None:
        """The retention of the newest definition counts for them."""
        for version, then in list(self.versions.items())[-3:]:
            then.retention_ms = self.model.retention_ms
            assert then.tick_ms is not None
            self.check(self.scan(versionAsOf=version), then.shown(then.tick_ms), then.tick_ms, then)
            self.check(self.scan(versionAsOf=version, now=now_ms), then.shown(now_ms), now_ms, then)

    def check(
        self, found: list[ScanRow], expected: list[ScanRow], now_ms: int | None, model: TimeModel | None = None
    ) -> None:
        """Compare rows of keys that are known to show the same at `now_ms`; None is for expired ones too."""
        exact = (model or self.model).is_exact(now_ms)
        assert [row for row in found if exact(row.key)] == [row for row in expected if exact(row.key)], now_ms

    def scan(self, **options: Any) -> list[ScanRow]:
        options = {"mergeOperator": "concat", "metadataColumns": True, **options}
        return [self.table.scan_row(row) for row in self.store.scan(**options).read_all().to_pylist()]


def duration_text(duration_ms: int | None) -> str:
    return "none" if duration_ms is None else f"{duration_ms}ms"
