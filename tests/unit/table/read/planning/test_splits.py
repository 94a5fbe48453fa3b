"""Splits are of one size, however many layers lie over each other, and of a number that processors share evenly."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.format.info import SstInfo
from slatespark.format.ulid import Ulid
from slatespark.options import ReadOptions
from slatespark.ranges import ALL_KEYS, KeyRange
from slatespark.table.clock import SystemClock
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read.fetch import measure_slices, sample_indexes
from slatespark.table.read.planning.layers import fetch_layers
from slatespark.table.read.planning.plan import (
    CutPoint,
    FileSlice,
    Layer,
    SstFile,
    even_bytes,
    plan_ranges,
    plan_splits,
)
from slatespark.table.read.reader import fetch_read_plan
from slatespark.table.stores import OWN_ROOT

ROWS = 4000


def split_sizes(layers: int, splits: int) -> list[int]:
    """Stored bytes of the splits of a table whose layers all have random keys of one range."""
    path = f"memory://even-splits-{layers}-{splits}"
    store = SlateStore.create(path, autoCompact=False)
    numbers = np.random.default_rng(7).permutation(layers * ROWS).reshape(layers, ROWS)
    for some in numbers:
        keys = [b"%08d" % number for number in some]
        store.write(pa.table({"key": keys, "value": [b"v" * 100] * ROWS}), blockSize=1024)
    total = sum(file.stored_bytes for file in store.files())
    options = ReadOptions.parse({"path": path, "splitSize": -(-total // splits)})
    plan = fetch_read_plan(store._stores, options, SystemClock())
    slices = ([part for layer in split.layers for part in layer.slices] for split in plan.splits)
    return [sum(measure_slices(store._stores, parts)) for parts in slices]


@pytest.mark.parametrize("layers", [1, 3, 25])
@pytest.mark.parametrize("splits", [2, 8])
def test_splits_are_of_one_size(layers: int, splits: int) -> None:
    sizes = split_sizes(layers, splits)
    assert len(sizes) == splits
    assert max(sizes) < 1.3 * sum(sizes) / splits


def test_only_reads_round_the_number_up() -> None:
    """Whoever knows how many run at a time, as a compaction does, gets as many as asked for."""
    split_sizes(3, 5)
    store = SlateStore.open("memory://even-splits-3-5")._stores
    layers = fetch_layers(store, fetch_latest_manifest(store).value)
    total = sum(part.file.data_bytes for layer in layers for part in layer.slices)
    sample = partial(sample_indexes, store)
    for evenly, count in ((False, 5), (True, 8)):
        splits = plan_splits(layers, ALL_KEYS, target_bytes=-(-total // 5), sample=sample, evenly=evenly)
        assert len(splits) == count


@pytest.mark.parametrize(
    ("wanted", "planned"), [(1, 1), (2, 2), (3, 4), (5, 8), (7, 8), (9, 12), (17, 24), (64, 64), (65, 65), (100, 100)]
)
def test_processors_share_the_splits_evenly(wanted: int, planned: int) -> None:
    size = even_bytes(wanted * 1000, 1000)
    assert size <= 1000
    assert -(-wanted * 1000 // size) == planned


@pytest.mark.parametrize("file_bytes", [1000, 10], ids=["large ranges", "joined ranges"])
def test_many_ranges_of_many_files_are_planned_in_one_pass(monkeypatch: pytest.MonkeyPatch, file_bytes: int) -> None:
    """Each range looked at each file: a list of 1,000 tenants in 10,000 files took 17 s."""
    count, looks = 200, 0
    files = [SstFile(OWN_ROOT, Ulid(number), _info(number, file_bytes), 2) for number in range(count)]
    layers = [Layer("run 0", tuple(file.whole() for file in files))]
    ranges = [KeyRange(b"%05d" % (10 * number), b"%05d" % (10 * number + 5)) for number in range(count)]
    intersect = KeyRange.intersect

    def counted(one: KeyRange, other: KeyRange) -> KeyRange:
        nonlocal looks
        looks += 1
        return intersect(one, other)

    monkeypatch.setattr(KeyRange, "intersect", counted)

    def sample(sampled: Sequence[SstFile], _: int) -> list[list[CutPoint]]:
        return [[CutPoint(file.info.first_entry or b"", file.data_bytes)] for file in sampled]

    def measure(parts: Sequence[FileSlice]) -> list[int]:
        return [part.file.data_bytes for part in parts]

    splits = plan_ranges(layers, ranges, target_bytes=100, sample=sample, measure=measure)
    assert looks < 10 * count
    slices = [part for split in splits for layer in split.layers for part in layer.slices]
    assert slices == [FileSlice(file, keys) for file, keys in zip(files, ranges, strict=True)]


def _info(number: int, data_bytes: int) -> SstInfo:
    first, last = b"%05d" % (10 * number), b"%05d" % (10 * number + 9)
    return SstInfo(first, last, index_offset=data_bytes, index_len=5, filter_offset=data_bytes, filter_len=0)
