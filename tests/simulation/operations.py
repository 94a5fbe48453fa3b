"""What operations of all kinds share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa

from slatespark import HistoryTrimmedError, SlateStore
from tests.simulation.actors import Operation
from tests.simulation.chance import Chance
from tests.simulation.model import Change, Rows, unchanged
from tests.simulation.world import World

KEYS: Final = [b"k%02d" % number for number in range(12)]
Make = Callable[[Chance, str], Operation]  # from the value that is written: no two operations write the same


def always(change: Change) -> Callable[[World], Change]:
    return lambda world: change


def some_keys(rng: Chance, keys: Sequence[bytes] = KEYS) -> list[bytes]:
    return sorted(rng.sample(keys, rng.choice([1, 2, 3, 6])))


def draw_range(rng: Chance) -> tuple[bytes, bytes]:
    start, end = sorted(rng.sample([*KEYS, b"k99"], 2))
    return start, end


def draw_files(rng: Chance) -> dict[str, Any]:
    """Options of files, so that some have many blocks, and some writes many files."""
    options: dict[str, Any] = {}
    if rng.random() < 0.3:
        options["sstSize"] = 60
    if rng.random() < 0.2:
        options["compression"] = rng.choice(["lz4", "zstd", "none"])
    if rng.random() < 0.2:
        options["blockSize"] = 1024
    return options


def inside(rows: Rows, start: bytes, end: bytes) -> dict[bytes, bytes]:
    return {key: value for key, value in rows.items() if start <= key < end}


def without(rows: Rows, gone: Mapping[bytes, object]) -> Rows:
    return {key: value for key, value in rows.items() if key not in gone}


def in_order(rows: Mapping[bytes, bytes]) -> Rows:
    return dict(sorted(rows.items()))


def maintenance(name: str, act: Callable[[SlateStore], object], *, is_blind: bool = False) -> Operation:
    return Operation(name, lambda world, table: act(table), always(unchanged), is_blind=is_blind)


def rows_of(table: pa.Table) -> Rows:
    return dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))


@contextmanager
def unless_collected(world: World, version: int) -> Iterator[None]:
    """Accept that a version is not found if a collector has been there."""
    try:
        yield
    except HistoryTrimmedError:
        world.require(not world.has_version(version), f"version {version} is there")
