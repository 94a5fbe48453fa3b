"""Replacements of a range against readers, other jobs of ours and the real client, at every step of their commit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slatespark import CommitConflictError, SlateStore, TransactionConflictError
from slatespark.errors import InvalidRequestError
from slatespark.format.references import BytesRange
from slatespark.ranges import KeyRange
from slatespark.storage.local_store import LocalStore
from slatespark.table.log.manifests import fetch_latest_manifest
from tests.faults.busy_database import check_serves_on, client_pairs, make_busy, our_pairs, upserted
from tests.faults.jobs import Job, Pair, store_on, stores_of, table_of
from tests.support.client import Client, ClientOptions, Location
from tests.support.client_admin import collect_garbage
from tests.support.failing_store import FailingStore, Operation

INSIDE = [(b"k%03d" % number, b"new") for number in range(5, 12)]
BOUNDS: dict[str, Any] = {"startKey": b"k005", "endKey": b"k012"}


def replace_range(store: SlateStore, rows: list[Pair] = INSIDE) -> int:
    return store.write(table_of(rows), mode="overwrite", **BOUNDS)


def replaced(rows: list[Pair], inside: list[Pair] = INSIDE) -> list[Pair]:
    return upserted([row for row in rows if not b"k005" <= row[0] < b"k012"], inside)


@pytest.fixture
def busy(tmp_path: Path) -> tuple[Path, list[Pair]]:
    folder = tmp_path / "db"
    return folder, make_busy(folder)


def test_rows_of_runs_l0_and_wal_give_way_together(busy: tuple[Path, list[Pair]]) -> None:
    folder, rows = busy
    before = fetch_latest_manifest(stores_of(LocalStore(folder)))[1]
    replace_range(SlateStore.open(str(folder)))
    manifest = fetch_latest_manifest(stores_of(LocalStore(folder)))[1]
    assert set(before.ssts) < set(manifest.ssts), "no file was rewritten"
    cut = [view for view in manifest.views() if view.visible_range is not None]
    assert all(not view.key_range(manifest.ssts[view.sst_id]).overlaps(KeyRange(b"k005", b"k012")) for view in cut)
    check_serves_on(folder, replaced(rows))


def test_wal_rows_of_the_interval_are_not_even_written(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    with Client.open(Location.local(folder)) as client:
        for number in range(20):
            client.put(b"k%03d" % number, b"WAL")
        client.flush_wal()
    replace_range(SlateStore.open(str(folder)))
    manifest = fetch_latest_manifest(stores_of(LocalStore(folder)))[1]
    spans = sorted((handle.info.first_entry, handle.info.last_entry) for handle in manifest.ssts.values())
    assert spans == [(b"k000", b"k019"), (b"k005", b"k011")]
    assert our_pairs(folder) == client_pairs(folder)
    assert our_pairs(folder) == replaced([(b"k%03d" % number, b"WAL") for number in range(20)])


def test_an_interval_without_new_rows_has_no_data(busy: tuple[Path, list[Pair]]) -> None:
    folder, rows = busy
    replace_range(SlateStore.open(str(folder)), [])
    assert our_pairs(folder) == client_pairs(folder) == replaced(rows, [])
    SlateStore.open(str(folder)).deleteRange(keyPrefix=b"k02")
    check_serves_on(folder, [row for row in replaced(rows, []) if not row[0].startswith(b"k02")])


def test_an_interval_of_everything_leaves_an_empty_database(busy: tuple[Path, list[Pair]]) -> None:
    folder, _ = busy
    SlateStore.open(str(folder)).deleteRange(startKey=b"")
    assert not fetch_latest_manifest(stores_of(LocalStore(folder)))[1].ssts
    check_serves_on(folder, [])


def replacing(folder: Path, inside: list[Pair]) -> Callable[[], None]:
    def act() -> None:
        replace_range(SlateStore.open(str(folder)), inside)

    return act


def test_a_reader_at_any_of_its_calls_sees_one_whole_state(busy: tuple[Path, list[Pair]], tmp_path: Path) -> None:
    folder, rows = busy
    states = [rows]
    nth = 0
    while True:
        nth += 1
        inside = [(key, b"%d" % nth) for key, _ in INSIDE[nth % 3 :]]
        store = FailingStore(LocalStore(folder)).run(replacing(folder, inside), "*", nth=nth)
        found = store_on(store).scan(mergeOperator="concat", includeExpired=True).read_all().to_pylist()
        if store.count() < nth:
            break
        states = [states[-1], replaced(states[-1], inside)]
        assert [(row["key"], row["value"]) for row in found] in states
    assert nth > 4
    assert our_pairs(folder) == client_pairs(folder) == states[-1]


CALLS: dict[Operation, int] = {"list": 4, "create": 3, "put": 2, "get": 4}  # that a replacement makes at least


def upsert(folder: Path, rows: list[Pair]) -> Callable[[], None]:
    def act() -> None:
        Job(folder).upload(table_of(rows)).commit()

    return act


@pytest.mark.parametrize(
    ("operation", "nth"), [(kind, nth) for kind, calls in CALLS.items() for nth in range(1, calls + 1)]
)
def test_an_upsert_in_between_comes_before_or_after(operation: Operation, nth: int, tmp_path: Path) -> None:
    """The outcome is that of the two in some order; outside of the interval both have landed."""
    folder = tmp_path / "db"
    rows = [(b"k%03d" % number, b"old") for number in range(20)]
    SlateStore.create(str(folder)).write(table_of(rows))
    between = [(b"k007", b"upserted"), (b"k0075", b"upserted"), (b"k015", b"upserted")]
    store = FailingStore(LocalStore(folder))
    store.run(upsert(folder, between), operation, nth=nth)
    replace_range(store_on(store))
    assert store.count(operation) >= nth
    orders = [replaced(upserted(rows, between)), upserted(replaced(rows), between)]
    assert our_pairs(folder) in orders
    assert client_pairs(folder) == our_pairs(folder)
    with Client.open(Location.local(folder)) as client:
        assert [(key, client.get(key)) for key, _ in our_pairs(folder)] == our_pairs(folder)


def test_a_replacement_that_depends_on_what_was_read_conflicts(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    store = SlateStore.create(str(folder))
    store.write(table_of([(b"k006", b"old")]))
    read_at = store.resolve().seq
    SlateStore.open(str(folder)).write(table_of([(b"k007", b"sibling")]))
    with pytest.raises(CommitConflictError, match="read"):
        store.write(table_of(INSIDE), mode="overwrite", ifLastSeq=read_at, **BOUNDS)
    assert our_pairs(folder) == [(b"k006", b"old"), (b"k007", b"sibling")]


@pytest.mark.parametrize(("start", "end"), [(b"k006", b"k007"), (b"k0055", b"k010"), (b"a", b"z")])
def test_a_delete_by_condition_notices_a_range_that_went(tmp_path: Path, start: bytes, end: bytes) -> None:
    """A range that goes leaves no row, so nobody can tell by the sequence numbers of rows."""
    folder = tmp_path / "db"
    SlateStore.create(str(folder)).write(table_of([(b"k006", b"old"), (b"k020", b"old")]))
    store = FailingStore(LocalStore(folder))
    store.run(lambda: SlateStore.open(str(folder)).deleteRange(startKey=start, endKey=end), "put", "compacted/*")
    with pytest.raises(TransactionConflictError, match="key 6b303036"):
        store_on(store).delete("key = X'6b303036'")
    left = [(key, b"old") for key in (b"k006", b"k020") if not start <= key < end]
    assert our_pairs(folder) == client_pairs(folder) == left


def test_a_delete_by_condition_goes_on_beside_a_range_that_went(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    SlateStore.create(str(folder)).write(table_of([(b"k006", b"old"), (b"k020", b"old")]))
    store = FailingStore(LocalStore(folder))

    def between() -> None:
        SlateStore.open(str(folder)).deleteRange(startKey=b"k007", endKey=b"k010")

    store.run(between, "put", "compacted/*")
    store_on(store).delete("key = X'6b303036'")
    assert our_pairs(folder) == client_pairs(folder) == [(b"k020", b"old")]


def test_disjoint_replacements_both_land(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    rows = [(b"k%03d" % number, b"old") for number in range(20)]
    SlateStore.create(str(folder)).write(table_of(rows))
    store = FailingStore(LocalStore(folder))
    other = [(b"k013", b"other")]

    def between() -> None:
        SlateStore.open(str(folder)).write(table_of(other), mode="overwrite", startKey=b"k012", endKey=b"k018")

    store.run(between, "create", "manifest/*")
    replace_range(store_on(store))
    expected = replaced([row for row in rows if not b"k012" <= row[0] < b"k018"] + other)
    assert our_pairs(folder) == client_pairs(folder) == sorted(expected)


def test_a_client_at_work_is_refused_or_fenced(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    with Client.open(Location.local(folder)) as client:
        client.put(b"k006", b"theirs")
        client.flush_wal()
        store = FailingStore(LocalStore(folder))

        def write_on() -> None:
            client.put(b"k007", b"theirs")
            client.flush_wal()

        store.run(write_on, "put", "compacted/*")
        with pytest.raises(CommitConflictError, match="ifClientActive"):
            replace_range(store_on(store))
        assert dict(client_pairs(folder)) == {b"k006": b"theirs", b"k007": b"theirs"}
        client.put(b"k020", b"theirs")
        client.flush_wal()
    store_on(LocalStore(folder)).write(table_of(INSIDE), mode="overwrite", ifClientActive="fence", **BOUNDS)
    assert our_pairs(folder) == client_pairs(folder) == [*INSIDE, (b"k020", b"theirs")]


def test_rows_outside_are_refused_before_anything_is_committed(busy: tuple[Path, list[Pair]]) -> None:
    folder, rows = busy
    version = fetch_latest_manifest(stores_of(LocalStore(folder)))[0]
    outside = [(b"k004", b"?"), *INSIDE, (b"k012", b"?")]
    with pytest.raises(InvalidRequestError, match="key 6b303034"):
        replace_range(SlateStore.open(str(folder)), outside)
    assert fetch_latest_manifest(stores_of(LocalStore(folder)))[0] == version
    assert our_pairs(folder) == rows


def test_files_that_nothing_shows_are_collected_and_cut_ones_stay(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    store = SlateStore.create(str(folder), versionRetention="none")
    store.write(table_of([(b"k%03d" % number, b"old") for number in range(20)]), sstSize=100)
    replace_range(store)
    manifest = fetch_latest_manifest(stores_of(LocalStore(folder)))[1]
    ranges = [view.visible_range for view in manifest.views() if view.visible_range is not None]
    assert len(ranges) <= 2, "only the files at the ends of the interval are cut"
    assert all(isinstance(item, BytesRange) for item in ranges)
    with Client.open(Location.local(folder), ClientOptions(compactor=True)) as client:
        client.put(b"later", b"1")
        client.flush_memtable()
    collect_garbage(Location.local(folder))
    check_serves_on(folder, [*replaced([(b"k%03d" % number, b"old") for number in range(20)]), (b"later", b"1")])
