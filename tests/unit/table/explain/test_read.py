"""Explanations of reads: the estimated requests are those that are made; exactly so wherever the plan knows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from slatespark import OptionError, SlateStore
from slatespark.table.explain.read import OUTSIDE
from tests.support.client import Client, Location, Put
from tests.support.fake_clock import FakeClock
from tests.unit.table.explain.tables import explained, forget, new_place, new_table, rows


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> SlateStore:
    """Four runs of 2,000 rows with keys from 0, 1000, 2000, 3000 on."""
    store = new_table(new_place(), clock)
    for number in range(4):
        store.write(rows(1000 * number, 2000))
        clock.advance(1000)
    return store


def test_a_scan_of_whole_files_is_exact(store: SlateStore) -> None:
    found = explained(store)
    assert found.estimated.is_exact
    assert (found.files, found.skipped, found.splits, found.rows) == (4, {}, 1, 5000)
    assert [(layer.files, layer.used) for layer in found.layers] == [(1, 1)] * 4
    again = store.explain(analyze=True)  # now the indexes are known
    assert again.estimated.is_exact
    assert again.measured == again.estimated.low
    assert again.measured.get < found.estimated.low.get


def test_splits_at_sampled_keys_are_exact(store: SlateStore) -> None:
    found = explained(store, splitSize="20k")
    assert found.splits > 10
    assert found.estimated.is_exact
    assert found.estimated.low.get > found.planning.get + found.splits


def test_small_windows_have_bounds_and_are_exact_once_the_index_is_known(store: SlateStore) -> None:
    store.compact(full=True)
    found = explained(store, readBuffer="64k")
    assert not found.estimated.is_exact
    again = store.explain(readBuffer="64k", analyze=True)
    assert again.estimated.is_exact
    assert again.measured == again.estimated.low


def test_files_outside_the_keys_are_skipped(store: SlateStore) -> None:
    found = explained(store, filter="id >= 4500")
    assert (found.files, dict(found.skipped), found.rows) == (4, {OUTSIDE: 3}, 500)
    assert [layer.used for layer in found.layers] == [1, 0, 0, 0]


@pytest.mark.parametrize("keys", ["7", "7, 1500, 3600, 9999", ", ".join(map(str, range(0, 5000, 11)))])
def test_look_ups(store: SlateStore, keys: str) -> None:
    found = explained(store, filter=f"id IN ({keys})")
    assert found.splits == 1
    again = store.explain(filter=f"id IN ({keys})", analyze=True)  # filters and indexes are known
    assert again.estimated.is_exact
    assert again.measured == again.estimated.low


def test_files_are_skipped_by_their_properties(tmp_path: Path, clock: FakeClock) -> None:
    store = new_table(new_place(), clock, retention="30d")
    store.write(rows(0, 10))
    clock.advance(20 * 86_400_000)
    store.write(rows(20, 10), ttl="1h")
    store.write(rows(40, 10))
    clock.advance(15 * 86_400_000)
    last = store.write(rows(60, 10))
    assert dict(explained(store).skipped) == {"all rows are past retention": 1, "all rows have expired": 1}
    assert dict(explained(store, filter="_seq >= 4").skipped) == {
        "all rows are past retention": 1,
        "all rows have expired": 1,
        "no row passes the filter": 1,
    }
    assert dict(explained(store, includeExpired=True, seqAsOf=3).skipped) == {}
    assert explained(store, versionAsOf=last - 2).files == 3


def test_deletions_alone_are_skipped(store: SlateStore) -> None:
    store.write(pa.table({"id": [90_000]}), operation="delete")
    assert dict(explained(store).skipped) == {"only deletions, of rows that are gone": 1}


def test_an_empty_table(tmp_path: Path) -> None:
    found = explained(new_table(new_place()))
    assert (found.files, found.rows, found.estimated.low) == (0, 0, found.planning)


def test_each_split_reads_the_wal(tmp_path: Path) -> None:
    location = Location.local(tmp_path / "t")
    with Client.open(location) as client:
        client.write([Put(b"%05d" % number, b"v" * 50) for number in range(2000)])
        client.flush_memtable()
        client.write([Put(b"a", b"1")])
        client.flush_wal()
        client.write([Put(b"b", b"2")])
        client.flush_wal()
    found = explained(SlateStore.open(tmp_path / "t"), splitSize="20k")
    assert found.wal_files >= 2
    assert found.splits > 3
    assert found.estimated.is_exact
    assert found.rows == 2002


def test_files_of_a_parent_count_too(store: SlateStore, tmp_path: Path) -> None:
    child = store.clone(store.url.replace("/t", "/clone"))
    child.write(rows(10_000, 10))
    found = explained(child)
    assert (found.files, found.rows) == (5, 5010)
    assert found.estimated.is_exact


def test_history(tmp_path: Path, clock: FakeClock) -> None:
    store = new_table(new_place(), clock, history=True)
    for _ in range(3):
        store.write(rows(0, 500))
        clock.advance(1000)
    for options in (
        {},
        {"readVersions": "intervals"},
        {"readVersions": "all"},
        {"timestampAsOf": clock.now_ms() - 1500},
    ):
        found = explained(store, **options)
        assert found.estimated.is_exact
    assert found.rows == 500


def test_without_analyze_nothing_but_the_plan_is_requested(store: SlateStore, clock: FakeClock) -> None:
    forget()
    found = store.explain(pin="1h")
    assert (found.measured, found.rows, found.elapsed_ms, found.measured_cost) == (None, None, None, None)
    assert found.planning.put == 0
    assert store.checkpoints() == ()
    assert found.planning.read_bytes < 100_000 < found.estimated.low.read_bytes


def test_prices(store: SlateStore) -> None:
    found = explained(store, prices={"get": 1000, "list": 0, "read": 0})
    assert found.estimated_cost == pytest.approx((found.estimated.low.get, found.estimated.high.get))
    assert found.measured is not None
    assert found.measured_cost == found.measured.get
    assert store.explain().estimated_cost is None


@pytest.mark.parametrize(
    ("operation", "options"),
    [
        ("write", {}),
        ("read", {"fliter": "id = 1"}),
        ("read", {"filter": "id ="}),
        ("compact", {"dryRun": True}),
        ("compact", {"full": True, "l0Only": True}),
        ("vacuum", {"minAge": 7}),
        ("reap", {"nwo": 1}),
        ("reap", {"ttl": "x"}),
        ("read", {"prices": {"post": 1}}),
    ],
)
def test_wrong_options(store: SlateStore, operation: str, options: dict[str, object]) -> None:
    with pytest.raises(OptionError):
        store.explain(operation, **options)  # type: ignore[arg-type]  # some are wrong


def test_a_repeated_explanation_of_a_read_changes_nothing(store: SlateStore) -> None:
    before = store.scan().read_all()
    version = store.resolve().version
    assert store.explain(analyze=True).rows == before.num_rows
    assert store.scan().read_all() == before
    assert store.resolve().version == version
