"""What long calls tell of their progress: every one reaches its end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slatespark import SlateStore, SstWriter
from slatespark.table.progress import Step

ROWS = 300
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])


def rows(start: int, count: int = ROWS) -> pa.Table:
    return pa.table({"id": range(start, start + count), "v": ["x" * 50] * count}, SCHEMA)


@pytest.fixture
def store(tmp_path: Path) -> SlateStore:
    made = SlateStore.create(tmp_path / "table", SCHEMA, ["id"])
    for start in (0, ROWS):
        made.write(rows(start), compression="none")
    return made


def external(folder: Path) -> list[Path]:
    paths = [folder / "one.sst", folder / "two.sst"]
    for number, path in enumerate(paths):
        SstWriter(path, SCHEMA, ["id"]).write(rows((number + 5) * ROWS))
    return paths


CALLS: dict[Step, Callable[[SlateStore, Path, Any], object]] = {
    Step.WRITING: lambda store, _, tell: store.write(rows(7), progress=tell),
    Step.MERGING: lambda store, _, tell: store.compact(full=True, progress=tell),
    Step.CHECKING: lambda store, _, tell: store.verify(progress=tell),
    Step.ERASING: lambda store, _, tell: store.erase(3, progress=tell),
    Step.SEARCHING: lambda store, _, tell: store.proveAbsent(3, progress=tell),
    Step.COPYING: lambda store, folder, tell: store.copyTo(folder / "copy", progress=tell),
    Step.INGESTING: lambda store, folder, tell: store.ingest(external(folder), progress=tell),
    Step.REMOVING: lambda store, _, tell: store.delete("id > 5", progress=tell),
    Step.DELETING: lambda store, _, tell: SlateStore.drop(store.url, force=True, progress=tell),
}


@pytest.mark.parametrize("step", CALLS)
def test_a_call_tells_how_far_it_is(store: SlateStore, tmp_path: Path, step: Step) -> None:
    heard: list[tuple[Step, int, int]] = []
    CALLS[step](store, tmp_path, lambda *told: heard.append(told))
    assert heard[0] == (step, 0, 0)
    own = [(done, total) for told, done, total in heard[1:] if told is step]
    assert own
    assert all(0 <= done <= total for done, total in own)
    assert [done for done, _ in own] == sorted(done for done, _ in own)
    last, total = own[-1]
    assert 0.8 < last / total <= 1


@pytest.mark.parametrize(
    ("step", "call"),
    [
        (Step.RESTORING, lambda store, _, tell: store.restoreToVersion(store.detail().version - 1, progress=tell)),
        (Step.CLONING, lambda store, folder, tell: store.clone(folder / "clone", progress=tell)),
        (Step.REAPING, lambda store, _, tell: store.reap(progress=tell)),
    ],
)
def test_a_call_says_what_it_does(
    store: SlateStore, tmp_path: Path, step: Step, call: Callable[[SlateStore, Path, Any], object]
) -> None:
    heard: list[tuple[Step, int, int]] = []
    call(store, tmp_path, lambda *told: heard.append(told))
    assert heard[0] == (step, 0, 0)


def test_an_update_tells_its_rows(store: SlateStore) -> None:
    heard: list[tuple[Step, int, int]] = []
    store.update("id < 4", {"v": "y"}, progress=lambda *told: heard.append(told))
    assert heard[-1] == (Step.WRITING, 4, 0)


def test_a_step_is_text() -> None:
    assert f"{Step.MERGING}" == "Merging"
    assert Step.MERGING.unit == "bytes"
