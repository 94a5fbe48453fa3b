"""Operations that run as tasks, each on a table of several files, with the rows that must be left."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import pyarrow as pa

from slatespark import SlateStore, SstWriter
from slatespark.options import ReadOptions
from slatespark.table.clock import Clock
from slatespark.table.read.reader import ReadPlan, fetch_read_plan
from slatespark.table.stores import TableStores
from tests.support.fake_clock import FakeClock

START_MS: Final = 1_700_000_000_000
HOUR_MS: Final = 3_600_000
SMALL: Final[dict[str, Any]] = {"sstSize": "4k", "blockSize": "1k"}

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


@dataclass(frozen=True, slots=True)
class Scene:
    """A table before an operation.

    Attributes
    ----------
    make : creates it at a path, with files beside it
    run : does the operation on a `SlateStore` or a `SlateTable` at that path, with further arguments
    left : what a read shows afterwards: values by key
    has_history : whether every version counts
    """

    make: Callable[[Path], None]
    run: Callable[..., Any]
    left: dict[bytes, bytes]
    has_history: bool = False

    def stored(self, store: SlateStore) -> list[dict[str, Any]]:
        """What the table stores: rows with numbers and times; on a history table all versions, deletions included."""
        more: dict[str, Any] = {"readVersions": "all"} if self.has_history else {"includeExpired": True}
        found: list[dict[str, Any]] = store.scan(metadataColumns=True, **more).read_all().to_pylist()
        return found


def key(number: int) -> bytes:
    return b"%04d" % number


def rows(numbers: Iterable[int], value: bytes, **more: Any) -> pa.Table:
    keys = [key(number) for number in numbers]
    return pa.table(
        {"key": keys, "value": [value] * len(keys), **{name: [it] * len(keys) for name, it in more.items()}}
    )


def _values(numbers: Iterable[int], value: bytes) -> dict[bytes, bytes]:
    return {key(number): value for number in numbers}


# --- trimHistory ----------------------------------------------------------------------------------------------------


def _make_trim(path: Path) -> None:
    store = SlateStore.create(str(path), clock=FakeClock(START_MS), history=True)
    for ts in (10, 20, 30):
        store.write(rows(range(ts, ts + 200), b"%d" % ts, ts=ts), timestampColumn="ts", **SMALL)
    mixed = pa.concat_tables([rows(range(500, 700), b"%d" % ts, ts=ts) for ts in (5, 45)])
    store.write(mixed, timestampColumn="ts", **SMALL)


TRIM: Final = Scene(
    _make_trim,
    lambda table, path, **more: table.trimHistory(25, **more),
    {**_values(range(10, 210), b"10"), **_values(range(20, 220), b"20"), **_values(range(500, 700), b"5")},
    has_history=True,
)


# --- deleteRange of a history table ---------------------------------------------------------------------------------


def _make_history(path: Path) -> None:
    store = SlateStore.create(str(path), clock=FakeClock(START_MS), history=True)
    store.write(rows(range(600), b"1", ts=10), timestampColumn="ts", **SMALL)
    store.write(rows(range(0, 600, 3), b"2", ts=15), timestampColumn="ts", **SMALL)


def _survivors() -> dict[bytes, bytes]:
    return {key(at): b"2" if at % 3 == 0 else b"1" for at in range(600) if not 100 <= at < 500}


DELETE_RANGE: Final = Scene(
    _make_history,
    lambda table, path, **more: table.deleteRange("key >= X'30313030' AND key < X'30353030'", 20, **more),
    _survivors(),
    has_history=True,
)


def use_small_splits(patch: Callable[[str, object], None]) -> None:
    """Let a deletion search its range in many splits; `patch` replaces a name."""

    def in_small_splits(stores: TableStores, options: ReadOptions, clock: Clock, **more: Any) -> ReadPlan:
        return fetch_read_plan(stores, replace(options, split_bytes=2000), clock, **more)

    patch("slatespark.table.write.deletion.fetch_read_plan", in_small_splits)


# --- ingest ---------------------------------------------------------------------------------------------------------

_FILES: Final = (range(100, 200), range(250, 400), range(400, 401))


def _file(path: Path, number: int) -> str:
    return str(path.parent / f"{path.name}-{number}.sst")


def _make_ingest(path: Path) -> None:
    store = SlateStore.create(str(path), clock=FakeClock(START_MS))
    store.write(rows(range(300), b"old"), **SMALL)
    for number, keys in enumerate(_FILES):
        SstWriter(_file(path, number), clock=FakeClock(START_MS - 5)).write(rows(keys, b"%d" % number), blockSize="1k")


INGEST: Final = Scene(
    _make_ingest,
    lambda table, path, **more: table.ingest(
        [_file(path, number) for number in range(len(_FILES))], timestamp=START_MS + 5, **SMALL, **more
    ),
    {
        **_values(range(300), b"old"),
        **{name: value for at, keys in enumerate(_FILES) for name, value in _values(keys, b"%d" % at).items()},
    },
)


# --- reap -----------------------------------------------------------------------------------------------------------

_YOUNG: Final = (*range(0, 1000, 10), *(at for at in range(1000, 1500) if at % 3))  # few of a file, or most of it


def _make_reap(path: Path) -> None:
    clock = FakeClock(START_MS)
    store = SlateStore.create(str(path), clock=clock, retention="1h")
    store.write(rows(range(1500), b"old"))
    clock.advance(2 * HOUR_MS)
    store.write(rows(_YOUNG, b"young"))
    store.compact(full=True, now=START_MS, **SMALL)  # then nothing is past the retention yet


REAP: Final = Scene(
    _make_reap,
    lambda table, path, **more: table.reap(now=START_MS + 2 * HOUR_MS, maxBatchBytes="20k", **more),
    _values(_YOUNG, b"young"),
)

# --- erase ----------------------------------------------------------------------------------------------------------


def _make_erase(path: Path) -> None:
    store = SlateStore.create(str(path), clock=FakeClock(START_MS))
    store.write(rows(range(600), b"1"), **SMALL)
    store.write(rows(range(0, 600, 3), b"2"), **SMALL)


ERASE: Final = Scene(
    _make_erase,
    lambda table, path, **more: table.erase(where="key >= X'30313030' AND key < X'30353030'", **SMALL, **more),
    _survivors(),
)

SCENES: Final = {"trimHistory": TRIM, "deleteRange": DELETE_RANGE, "ingest": INGEST, "reap": REAP, "erase": ERASE}


# --- tasks that travel ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class TravellingTasks:
    """Runs tasks as Spark may: function, items and results are pickled, and every task runs twice.

    Attributes
    ----------
    fails_at : the number of the task that fails; None for none
    sizes : how many tasks each call had
    """

    fails_at: int | None = None
    parallelism: int = 3
    sizes: list[int] = field(default_factory=list)

    def __call__(self, function: Callable[[Item], Outcome], items: Sequence[Item]) -> list[Outcome]:
        self.sizes.append(len(items))
        outcomes = []
        for number, item in enumerate(items):
            if number == self.fails_at:
                raise OSError("this executor is lost")
            packed = pickle.dumps((function, item))
            for _ in range(2):  # of an attempt and a speculative one, the last to end counts
                run, its = pickle.loads(packed)
                outcome: Outcome = pickle.loads(pickle.dumps(run(its)))
            outcomes.append(outcome)
        return outcomes
