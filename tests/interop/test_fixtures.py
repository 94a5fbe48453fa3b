"""Every database of the fixtures reads as the client read it, in every way that we read."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest

from slatespark import OptionError, SlateStore
from tests.support.fixture_databases import FIXTURES, FixtureDatabase, fixture_cases, fixture_databases

DATABASES = fixture_databases()
by_name = pytest.mark.parametrize("database", DATABASES, ids=[database.name for database in DATABASES])

CLIENT_VIEW: dict[str, Any] = {"includeExpired": True, "mergeOperator": "concat"}


def open_store(database: FixtureDatabase) -> SlateStore:
    return SlateStore.open(str(database.path), root=str(database.root))


def to_ms(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)


def as_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return [
        (row["key"], row["value"], row["_seq"], to_ms(row["_create_ts"]), to_ms(row["_expire_ts"]))
        for row in table.to_pylist()
    ]


def test_there_are_26_cases() -> None:
    assert len(fixture_cases()) == 26


@by_name
def test_scan_shows_what_the_client_showed(database: FixtureDatabase) -> None:
    scanned = open_store(database).scan(metadataColumns=True, **CLIENT_VIEW).read_all()
    expected = [(*row[:3], row[3] or 0, row[4]) for row in database.visible_rows()]
    assert [(*row[:3], row[3] or 0, row[4]) for row in as_rows(scanned)] == expected


@by_name
def test_every_stored_version_is_found(database: FixtureDatabase) -> None:
    scanned = open_store(database).scan(readVersions="all").read_all().to_pylist()
    found = [
        (
            row["key"],
            row["_seq"],
            row["_op"],
            row["value"],
            to_ms(row["_create_ts"]),
            to_ms(row["_expire_ts"]),
        )
        for row in scanned
    ]
    assert found == database.stored_rows()


@by_name
def test_small_windows_splits_and_descending_order_show_the_same_rows(database: FixtureDatabase) -> None:
    store = open_store(database)
    expected = [(row[0], row[1]) for row in database.visible_rows()]
    small = store.scan(splitSize=200, readBuffer=1, **CLIENT_VIEW).read_all().to_pylist()
    assert [(row["key"], row["value"]) for row in small] == expected
    descending = store.scan(order="desc", splitSize=500, **CLIENT_VIEW).read_all().to_pylist()
    assert [(row["key"], row["value"]) for row in descending] == expected[::-1]


@by_name
def test_point_reads_agree_with_the_scan(database: FixtureDatabase) -> None:
    store = open_store(database)
    visible = {row[0]: row[1] for row in database.visible_rows()}
    stored = {row[0] for row in database.stored_rows()}
    probes = sorted(stored | {key + b"\0" for key in list(stored)[:20]} | {b"\0", b"\xff" * 9})
    for key in probes[:: max(1, len(probes) // 60)]:
        row = store.get(key, **CLIENT_VIEW)
        assert (None if row is None else row["value"]) == visible.get(key)


@by_name
def test_key_ranges_cut_the_scan(database: FixtureDatabase) -> None:
    rows = [(row[0], row[1]) for row in database.visible_rows()]
    if len(rows) < 3:
        return
    start, end = rows[len(rows) // 3][0], rows[2 * len(rows) // 3][0]
    scanned = open_store(database).scan(startKey=start, endKey=end, **CLIENT_VIEW).read_all().to_pylist()
    assert [(row["key"], row["value"]) for row in scanned] == [row for row in rows if start <= row[0] < end]


def test_expired_rows_are_hidden_by_default() -> None:
    store = SlateStore.open(str(FIXTURES / "l0_basic"))
    expiring = [row for row in store.scan(readVersions="all").read_all().to_pylist() if row["_expire_ts"] is not None]
    deadline = to_ms(expiring[0]["_expire_ts"])
    assert deadline is not None
    assert store.get(expiring[0]["key"], now=deadline - 1) is not None
    assert store.get(expiring[0]["key"], now=deadline) is None


def test_operands_without_an_operator_are_refused() -> None:
    with pytest.raises(OptionError, match="mergeOperator"):
        SlateStore.open(str(FIXTURES / "merge")).scan().read_all()


def test_checkpoints_by_name_id_and_version() -> None:
    store = SlateStore.open(str(FIXTURES / "checkpoints"))
    named = store.scan(checkpoint="51ab5b67-1870-45d1-a17c-082cf01b31d9").read_all()
    assert named.equals(store.scan(versionAsOf=4).read_all())
    assert named.num_rows < store.scan().read_all().num_rows
