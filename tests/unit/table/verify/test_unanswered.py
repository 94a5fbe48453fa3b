"""A verification of which something is missing, or does not answer: it says so, and finds nothing sound unseen."""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path

import pytest

from slatespark import SlateStore, UnavailableError
from slatespark.storage.memory_store import MemoryStore
from tests.faults.jobs import store_on, table_of
from tests.support.failing_store import FailingStore

_numbers = count()


def test_a_parent_of_which_only_the_files_are_left(tmp_path: Path) -> None:
    parent = SlateStore.create(tmp_path / "parent")
    parent.write(table_of([(b"a", b"x")]))
    clone = parent.clone(tmp_path / "clone")
    shutil.rmtree(tmp_path / "parent" / "manifest")
    report = SlateStore.open(tmp_path / "clone").verify()
    [finding] = report.findings
    assert (finding.object, finding.section, finding.is_damage) == (f"{parent.url}", "manifest", False)
    assert "is not a SlateDB database" in finding.what
    assert clone.scan().read_all().num_rows == 1


@pytest.mark.parametrize(("operation", "path"), [("list", "slatespark/table/"), ("get", "slatespark/table/*")])
def test_a_store_that_does_not_tell_whether_times_must_be_in_order(operation: str, path: str) -> None:
    inner = MemoryStore(f"verify-unanswered-{next(_numbers)}")
    SlateStore.create(inner.url, history=True).write(table_of([(b"a", b"x")]))
    store = FailingStore(inner).fail(operation, path, times=10**9)  # type: ignore[arg-type]
    with pytest.raises(UnavailableError):
        store_on(store).verify()


def test_a_store_that_does_not_tell_whether_a_file_was_collected() -> None:
    inner = MemoryStore(f"verify-unanswered-{next(_numbers)}")
    SlateStore.create(inner.url).write(table_of([(b"a", b"x")]))
    [file] = inner.list("compacted/")
    inner.delete(file.path)
    assert store_on(inner).verify().has_damage
    looks = FailingStore(inner)
    store_on(looks).verify()
    seen = looks.count("list", "manifest/")
    store = FailingStore(inner).fail("list", "manifest/", nth=seen)
    with pytest.raises(UnavailableError):
        store_on(store).verify()
