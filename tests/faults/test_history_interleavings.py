"""Every pair of actions on one history table, stepped by storage calls: each instant shows what some order would.

The judge is a model that keeps the versions of each key in the order in which they were committed, with their times.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Any, Final

import pyarrow as pa
import pytest

from slatespark import ConflictError, HistoryTrimmedError, SlateStore
from slatespark.storage.memory_store import MemoryStore
from slatespark.storage.object_store import ObjectStore
from slatespark.table.transaction.transaction import Transaction
from tests.faults.actions import Objects, copied, vacuum
from tests.faults.jobs import store_on, table_of
from tests.support.effort import THOROUGH
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock
from tests.support.history_model import HistoryModel, HistoryVersion, Rows
from tests.support.stepping import ALWAYS, Outcome, alternating, interleave, preempted

NOW_MS: Final = 1_700_000_000_000
FLOOR: Final = 8

Change = Callable[[HistoryModel], bool]  # False: the table refuses it


def at(place: int) -> int:
    """An instant of the past."""
    return NOW_MS - 3_600_000 + 1000 * place


@dataclass(frozen=True)
class TimedAction:
    """One way to change the table, and what it makes of the model."""

    act: Callable[[SlateStore], object]
    change: Change = lambda model: True

    def on(self, seed: int) -> Callable[[ObjectStore], object]:
        return lambda store: self.act(open_table(store, seed))


def open_table(store: ObjectStore, seed: int = 0) -> SlateStore:
    return store_on(store, FakeClock(NOW_MS, seed=seed))


def add_all(model: HistoryModel, rows: Mapping[bytes, bytes | None], ts: int) -> bool:
    """Add versions of one time; False, and nothing, if one of them would be older than what its key has."""
    if model.is_out_of_order((key, ts) for key in rows):
        return False
    for key, value in rows.items():
        model.add(key, HistoryVersion(ts, value))
    return True


def write_at(place: int, **rows: str) -> TimedAction:
    values = {key.encode(): value.encode() for key, value in rows.items()}

    def act(table: SlateStore) -> None:
        columns = {"key": pa.array(values, pa.binary()), "value": pa.array(values.values(), pa.binary())}
        table.write(pa.table({**columns, "ts": [at(place)] * len(values)}), timestampColumn="ts")

    return TimedAction(act, lambda model: add_all(model, values, at(place)))


def write_now(**rows: str) -> TimedAction:
    values = {key.encode(): value.encode() for key, value in rows.items()}
    return TimedAction(
        lambda table: table.write(table_of(list(values.items()))), lambda model: add_all(model, values, NOW_MS)
    )


def delete_range_at(start: bytes, end: bytes, ts: int, place: int | None) -> TimedAction:
    where = f"key >= X'{start.hex()}' AND key < X'{end.hex()}'"

    def change(model: HistoryModel) -> bool:
        return add_all(model, {key: None for key, _ in model.as_of(ts) if start <= key < end}, ts)

    return TimedAction(lambda table: table.deleteRange(where, None if place is None else at(place)), change)


def delete_value(value: bytes) -> TimedAction:
    def change(model: HistoryModel) -> bool:
        return add_all(model, {key: None for key, found in model.as_of(NOW_MS) if found == value}, NOW_MS)

    return TimedAction(lambda table: table.delete(f"value = X'{value.hex()}'"), change)


def replace_b() -> TimedAction:
    def change(model: HistoryModel) -> bool:
        gone = {key: None for key, _ in model.as_of(NOW_MS) if b"b" <= key < b"d"}
        return add_all(model, gone, NOW_MS) and add_all(model, {b"b": b"r"}, NOW_MS)

    return TimedAction(
        lambda table: table.write(table_of([(b"b", b"r")]), mode="overwrite", startKey=b"b", endKey=b"d"), change
    )


def count_up() -> TimedAction:
    def act(table: SlateStore) -> None:
        with table.begin() as txn:
            mark(txn)

    def mark(txn: Transaction) -> None:
        (row,) = txn.getForUpdate([b"b"]).read_all().to_pylist() or [{"value": b""}]
        txn.write(table_of([(b"b", row["value"] + b"+")]))

    def change(model: HistoryModel) -> bool:
        return add_all(model, {b"b": dict(model.as_of(NOW_MS)).get(b"b", b"") + b"+"}, NOW_MS)

    return TimedAction(act, change)


def trim(place: int) -> TimedAction:
    def change(model: HistoryModel) -> bool:
        model.trim(at(place))
        return True

    return TimedAction(lambda table: table.trimHistory(at(place)), change)


ACTIONS: Final = {
    "early write": write_at(9, a="e", d="e"),
    "late write": write_at(20, b="l", c="l"),
    "write": write_now(a="n", b="n"),
    "delete a range of the past": delete_range_at(b"b", b"d", at(15), 15),
    "delete a range": delete_range_at(b"b", b"d", NOW_MS, None),
    "delete by condition": delete_value(b"1"),
    "replace": replace_b(),
    "transaction": count_up(),
    "trim": trim(11),
    "raise the floor": TimedAction(lambda table: table.setHistoryFloor(at(FLOOR))),
    "compact": TimedAction(lambda table: table.compact(full=True, sstSize=60)),
    "compact a range": TimedAction(lambda table: table.compact(startKey=b"b", endKey=b"c")),
    "vacuum": TimedAction(lambda table: vacuum(table)),
}
NAMES: Final = list(ACTIONS)


def base_model() -> HistoryModel:
    model = HistoryModel()
    for place, rows in BASE:
        assert add_all(model, rows, at(place))
    return model


BASE: Final[list[tuple[int, dict[bytes, bytes]]]] = [
    (2, {b"a": b"1", b"b": b"1", b"c": b"1"}),
    (5, {b"b": b"2", b"d": b"2"}),
    (10, {b"b": b"1", b"c": b"3"}),
]


@pytest.fixture(scope="module")
def base() -> Objects:
    store = MemoryStore("history-actions")
    SlateStore.create(store.url, history=True, versionRetention="none", autoCompact=False)
    for place, rows in BASE:
        write_at(place, **{key.decode(): value.decode() for key, value in rows.items()}).on(100 + place)(store)
    objects = {path: data for path, (data, _) in store._bucket.objects.items()}
    return {path.removeprefix(store._prefix): data for path, data in objects.items()}


@pytest.fixture(scope="module")
def calls(base: Objects) -> dict[str, int]:
    counts = {}
    for name, action in ACTIONS.items():
        with copied(base) as inner:
            store, model = FailingStore(inner), base_model()
            try:
                action.on(1)(store)
            except ConflictError:
                assert not action.change(model), name
            else:
                assert action.change(model), name
            assert shown(inner) == expected(model, has_floor=name == "raise the floor"), name
            counts[name] = store.count()
    return counts


def instants() -> Iterable[int]:
    return (*(at(place) - before for place in (0, 2, 5, FLOOR, 9, 10, 11, 12, 15, 20) for before in (1, 0)), NOW_MS)


def shown(store: ObjectStore) -> list[Rows | None]:
    """What each instant shows; None where it is refused."""
    found: list[Rows | None] = []
    for instant in instants():
        try:
            rows = open_table(store).scan(timestampAsOf=instant).read_all().to_pylist()
            found.append([(row["key"], row["value"]) for row in rows])
        except HistoryTrimmedError:
            found.append(None)
    return found


def expected(model: HistoryModel, *, has_floor: bool) -> list[Rows | None]:
    """What each instant must show; before the first version there was, a read may be refused."""
    floor = at(FLOOR) if has_floor else at(2)
    return [None if instant < floor else model.as_of(instant) for instant in instants()]


def run_pair(inner: MemoryStore, names: tuple[str, str], schedule: Iterable[int]) -> list[Outcome]:
    pair = [ACTIONS[name] for name in names]
    outcomes = interleave(inner, [pair[0].on(1), pair[1].on(2)], schedule)
    failed = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    assert all(isinstance(outcome, ConflictError) for outcome in failed), failed
    done = [number for number, outcome in enumerate(outcomes) if outcome not in failed]
    has_floor = any(names[number] == "raise the floor" for number in done)
    possible = [model for order in permutations(done) if (model := in_order(pair, order)) is not None]
    states = [expected(model, has_floor=has_floor) for model in possible]
    assert shown(inner) in states, (names, outcomes)
    assert not open_table(inner).verify().findings
    return outcomes


def in_order(pair: list[TimedAction], order: Iterable[int]) -> HistoryModel | None:
    """Return the model after actions one after the other; None if the table would refuse one of them."""
    model: Any = copy.deepcopy(base_model())
    return model if all(pair[number].change(model) for number in order) else None


@pytest.mark.slow
@pytest.mark.parametrize("first", NAMES)
def test_one_runs_whole_at_a_storage_call_of_the_other(base: Objects, calls: dict[str, int], first: str) -> None:
    for number, second in enumerate(NAMES):
        if not THOROUGH and (number + NAMES.index(first)) % 7:
            continue
        stride = max(1, calls[first] // (12 if THOROUGH else 1))
        for nth in range(1 + (NAMES.index(first) + 5 * number) % stride, calls[first] + 1, stride):
            with copied(base) as inner:
                outcomes = run_pair(inner, (first, second), preempted(nth, ALWAYS))
                if isinstance(outcomes[1], BaseException):
                    pair = [ACTIONS[first], ACTIONS[second]]
                    assert in_order(pair, [1]) is None or in_order(pair, [0, 1]) is None, (first, second, nth, outcomes)


@pytest.mark.slow
@pytest.mark.parametrize("first", NAMES)
def test_both_call_in_turns(base: Objects, first: str) -> None:
    for number, second in enumerate(NAMES):
        if THOROUGH or (number + NAMES.index(first)) % 7 == 1:
            with copied(base) as inner:
                outcomes = run_pair(inner, (first, second), alternating())
                pair = [ACTIONS[first], ACTIONS[second]]
                is_possible = any(in_order(pair, [one]) is not None for one in (0, 1))
                assert not is_possible or not all(isinstance(outcome, BaseException) for outcome in outcomes)
