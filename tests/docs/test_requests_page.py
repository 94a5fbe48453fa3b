"""The table of requests in the docs is what the calls take."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.storage import run_concurrently
from slatespark.table.log.manifests import fetch_latest_manifest
from tests.support.cluster import REPOSITORY
from tests.support.fake_clock import FakeClock
from tests.support.round_trips import DistantTable, Spent

PAGE: Final = REPOSITORY / "docs" / "reference" / "requests.md"
NOW_MS: Final = 1_800_000_000_000
SCHEMA: Final = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
Call = Callable[[SlateStore], Any]


def rows(start: int, end: int) -> pa.Table:
    return pa.table({"id": range(start, end), "name": [f"n{number}" for number in range(start, end)]}, SCHEMA)


def replace(store: SlateStore) -> int:
    return store.write(rows(0, 10), mode="overwrite", replaceWhere="id BETWEEN 0 AND 9")


SCANNED: Final[list[Call]] = [lambda store: store.scan().read_all()] * 2

# What a call needs before, in the same process, and the call.
CALLS: Final[dict[str, tuple[list[Call], Call]]] = {
    "`get`, first": ([], lambda store: store.get(17)),
    "`get`": ([lambda store: store.get(17)] * 2, lambda store: store.get(17)),
    "`snapshot()`": ([lambda store: store.get(17)] * 2, lambda store: store.snapshot()),
    "`scan`, first": ([lambda store: store.get(17)] * 2, lambda store: store.scan().read_all()),
    "`scan`": (SCANNED, lambda store: store.scan().read_all()),
    "`scan` after a `write`": (
        [*SCANNED, lambda store: store.write(rows(0, 10))],
        lambda store: store.scan().read_all(),
    ),
    "`scan` after a commit of another process": (
        [*SCANNED, lambda store: SlateStore.open(store.url, clock=store._clock).write(rows(0, 10))],
        lambda store: store.scan().read_all(),
    ),
    "`compact(full=True)` of five files": (
        [*SCANNED, lambda store: store.write(rows(0, 10))],
        lambda store: store.compact(full=True),
    ),
    "`scan` with `versionAsOf`": (SCANNED, lambda store: store.scan(versionAsOf=5).read_all()),
    "`scan` with `timestampAsOf`": (SCANNED, lambda store: store.scan(timestampAsOf=NOW_MS + 90_000).read_all()),
    "`scan` with `seqAsOf`": (SCANNED, lambda store: store.scan(seqAsOf=3).read_all()),
    "`write` of 1,000 rows, first": ([], lambda store: store.write(rows(0, 1000))),
    "`write` of 1,000 rows": ([lambda store: store.write(rows(0, 1000))], lambda store: store.write(rows(0, 1000))),
    "`write` with `replaceWhere`": ([lambda store: store.write(rows(0, 1000))], replace),
    "`deleteRange`": ([replace], lambda store: store.deleteRange("id BETWEEN 5 AND 9")),
    "`deleteRange` of keys that are not there": (
        [lambda store: store.get(17)],
        lambda store: store.deleteRange("id BETWEEN 90005 AND 90009"),
    ),
    "`update` of one row": ([replace], lambda store: store.update("id = 5", {"name": "x"})),
    "`delete` of one row": ([replace], lambda store: store.delete("id = 5")),
    "`createCheckpoint`": ([lambda store: store.write(rows(0, 9))], lambda store: store.createCheckpoint("x")),
    "`setProperties`": ([lambda store: store.write(rows(0, 9))], lambda store: store.setProperties(retention="30d")),
}


def made(name: str, commits: int = 4) -> FakeClock:
    clock = FakeClock(NOW_MS)
    store = SlateStore.create(f"memory://{name}", SCHEMA, "id", clock=clock)
    for number in range(commits):
        store.write(rows(number * 500, number * 500 + 1000))
        clock.advance(60_000)
    return clock


def measured() -> Iterator[tuple[str, Spent]]:
    clock = made("requests-open")
    yield (
        "`SlateStore.open(url)`",
        DistantTable("requests-open", clock).spent(lambda s: fetch_latest_manifest(s._stores)),
    )
    for number, (call, (before, timed)) in enumerate(CALLS.items()):
        name = f"requests-{number}"
        table = DistantTable(name, made(name))
        fetch_latest_manifest(table.store._stores)
        for each in before:
            table.spent(each)
        yield call, table.spent(timed)
    kept = DistantTable("requests-open", clock, refresh_ms=10_000)
    kept.spent(lambda store: store.get(17))
    yield '`get`, with `refresh="10s"`', kept.spent(lambda store: store.get(17))
    snapshot = kept.store.snapshot()
    yield "`snapshot.get`", kept.spent(lambda _: snapshot.get(17))
    yield "`spark.read`, planned", planned_in_spark()
    yield from upkeep()
    made("requests-history", commits=120)
    yield "`history()` of 120 commits", DistantTable("requests-history", clock).spent(lambda store: store.history())


def planned_in_spark() -> Spent:
    """What a query takes before its tasks, in processes that have planned one before."""
    pytest.importorskip("pyspark")
    from slatespark.spark.source import kept_stores
    from slatespark.spark.source.datasource import SlateDataSource

    table = DistantTable("requests-spark", made("requests-spark"))

    def query(store: SlateStore) -> None:
        source = SlateDataSource({"path": store.url})
        reader = pickle.loads(pickle.dumps(source)).reader(source.schema())
        pickle.loads(pickle.dumps(reader)).partitions()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept_stores, "stores_of", lambda _: table.store._stores)
        kept_stores._kept.clear()
        table.spent(query)
        spent = table.spent(query)
        kept_stores._kept.clear()
    return spent


def upkeep() -> Iterator[tuple[str, Spent]]:
    """Passes that find nothing to do, each the second of its process."""
    passes: dict[str, Call] = {
        "`compact(full=True)` of what is compacted": lambda store: store.compact(full=True),
        "`reap` that finds nothing": lambda store: store.reap(),
        "`vacuum` that finds nothing": lambda store: store.vacuum(),
    }
    for number, (call, run) in enumerate(passes.items()):
        name = f"requests-upkeep-{number}"
        clock = made(name)
        SlateStore.open(f"memory://{name}", clock=clock).setProperties(retention="30d")
        table = DistantTable(name, clock)
        table.spent(run)
        yield call, table.spent(run)


def told() -> dict[str, Spent]:
    lines = [line.split("|")[1:4] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    return {call.strip(): Spent(int(requests), int(trips)) for call, requests, trips in lines}


def test_the_page_says_what_the_calls_take() -> None:
    assert told() == dict(measured())


def test_a_call_that_waits_for_one_request_after_the_other_takes_as_many_round_trips() -> None:
    table = DistantTable("requests-serial", FakeClock(NOW_MS))
    main = table.store._stores.main
    assert table.spent(lambda _: [main.list("manifest/"), main.list("wal/")]) == Spent(2, 2)


@pytest.mark.parametrize("together", [1, 3])
def test_requests_that_go_together_take_one_round_trip(together: int) -> None:
    table = DistantTable("requests-together", FakeClock(NOW_MS))
    main = table.store._stores.main
    looks = [lambda: main.list("manifest/")] * together
    assert table.spent(lambda _: run_concurrently(looks, is_remote=True)) == Spent(together, 1)
