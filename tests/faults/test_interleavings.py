"""Every pair of actions on one table, stepped by storage calls: the outcome is that of one after the other.

The judges are a model, which is a dictionary, and the real client, by scans and look-ups. What depends on nothing that
it read never fails, and neither does what runs from beginning to end while the other one waits.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import permutations
from pathlib import Path
from typing import Final

import pytest

from slatespark import ConflictError, HistoryTrimmedError, UnavailableError
from slatespark.format.compactions import TieredSpec
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.compaction.job import listed_job
from slatespark.table.log.manifests import fetch_latest_manifest, manifest_log
from tests.faults.actions import (
    ACTIONS,
    ROWS,
    Action,
    Objects,
    Rows,
    client_rows,
    copied,
    make_table,
    open_table,
    rows_of,
    vacuum,
)
from tests.faults.jobs import stores_of
from tests.support.effort import THOROUGH, points
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock
from tests.support.stepping import ALWAYS, Outcome, alternating, interleave, preempted

POINTS: Final = 12 if THOROUGH else 1  # where an action is interrupted, for each pair


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


def partners(first: str) -> Iterator[tuple[int, str]]:
    """Yield what an action is paired with, and its number: every action, or of each seven one."""
    for number, second in enumerate(NAMES):
        if THOROUGH or (number + NAMES.index(first)) % 7 == 0:
            yield number, second


def some_of(count: int, shift: int) -> Iterable[int]:
    """Return some of the numbers 1 to `count`, others for another `shift`."""
    stride = max(1, count // POINTS)
    return range(1 + shift % stride, count + 1, stride)


@pytest.mark.slow
@pytest.mark.parametrize("first", NAMES)
def test_one_runs_whole_at_a_storage_call_of_the_other(
    base: Objects, calls: dict[str, int], first: str, tmp_path: Path
) -> None:
    for number, second in partners(first):
        for nth in some_of(calls[first], NAMES.index(first) + 3 * number):
            with copied(base) as inner:
                outcomes = run_pair(inner, (ACTIONS[first], ACTIONS[second]), preempted(nth, ALWAYS))
                assert not isinstance(outcomes[1], BaseException), f"{second}, at call {nth} of {first}"
                if nth % 7 == 0:
                    assert client_rows(inner, tmp_path / f"{number}-{nth}") == rows_of(inner)


@pytest.mark.slow
@pytest.mark.parametrize("first", NAMES)
def test_both_call_in_turns(base: Objects, first: str, tmp_path: Path) -> None:
    for number, second in partners(first):
        if number < NAMES.index(first):
            continue  # that pair was
        with copied(base) as inner:
            outcomes = run_pair(inner, (ACTIONS[first], ACTIONS[second]), alternating())
            assert not all(isinstance(outcome, BaseException) for outcome in outcomes), "one of two gets through"
            if number % 7 == 0:
                assert client_rows(inner, tmp_path / str(number)) == rows_of(inner)


@pytest.mark.slow
@pytest.mark.parametrize("first", [name for name in NAMES if name not in ("vacuum", "set properties")])
def test_another_commits_and_a_collector_takes_all_that_was_before(
    base: Objects, calls: dict[str, int], first: str
) -> None:
    """As to a process that stands still for longer than collectors wait: it may have to give up, and never errs."""
    others = ["upsert", "operands", "delete a range", "compact"]
    for number, second in enumerate(others if THOROUGH else others[NAMES.index(first) % 4 :][:1]):
        for nth in some_of(calls[first], 5 * NAMES.index(first) + 11 * number):
            with copied(base) as inner:
                after = check_standing_still(inner, ACTIONS[first], ACTIONS[second], nth)
                assert rows_of(inner) in after, f"{second}, at call {nth} of {first}"
                assert not open_table(inner).verify().findings


def check_standing_still(inner: MemoryStore, first: Action, second: Action, nth: int) -> list[Rows]:
    """Run the second one and a collector at a call of the first one; return what may be there then."""

    def commit_and_collect() -> None:
        second.on(2)(inner)
        vacuum(open_table(inner, 3))

    store = FailingStore(inner).run(commit_and_collect, "*", nth=nth)
    without, both = second.model(ROWS), [first.model(second.model(ROWS)), second.model(first.model(ROWS))]
    try:
        first.on(1)(store)
    except UnavailableError:  # whether it was published is not known
        return [without, *both]
    except (ConflictError, HistoryTrimmedError):
        return [without]
    return both


@pytest.mark.parametrize("if_client_active", ["fail", "fence"])
def test_a_commit_that_a_collector_has_passed_is_not_made_again(base: Objects, if_client_active: str) -> None:
    """Others have gone on from it, so its operands would count twice."""
    with copied(base) as inner:

        def go_on_and_collect() -> None:
            ACTIONS["upsert"].on(2)(inner)
            stores = stores_of(inner)  # a client's collector, which knows no leases
            manifest_log(stores).raise_boundary(fetch_latest_manifest(stores).number - 1, FakeClock(0))

        store = FailingStore(inner).run(go_on_and_collect, "create", "manifest/*", nth=2, moment="after")
        with pytest.raises(UnavailableError, match="known"):
            ACTIONS["operands"].act(open_table(store, 1), ifClientActive=if_client_active)
        assert rows_of(inner) == ACTIONS["upsert"].model(ACTIONS["operands"].model(ROWS))


def test_a_compaction_of_ours_that_ends_while_it_is_looked_at_is_nobody_elses(base: Objects) -> None:
    with copied(base) as inner:
        stores, clock = stores_of(inner), FakeClock(seed=1)
        runs = fetch_latest_manifest(stores)[1].run_ids()
        with listed_job(stores, clock, TieredSpec((), runs, min(runs)), "ab" * 8, is_held=False) as listed:
            store = FailingStore(inner).run(lambda: listed.complete(), "head", "slatespark/claims/worker-*")
            ACTIONS["upsert"].on(2)(store)
        assert store.count("head", "slatespark/claims/worker-*") == 1
        assert rows_of(inner) == ACTIONS["upsert"].model(ROWS)


def test_a_verification_finds_no_damage_where_a_collector_comes_in_between(base: Objects) -> None:
    with copied(base) as inner:
        store = FailingStore(inner)
        open_table(store).verify()
        count = store.count()
    for nth in points(count, 4):
        with copied(base) as inner:

            def commit_and_collect(inner: MemoryStore = inner) -> None:
                ACTIONS["upsert"].on(2)(inner)
                vacuum(open_table(inner, 3))

            store = FailingStore(inner).run(commit_and_collect, "*", nth=nth)
            with contextlib.suppress(HistoryTrimmedError):  # to be run again, as some reports say, too
                report = open_table(store).verify()
                assert not report.has_damage, (nth, report.findings)
                assert report.versions or report.findings
