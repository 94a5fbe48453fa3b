"""Plans as text: `tests/data/table/*.txt`."""

from __future__ import annotations

from pathlib import Path

import pytest

from slatespark.format.info import SstInfo
from slatespark.format.manifest import SstHandle
from slatespark.format.properties import SstProperties
from slatespark.format.ulid import Ulid
from slatespark.ranges import KeyRange, key_after
from slatespark.table.read.plan import CutPoint, FileSlice, Layer, SstFile, plan_splits
from slatespark.table.stores import OWN_ROOT
from slatespark.table.write.publication import stack_outputs
from slatespark.table.write.sst_upload import NewFile
from tests.support.golden import DATA, Case, run_golden

FILES = sorted((DATA / "table").glob("*.txt"))


def info(first: str, last: str, size: int) -> SstInfo:
    return SstInfo(first.encode(), last.encode(), index_offset=size, index_len=5, filter_offset=size, filter_len=0)


# --- splits ---------------------------------------------------------------------------------------------------------


def print_splits(case: Case) -> str:
    layers = [parse_layer(number, line) for number, line in enumerate(case.lines)]
    start, _, end = case.arguments.get("keys", "..").partition("..")
    keys = KeyRange(start.encode(), end.encode() or None)
    splits = plan_splits(layers, keys, target_bytes=int(case.arguments["target"]), sample=sample_evenly)
    return "\n".join(
        f"{shown_keys(split.keys)}: {' | '.join(map(shown_layer, split.layers))}".rstrip() for split in splits
    )


def parse_layer(number: int, line: str) -> Layer:
    name, _, files = line.partition(": ")
    slices = []
    for place, text in enumerate(files.split(", ")):
        first, last, size = text.split()
        file = SstFile(OWN_ROOT, Ulid(100 * number + place), info(first, last, int(size)), 2)
        slices.append(FileSlice(file, file.info.key_range()))
    return Layer(name, tuple(slices))


def sample_evenly(file: SstFile, spacing_bytes: int) -> list[CutPoint]:
    """Cut points as an index of small blocks gives them, keys being letters."""
    first, last = ord(file.info.first_entry or b"a"), ord(file.info.last_entry or b"z")
    count = -(-file.data_bytes // spacing_bytes)
    places = range(0, file.data_bytes, spacing_bytes)
    keys = [bytes([first + (last - first) * number // count]) for number in range(count)]
    return [CutPoint(key, min(spacing_bytes, file.data_bytes - place)) for key, place in zip(keys, places, strict=True)]


def shown_keys(keys: KeyRange) -> str:
    return f"[{keys.start.decode()}, {'' if keys.end is None else keys.end.decode()})"


def shown_layer(layer: Layer) -> str:
    return f"{layer.name} {', '.join(shown_slice(part) for part in layer.slices)}"


def shown_slice(part: FileSlice) -> str:
    end = "" if part.keys.end is None else part.keys.end.removesuffix(b"\0").decode()
    return f"{part.keys.start.decode()}-{end} {part.file.data_bytes}"


# --- outputs --------------------------------------------------------------------------------------------------------


def print_stack(case: Case) -> str:
    outputs = [parse_task(number, line) for number, line in enumerate(case.lines)]
    levels = stack_outputs(outputs)
    return "\n".join(
        f"run +{number}: {', '.join(shown_file(file) for file in level)}" for number, level in enumerate(levels)
    )


def parse_task(number: int, line: str) -> tuple[NewFile, ...]:
    _, _, files = line.partition(":")
    return tuple(
        new_file(100 * number + place, *text.strip().split("-"))
        for place, text in enumerate(files.split(","))
        if text.strip()
    )


def new_file(number: int, first: str, last: str) -> NewFile:
    properties = SstProperties(
        created_ms=0,
        min_create_ts=None,
        max_create_ts=None,
        min_expire_ts=None,
        max_expire_ts=None,
        min_seq=number,
        max_seq=number,
        puts=1,
        deletes=0,
        merges=0,
        any_flags=0,
        all_flags=0,
        all_versions=False,
    )
    return NewFile(SstHandle(Ulid(number), info(first, last, 10)), properties, 20)


def shown_file(file: NewFile) -> str:
    end = (file.keys.end or b"").removesuffix(b"\0").decode()
    return f"{file.keys.start.decode()}-{end} of task {file.properties.min_seq // 100}"


def test_ends_are_inclusive_in_the_text() -> None:
    file = new_file(3, "a", "c")
    assert file.keys == KeyRange(b"a", key_after(b"c"))
    assert shown_file(file) == "a-c of task 0"


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_golden(path: Path, rewrite: bool) -> None:
    run_golden(path, {"plan_splits": print_splits, "stack_outputs": print_stack}, rewrite=rewrite)
