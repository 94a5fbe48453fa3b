"""A copy that follows a stream equals its table, whatever is written, collected and interrupted meanwhile."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark import SlateStore
from tests.property.test_changes import STEPS, TYPED_STEPS, RawLife, TypedLife
from tests.support.change_streams import Consumer
from tests.support.client import Location
from tests.support.client_admin import collect_garbage
from tests.support.effort import examples
from tests.support.fake_clock import FakeClock
from tests.support.feeds import state_of

NAMES = itertools.count(1)
FOLLOW = st.one_of(
    st.tuples(st.just("batches"), st.integers(1, 4)),
    st.tuples(st.just("killed"), st.integers(1, 2)),
    st.tuples(st.just("vacuum")),
)
LIMITS: list[dict[str, Any]] = [{}, {"maxRowsPerTrigger": 1}, {"maxBytesPerTrigger": 1}, {"preImages": False}]


def lives(steps: Any) -> Any:
    """Changes of a table, and what its followers do meanwhile."""
    without_erasure = steps.filter(lambda step: step[0] != "erase")  # which takes versions away from a stream too
    return st.lists(st.one_of(without_erasure, without_erasure, FOLLOW), min_size=3, max_size=12)


def follow(consumers: list[Consumer], name: str, count: int = 0) -> None:
    """Run some batches of each; killed, a consumer goes on from its offsets, and runs its last batch again."""
    for consumer in consumers:
        for _ in range(count):
            consumer.step()
            if name == "killed":
                consumer.restart()
                if len(consumer.offsets) > 1:
                    consumer.replay()
                consumer.restart()


def check(store: SlateStore, keys: list[str], consumers: list[Consumer]) -> None:
    """Run all that is left, and compare."""
    wanted = state_of(store, keys, store.resolve().version)
    for consumer in consumers:
        consumer.catch_up()
        assert consumer.state == wanted


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["plain", "segmented"])
@settings(max_examples=examples(4))
@given(steps=lives(STEPS), retention_ms=st.sampled_from([None, None, 40]))
def test_raw_tables_under_both_writers_and_collectors(
    shape: str, steps: list[tuple[Any, ...]], retention_ms: int | None
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        life = RawLife(Location.local(Path(folder) / "db"), shape == "segmented", retention_ms)
        consumers = [Consumer(life.store, FakeClock(seed=next(NAMES)), ["key"], **limit) for limit in LIMITS]
        for name, *arguments in steps:
            if name == "vacuum":
                life.store.vacuum(minAge="0s", force=True)
                collect_garbage(life.location)
            elif name in ("batches", "killed"):
                follow(consumers, name, *arguments)
            else:
                life.take(name, *arguments)
        check(life.store, ["key"], consumers)


@pytest.mark.slow
@pytest.mark.parametrize("history", [False, True], ids=["plain", "history"])
@settings(max_examples=examples(6))
@given(steps=lives(TYPED_STEPS), retention_ms=st.sampled_from([None, 2000]))
def test_typed_tables(history: bool, steps: list[tuple[Any, ...]], retention_ms: int | None) -> None:
    life = TypedLife(f"stream-lives/{next(NAMES)}", history=history, retention_ms=retention_ms)
    names = "shop,id,n,at,_change_type"
    consumers = [Consumer(life.store, life.clock, ["shop", "id"], columns=names, **limit) for limit in LIMITS]
    for name, *arguments in steps:
        if name == "vacuum":
            life.store.vacuum(minAge="0s", force=True)
        elif name in ("batches", "killed"):
            follow(consumers, name, *arguments)
        else:
            life.take(name, *arguments)
    version = life.store.resolve().version
    wanted = state_of(life.store, ["shop", "id"], version, columns="shop,id,n,at")
    for consumer in consumers:
        consumer.catch_up()
        assert consumer.state == wanted
