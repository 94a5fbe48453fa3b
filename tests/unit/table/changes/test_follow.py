"""Following a feed: each plan starts where the one before ended."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from slatespark import SlateError, SlateStore, UnavailableError
from slatespark.table.changes import follow
from slatespark.table.changes.feed import run_feed
from slatespark.table.changes.follow import FeedFollower
from slatespark.table.clock import SystemClock
from tests.support.fake_clock import FakeClock


@pytest.mark.parametrize(("kind", "updated"), [("net", ["update_preimage", "update_postimage"]), ("log", ["upsert"])])
def test_every_poll_goes_on(kind: str, updated: list[str]) -> None:
    clock = FakeClock(1_000_000)
    store = SlateStore.create(f"memory://follow/{kind}", clock=clock, autoCompact=False)

    def put(key: bytes) -> None:
        store.write(pa.table({"key": [key], "value": [b"%d" % clock.now_ms()]}))
        clock.advance(1)

    put(b"a")
    options = store._read_options({"readChangeFeed": True, "changes": kind, "startingVersion": 1})
    follower = FeedFollower(store._stores, options, clock)

    def polled() -> list[tuple[str, bytes]] | None:
        plan = follower.poll()
        if plan is None:
            return None
        rows = [row for batch in run_feed(store._stores, plan) for row in batch.to_pylist()]
        return [(row["_change_type"], row["key"]) for row in rows]

    new = "insert" if kind == "net" else "upsert"
    assert polled() == [(new, b"a")]
    assert polled() is None
    put(b"b")
    put(b"a")
    expected = [(new, b"b")] + [(word, b"a") for word in updated]
    assert sorted(polled() or []) == sorted(expected)
    assert polled() is None


@pytest.mark.parametrize(("kind", "planner"), [("net", "plan_between"), ("log", "fetch_log_plan")])
def test_what_a_failed_poll_was_about_comes_with_the_next_one(
    kind: str, planner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock(1_000_000)
    store = SlateStore.create(f"memory://follow/failed-{kind}", clock=clock, autoCompact=False)
    options = store._read_options({"readChangeFeed": True, "changes": kind, "startingVersion": 1})
    follower = FeedFollower(store._stores, options, clock)
    follower.poll()
    store.write(pa.table({"key": [b"a"], "value": [b"1"]}))

    def failing(*_: object) -> None:
        raise UnavailableError("No answer.")

    with monkeypatch.context() as patched:
        patched.setattr(follow, planner, failing)
        with pytest.raises(UnavailableError):
            follower.poll()
    plan = follower.poll()
    assert plan is not None
    assert [row["key"] for batch in run_feed(store._stores, plan) for row in batch.to_pylist()] == [b"a"]


@pytest.mark.parametrize("kind", ["net", "log"])
@pytest.mark.parametrize("versions", [1, 4, 8])
def test_a_table_that_was_created_again_is_not_followed(kind: str, versions: int, tmp_path: Path) -> None:
    """With fewer versions than before, or with more."""

    def filled(count: int) -> SlateStore:
        store = SlateStore.create(tmp_path / "t", autoCompact=False)
        for number in range(count):
            store.write(pa.table({"key": [b"%d" % number], "value": [b""]}))
        return store

    filled(3)
    reader = SlateStore.open(tmp_path / "t")
    options = reader._read_options({"readChangeFeed": True, "changes": kind, "startingVersion": 1})
    follower = FeedFollower(reader._stores, options, SystemClock())
    assert follower.poll() is not None
    SlateStore.drop(tmp_path / "t", force=True)
    filled(versions)
    for _ in range(2):
        with pytest.raises(SlateError):
            follower.poll()
