"""A commit that fails at any one call to the store: readers see all of it or nothing, and the table serves on."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from slatespark import SlateError, SlateStore, TableNotFoundError
from slatespark.storage.local_store import LocalStore
from slatespark.storage.object_store import ObjectStore
from slatespark.table.records.operations import Operation
from tests.faults.busy_database import Contents, check_serves_on, client_pairs, make_busy, our_pairs, upserted
from tests.faults.jobs import Job, Pair, store_on, table_of
from tests.support.cluster import REPOSITORY
from tests.support.effort import points
from tests.support.failing_store import FailingStore, Moment

ADDED: list[Pair] = [(b"k%03d" % number, b"added") for number in range(0, 60, 7)]
INSIDE: list[Pair] = [(b"k005", b"replaced"), (b"k0111", b"replaced")]
MORE: list[Pair] = [(b"k014", b"second task"), (b"m", b"second task")]


class KilledError(BaseException):
    """The process ends here; nothing handles it, and nothing is cleaned up."""


def append(store: ObjectStore) -> None:
    Job(store).upload(table_of(ADDED), table_of(MORE)).commit()


def overwrite(store: ObjectStore) -> None:
    Job(store, operation=Operation.OVERWRITE).upload(table_of(ADDED), table_of(MORE)).commit()


def create(store: ObjectStore) -> None:
    Job(store).upload(table_of(ADDED), table_of(MORE)).commit()


def create_empty(store: ObjectStore) -> None:
    Job(store, operation=Operation.CREATE).commit()


def replace_range(store: ObjectStore) -> None:
    store_on(store).write(table_of(INSIDE), mode="overwrite", startKey=b"k005", endKey=b"k012")


NEW = upserted(ADDED, MORE)
WRITES: dict[str, Callable[[ObjectStore], None]] = {
    "append": append,
    "overwrite": overwrite,
    "replace_range": replace_range,
    "create": create,
    "create_empty": create_empty,
}


@dataclass(frozen=True)
class Scene:
    """A write, and copies of the folder it starts from."""

    name: str
    template: Path | None
    contents: Contents

    def write(self, store: ObjectStore) -> None:
        WRITES[self.name](store)

    def fresh_folder(self, folder: Path) -> Path:
        if self.template is not None:
            shutil.copytree(self.template, folder)
        return folder

    def calls(self, folder: Path) -> int:
        """How many calls the write makes when nothing fails."""
        store = FailingStore(LocalStore(self.fresh_folder(folder)))
        self.write(store)
        assert our_pairs(folder) == client_pairs(folder) == self.contents.after
        return store.count()

    def check(self, folder: Path, *, committed: bool) -> None:
        """Readers see the old or the new rows, and the table serves on."""
        rows = _rows_or_none(folder)
        if committed:
            assert rows == self.contents.after
        elif rows != self.contents.after:
            assert rows == self.contents.before
        assert rows is None or client_pairs(folder) == rows
        state = (self.name, rows == self.contents.after, *_objects(folder))
        if state in SERVED_ON:
            return
        SERVED_ON.add(state)
        if rows is None:
            self.write(LocalStore(folder))
            rows = self.contents.after
        check_serves_on(folder, rows)


# Many faults leave the same objects behind; what comes after them is tried once.
SERVED_ON: set[tuple[object, ...]] = set()


def _objects(folder: Path) -> list[str]:
    """Names of what is there; of those with random names the folder and how many there are."""
    found = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    counted = Counter(str(path.parent) for path in found)
    return sorted([f"{name}: {count}" for name, count in counted.items()])


def _rows_or_none(folder: Path) -> list[Pair] | None:
    try:
        return our_pairs(folder)
    except TableNotFoundError:
        return None


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Pair]]:
    folder = tmp_path_factory.mktemp("busy") / "db"
    return folder, make_busy(folder)


@pytest.fixture(params=list(WRITES))
def scene(request: pytest.FixtureRequest, busy: tuple[Path, list[Pair]]) -> Scene:
    template, rows = busy
    match request.param:
        case "append" as name:
            return Scene(name, template, Contents(rows, upserted(rows, NEW)))
        case "overwrite" as name:
            return Scene(name, template, Contents(rows, NEW))
        case "replace_range" as name:
            outside = [row for row in rows if not b"k005" <= row[0] < b"k012"]
            return Scene(name, template, Contents(rows, upserted(outside, INSIDE)))
        case "create" as name:
            return Scene(name, None, Contents(None, NEW))
        case name:
            return Scene(str(name), None, Contents(None, []))


Fault = Literal["fails once", "stays down", "killed"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "moment"),
    [
        ("fails once", "before"),
        ("fails once", "after"),
        ("stays down", "before"),
        ("killed", "before"),
        ("killed", "after"),
    ],
)
def test_a_fault_at_any_call(scene: Scene, fault: Fault, moment: Moment, tmp_path: Path) -> None:
    calls = scene.calls(tmp_path / "clean")
    assert calls > 5
    for nth in points(calls, 5 if fault == "killed" else 7, first=len(scene.name)):
        folder = scene.fresh_folder(tmp_path / f"{nth}")
        store = FailingStore(LocalStore(folder))
        error = KilledError() if fault == "killed" else None
        store.fail("*", nth=nth, times=1 if fault == "fails once" else 10**9, moment=moment, error=error)
        committed = True
        try:
            scene.write(store)
        except (SlateError, KilledError):
            committed = False
        assert store.count() >= nth
        scene.check(folder, committed=committed)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.slow
@pytest.mark.parametrize("scene", ["append", "create"], indirect=True)
def test_a_process_dies_at_any_call(scene: Scene, tmp_path: Path) -> None:
    """The real thing: a child killed at each call in turn, with no chance to tidy up."""
    calls = scene.calls(tmp_path / "clean")
    folders = [scene.fresh_folder(tmp_path / f"{nth}") for nth in range(1, calls + 1)]
    command = [sys.executable, "-m", "tests.faults.dying_writer", scene.name, *map(str, folders)]
    subprocess.run(command, check=True, timeout=120, cwd=REPOSITORY)
    for folder in folders:
        scene.check(folder, committed=False)


@pytest.mark.slow
def test_a_write_that_failed_can_be_repeated_at_once(busy: tuple[Path, list[Pair]], tmp_path: Path) -> None:
    """The same store object goes on after its failure; nothing it keeps in memory stands in its way."""
    template, rows = busy
    folder = tmp_path / "db"
    shutil.copytree(template, folder)
    store = FailingStore(LocalStore(folder))
    for nth in range(1, 60, 3):
        store.clear()
        store.fail("*", nth=nth)
        value = b"%d" % nth
        try:
            Job(store).upload(table_of([(b"again", value)])).commit()
        except SlateError:
            store.clear()
            Job(store).upload(table_of([(b"again", value)])).commit()
        rows = upserted(rows, [(b"again", value)])
        assert our_pairs(folder) == client_pairs(folder) == rows
    check_serves_on(folder, rows)


def test_refusals_leave_everything_as_it_was(busy: tuple[Path, list[Pair]], tmp_path: Path) -> None:
    template, rows = busy
    folder = tmp_path / "db"
    shutil.copytree(template, folder)
    before = sorted(path.relative_to(folder) for path in folder.rglob("*"))
    with pytest.raises(SlateError):
        SlateStore.open(str(folder)).write(table_of([(b"", b"an empty key")]))
    left = [path.relative_to(folder) for path in folder.rglob("*") if "slatespark" not in path.parts]
    assert sorted(left) == before
    check_serves_on(folder, rows)
