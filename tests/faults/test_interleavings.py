"""Every pair of actions on one table, stepped by storage calls: the outcome is that of one after the other.

The judges are a model, which is a dictionary, and the real client, by scans and look-ups. What depends on nothing that
it read never fails, and neither does what runs from beginning to end while the other one waits.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import reduce
from itertools import permutations
from pathlib import Path

import pytest

from slatespark import ConflictError
from slatespark.storage.memory_store import MemoryStore
from tests.faults.actions import ACTIONS, ROWS, Action, Objects, client_rows, copied, make_table, open_table, rows_of
from tests.support.failing_store import FailingStore
from tests.support.stepping import ALWAYS, Outcome, alternating, interleave, preempted

THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
POINTS = 1 << 60 if THOROUGH else 1  # where an action is interrupted, for each pair


NAMES = list(ACTIONS)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Objects:
    return make_table(tmp_path_factory.mktemp("base") / "db")


@pytest.fixture(scope="module")
def calls(base: Objects) -> dict[str, int]:
    """How many storage calls each action makes alone, after which the table shows what the model says."""
    counts = {}
    for name, action in ACTIONS.items():
        with copied(base) as inner:
            store = FailingStore(inner)
            action.on(1)(store)
            assert rows_of(inner) == action.model(ROWS), name
            counts[name] = store.count()
    return counts


def run_pair(inner: MemoryStore, pair: tuple[Action, Action], schedule: Iterable[int]) -> list[Outcome]:
    """Run two actions by a schedule, and check what they left."""
    outcomes = interleave(inner, [pair[0].on(1), pair[1].on(2)], schedule)
    done = []
    for action, outcome in zip(pair, outcomes, strict=True):
        if not isinstance(outcome, BaseException):
            done.append(action)
        elif action.is_blind or not isinstance(outcome, ConflictError):
            raise AssertionError(f"{action.name} failed") from outcome
    orders = [reduce(lambda rows, action: action.model(rows), order, ROWS) for order in permutations(done)]
    assert rows_of(inner) in orders, outcomes
    assert not open_table(inner).verify().findings
    return outcomes


def some_of(count: int, shift: int) -> Iterable[int]:
    """Return some of the numbers 1 to `count`, others for another `shift`."""
    stride = max(1, count // POINTS)
    return range(1 + shift % stride, count + 1, stride)


@pytest.mark.slow
@pytest.mark.parametrize("first", NAMES)
def test_one_runs_whole_at_a_storage_call_of_the_other(
    base: Objects, calls: dict[str, int], first: str, tmp_path: Path
) -> None:
    for number, second in enumerate(NAMES):
        for nth in some_of(calls[first], NAMES.index(first) + 3 * number):
            with copied(base) as inner:
                outcomes = run_pair(inner, (ACTIONS[first], ACTIONS[second]), preempted(nth, ALWAYS))
                assert not isinstance(outcomes[1], BaseException), f"{second}, at call {nth} of {first}"
                if nth % 7 == 0:
                    assert client_rows(inner, tmp_path / f"{number}-{nth}") == rows_of(inner)


@pytest.mark.slow
@pytest.mark.parametrize("first", NAMES)
def test_both_call_in_turns(base: Objects, first: str, tmp_path: Path) -> None:
    for number, second in enumerate(NAMES[NAMES.index(first) :]):
        with copied(base) as inner:
            outcomes = run_pair(inner, (ACTIONS[first], ACTIONS[second]), alternating())
            assert not all(isinstance(outcome, BaseException) for outcome in outcomes), "one of two gets through"
            if number % 5 == 0:
                assert client_rows(inner, tmp_path / str(number)) == rows_of(inner)
