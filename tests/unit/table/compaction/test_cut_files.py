"""Compacting an interval removes from the files what was cut or deleted there, so that a vacuum can delete it."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.table.log.manifests import fetch_latest_manifest
from tests.support.client import Client, ClientOptions, Location
from tests.support.client_admin import compact_full
from tests.support.fake_clock import FakeClock

HOUR_MS = 3_600_000
SCHEMA = pa.schema([("day", pa.int32()), ("value", pa.string())])
_names = itertools.count()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def month(clock: FakeClock) -> SlateStore:
    """Thirty days in one file, and the value of the fifth written again."""
    url = f"memory://cut-files-{next(_names)}"
    store = SlateStore.create(url, SCHEMA, "day", clock=clock, versionRetention="none", autoCompact=False)
    store.write(days(range(1, 31)))
    store.compact(full=True)
    return store


def days(numbers: range | list[int], value: str = "x") -> pa.Table:
    return pa.table({"day": list(numbers), "value": [value] * len(numbers)}, SCHEMA)


def files(store: SlateStore) -> set[str]:
    return {file.id for file in store.files()}


def is_gone_after_vacuum(store: SlateStore, clock: FakeClock, where: str) -> bool:
    clock.advance(2 * HOUR_MS)
    store.vacuum("1h")
    return store.proveAbsent(where=where).rows == 0


def test_after_a_deleted_range(month: SlateStore, clock: FakeClock) -> None:
    before = files(month)
    month.deleteRange("day BETWEEN 10 AND 12")
    assert files(month) == before
    report = month.compact(where="day = 11")
    assert [job.kind for job in report.jobs] == ["cut files"]
    assert not files(month) & before
    assert is_gone_after_vacuum(month, clock, "day BETWEEN 10 AND 12")
    assert month.scan().read_all().num_rows == 27
    assert month.compact(where="day = 11").jobs == ()


def test_after_rows_were_deleted(month: SlateStore, clock: FakeClock) -> None:
    before = files(month)
    month.delete("day BETWEEN 10 AND 12")
    report = month.compact(where="day BETWEEN 10 AND 12")
    assert [job.kind for job in report.jobs] == ["interval", "cut files"]
    assert not files(month) & before
    assert is_gone_after_vacuum(month, clock, "day BETWEEN 10 AND 12")
    assert month.scan().read_all().num_rows == 27


def test_each_layer_with_a_cut_file_is_rewritten_in_place(month: SlateStore) -> None:
    month.write(days([4, 5, 6], "new"))
    month.write(days([5, 6, 7], "newer"))
    month.deleteRange("day BETWEEN 5 AND 6")
    before = files(month)
    report = month.compact(where="day BETWEEN 5 AND 6")
    assert [job.kind for job in report.jobs] == ["cut files"] * 3
    assert not files(month) & before
    values = month.scan().read_all()["value"].to_pylist()
    assert values == ["x"] * 3 + ["new", "newer"] + ["x"] * 23
    assert len(month.runs()) == 3


def test_replaced_values_wait_for_the_second_time(month: SlateStore) -> None:
    """A merge that deletes nothing costs what lies in the interval, and can run beside others of its kind."""
    month.write(days([5], "new"))
    assert [job.kind for job in month.compact(where="day = 5").jobs] == ["interval"]
    assert [job.kind for job in month.compact(where="day = 5").jobs] == ["interval", "cut files"]


def test_elsewhere_nothing_is_rewritten(month: SlateStore) -> None:
    before = files(month)
    month.deleteRange("day BETWEEN 10 AND 12")
    report = month.compact(where="day = 20")
    assert [(job.kind, job.dropped) for job in report.jobs] == [("interval", 0)]
    assert before < files(month)


def test_days_compacted_one_by_one_do_not_rewrite_the_rest_each_time(month: SlateStore) -> None:
    written = [month.compact(where=f"day = {day}").rows_out for day in range(1, 31)]
    assert written == [1] * 30


def test_a_plan_tells_the_first_step(month: SlateStore) -> None:
    month.deleteRange("day = 11")
    version = month.resolve().version
    assert [job.kind for job in month.compact(where="day = 11", dryRun=True).jobs] == ["cut files"]
    assert [job.kind for job in month.compact(where="day >= 11", dryRun=True).jobs] == ["interval"]
    assert month.resolve().version == version


class DropAll:
    def decide(self, versions: pa.RecordBatch) -> pa.Array:
        return pa.array(["drop"] * len(versions))


def test_filters_decide_about_rows_of_the_interval_only(month: SlateStore, clock: FakeClock) -> None:
    month.deleteRange("day = 11")
    clock.advance(HOUR_MS)
    report = month.compact(where="day BETWEEN 10 AND 12", filters=[DropAll()])
    assert [job.kind for job in report.jobs] == ["interval", "cut files"]
    assert report.filters == ("DropAll",)
    assert month.scan().read_all()["day"].to_pylist() == [*range(1, 10), *range(13, 31)]


def test_the_client_reads_and_compacts_what_is_left(tmp_path: object, clock: FakeClock) -> None:
    folder = f"{tmp_path}/db"
    store = SlateStore.create(folder, SCHEMA, "day", versionRetention="none", autoCompact=False)
    store.write(days(range(1, 31)))
    store.write(days([5, 6], "new"))
    store.deleteRange("day = 11 OR day >= 20 AND day < 25")
    store.compact(where="day IN (5, 11, 22)")
    rows = store.scan().read_all()
    with Client.open(Location.local(folder), ClientOptions(compactor=True)) as client:
        keys = [row.key for row in client.scan()]
        codec = store.definition.codec()
        assert keys == [codec.encode_key((day,)) for day in rows["day"].to_pylist()]
        compact_full(client)
        assert [row.key for row in client.scan()] == keys
    assert store.scan().read_all() == rows
    assert not fetch_latest_manifest(store._stores)[1].l0
