"""ReadPoint: the snapshot of a transaction under its own rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slatespark.format.manifest import Manifest
from slatespark.options import ReadOptions
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.read.versions.read_point import ReadPoint
from slatespark.table.snapshot import Snapshot, WalTail

SNAPSHOT = Snapshot(3, Manifest(), WalTail(1, 1), max_seq=17, tick_ms=5, now_ms=100, as_of_ts_ms=90)
DEFINITION = TableDefinition(properties={"retention": "7d"})


@pytest.mark.parametrize(("own_seq", "max_seq"), [(0, 17), (17, 17), (18, 18), (30, 30)])
def test_own_rows_are_visible(own_seq: int, max_seq: int) -> None:
    found = ReadPoint(SNAPSHOT, DEFINITION, own_seq=own_seq).resolve(ReadOptions.parse({"path": "p"}))
    assert found == (replace(SNAPSHOT, max_seq=max_seq), DEFINITION)


@pytest.mark.parametrize(("now", "now_ms"), [("1970-01-01T00:00:00Z", 0), ("1970-01-01T00:00:01Z", 1000)])
def test_a_read_may_judge_expiry_at_another_instant(now: str, now_ms: int) -> None:
    options = ReadOptions.parse({"path": "p", "now": now})
    assert ReadPoint(SNAPSHOT, DEFINITION).resolve(options)[0] == replace(SNAPSHOT, now_ms=now_ms)
