from __future__ import annotations

from pathlib import Path

import pytest

from slatespark import SlateStore
from tests.faults.jobs import table_of
from tests.unit.cli.shell import answer, done, refused, rows


@pytest.fixture
def place(tmp_path: Path) -> Path:
    store = SlateStore.create(str(tmp_path / "db"))
    store.write(table_of([(b"a", b"1")]))
    store.write(table_of([(b"b", b"2")]))
    return tmp_path / "db"


def keys(path: Path) -> list[str]:
    return [row["key"] for row in rows(path, "--text")]


def test_it_copies_what_is_asked_for(place: Path, tmp_path: Path) -> None:
    assert done("copy-to", place, tmp_path / "all") == f"Copied 2 files to file://{tmp_path}/all.\n"
    assert answer("copy-to", place, tmp_path / "one", "--version", "3") == {"url": f"file://{tmp_path}/one", "files": 1}
    done("checkpoint", "create", place, "--name", "x", "--version", "3")
    done("copy-to", place, tmp_path / "two", "--checkpoint", "x")
    time = next(facts.committed_ms for facts in SlateStore.open(str(place)).history() if facts.version == 3)
    done("copy-to", place, tmp_path / "three", "--timestamp", str(time))
    assert keys(tmp_path / "all") == ["a", "b"]
    assert [keys(tmp_path / name) for name in ("one", "two", "three")] == [["a"], ["a"], ["a"]]


def test_refusals(place: Path, tmp_path: Path) -> None:
    assert "exists already" in refused("TableExistsError", "copy-to", place, place)
    assert "both" in refused("OptionError", "copy-to", place, tmp_path / "c", "--version", "3", "--checkpoint", "x")
    assert "--target-storage" in refused("OptionError", "copy-to", place, tmp_path / "c", "--target-storage", "secret")
    twice = ("--target-storage", "key=a", "--target-storage", "storage.key=b")
    assert "twice" in refused("OptionError", "copy-to", place, tmp_path / "c", *twice)
    assert "colour" in refused("OptionError", "copy-to", place, tmp_path / "c", "--target-storage", "colour=red")
    assert not (tmp_path / "c").exists()
