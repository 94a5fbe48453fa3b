"""`SlateStore.reap`: checkpoints in the report, clones, rows of the WAL."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from slatespark import (
    InvalidRequestError,
    OptionError,
    SlateStore,
    TableNotFoundError,
)
from slatespark.format.row import Row, RowKind
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.definition.versions import publish_definition
from slatespark.table.log.versioned_object import Version
from slatespark.table.read.planning.plan import Layer
from slatespark.table.retention.reap_arguments import ReapLimits
from slatespark.table.retention.reap_run import reap_table
from slatespark.table.stores import TableStores
from slatespark.units import ms_to_text
from tests.support.fake_clock import FakeClock
from tests.support.our_reads import our_rows
from tests.unit.table.layers import new_stores, put_file
from tests.unit.table.retention.expiry_model import publish_layers
from tests.unit.table.retention.reaped_table import HOUR_MS, START_MS, Table, _names

# --- checkpoints ----------------------------------------------------------------------------------------------------


def test_checkpoints_that_show_retired_rows_are_named() -> None:
    table = Table(retention="10h", versionRetention="none")
    table.write([b"a"])
    kept = table.table.createCheckpoint("kept")
    table.table.createCheckpoint("short", lifetime="1h")
    table.clock.advance(5 * HOUR_MS)
    table.write([b"b"])
    table.pass_time(6 * HOUR_MS)
    report = table.reap()
    assert [(point.name, point.version) for point in report.kept_by_checkpoints] == [("kept", kept.version)]
    assert table.keys() == [b"b"]
    assert table.keys(checkpoint="kept") == [b"a"]
    table.table.createCheckpoint("later")
    assert [point.name for point in table.reap().kept_by_checkpoints] == ["kept"], "still, with nothing to do"


def test_a_checkpoint_made_while_its_rows_were_young_is_named_again() -> None:
    table = Table(retention="10h", versionRetention="none")
    table.write([b"a"])
    table.clock.advance(HOUR_MS)
    table.table.createCheckpoint("young then")
    table.pass_time(9 * HOUR_MS)
    for _ in range(2):
        assert [point.name for point in table.reap().kept_by_checkpoints] == ["young then"]


# --- the public method ----------------------------------------------------------------------------------------------


def test_a_checkpoint_with_only_young_rows_is_not_named() -> None:
    table = Table(retention="10h", versionRetention="none")
    first = table.write([b"a"])
    table.clock.advance(5 * HOUR_MS)
    table.write([b"b"], mode="overwrite")
    table.table.createCheckpoint("young")
    table.table.restoreToVersion(first)
    table.pass_time(6 * HOUR_MS)
    report = table.reap()
    assert (report.files_dropped, report.kept_by_checkpoints) == (1, ())
    assert table.keys(checkpoint="young") == [b"b"]


def test_reap_of_a_store() -> None:
    clock = FakeClock(START_MS)
    store = SlateStore.create(f"memory://reap-{next(_names)}", clock=clock, retention="1h")
    store.write(pa.table({"key": [b"a"], "value": [b"1"]}))
    clock.advance(2 * HOUR_MS)
    for wrong in ({"maxBatchRows": 0}, {"maxBatchBytes": "none"}, {"now": "soon"}, {"maxBatchRow": 5}, {"nowadays": 1}):
        with pytest.raises(OptionError):
            store.reap(**wrong)
    assert store.reap(now=ms_to_text(START_MS)).rows == 0
    due = datetime.fromtimestamp(START_MS / 1000 + 3600, UTC)
    assert store.reap(maxBatchRows=5, maxBatchBytes="1m", now=due).rows == 1
    assert store.history(1)[0].operation == "reap"
    assert store.scan(includeExpired=True).read_all().num_rows == 0


def test_a_clone_is_not_reaped_by_the_retention_of_its_parent(tmp_path: Path) -> None:
    clock = FakeClock(START_MS)
    parent = SlateStore.create(str(tmp_path / "parent"), clock=clock)
    parent.write(pa.table({"key": [b"a", b"b"], "value": [b"1", b"2"]}))
    parent.clone(str(tmp_path / "clone"))
    shutil.rmtree(tmp_path / "clone" / "slatespark")  # a clone that the client makes has no records
    clone = SlateStore.open(str(tmp_path / "clone"), clock=clock)
    clock.advance(2 * HOUR_MS)
    assert clone.reap().retention_ms is None
    parent.setProperties(retention="1h")
    with pytest.raises(InvalidRequestError, match="setProperties"):
        clone.reap()
    assert clone.scan(includeExpired=True).read_all().num_rows == 2
    clone.setProperties(retention="1h")
    parent.setProperties(retention="30d")
    assert clone.reap().rows == 2
    assert parent.scan().read_all().num_rows == 2


def test_no_table() -> None:
    store = MemoryStore("reap-nothing")
    with pytest.raises(TableNotFoundError):
        reap_table(TableStores(main=store, wal=store), FakeClock(START_MS))


def test_an_as_of_read_finds_no_older_version_below_a_rewritten_row() -> None:
    table = Table(history=True, versionRetention="none")
    table.clock.advance(HOUR_MS)

    def write(rows: list[tuple[bytes, bytes, int]]) -> None:
        keys, values, times = zip(*rows, strict=True)
        given = {"key": list(keys), "value": list(values), "at": [START_MS + at for at in times]}
        table.table.write(pa.table(given), timestampColumn="at")

    write([(b"k", b"first", 1), *((b"y%03d" % number, b"young", 9000) for number in range(50))])
    due = [(b"k3%02d" % number, b"due", 20) for number in range(50)]
    write([(b"k", b"second", 20), (b"k", b"late", 8000), *due])
    table.table.setProperties(retention="100ms")
    table.table.setHistoryFloor(START_MS + 4000)
    assert table.keys(timestampAsOf=START_MS + 5000) == []
    assert table.reap().files_rewritten == 1
    table.table.setProperties(retention="none")
    assert table.keys(timestampAsOf=START_MS + 5000) == [], "the first version does not come back"
    assert table.keys(timestampAsOf=START_MS + 8000) == [b"k"]


# --- rows of the WAL ------------------------------------------------------------------------------------------------


def test_due_rows_of_the_wal_are_found_behind_hidden_ones() -> None:
    stores, put = new_stores(), RowKind.PUT
    base = Layer("run 0", (put_file(stores, [Row(b"base", 1, put, b"v", 900, None)]),))
    wal = [
        [Row(b"a", 1001, put, b"old", 10, None)],
        [Row(b"a", 1002, put, b"young", 900, None)],
        [Row(b"b", 1003, put, b"old", 10, None)],
        [Row(b"c", 1004, put, b"old", 10, None)],
    ]
    publish_layers(stores, [base], wal)
    publish_definition(stores, Version(1, TableDefinition(properties={"retention": "500"})))
    report = reap_table(stores, FakeClock(100_000), now_ms=1000, limits=ReapLimits(1))
    assert (report.reaped_through_ms, report.next_deadline_ms) == (500, 1400)
    table = SlateStore(stores, FakeClock(100_000), {"path": stores.url})
    assert [row.key for row in our_rows(table, includeExpired=True)] == [b"a", b"base"]
