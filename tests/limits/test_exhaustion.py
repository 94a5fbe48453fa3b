"""Writes that run out of something: an error of ours, nothing lost, and the next one goes through."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from slatespark import SlateStore, UnavailableError
from tests.support.cluster import REPOSITORY

ROWS = pa.table({"key": [b"%06d" % number for number in range(2000)], "value": [b"old" * 333] * 2000})


def attempt(place: Path, kind: str, limit: int, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.limits.exhausted_child", str(place), kind, str(limit)],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **environment},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return (done.stdout + done.stderr).strip()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 6 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(place)], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("only root may mount")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def check_untouched(place: Path) -> None:
    store = SlateStore.open(str(place))
    assert store.scan().read_all().equals(ROWS)
    assert not store.verify().findings


def test_a_full_disk(small_disk: Path) -> None:
    place = small_disk / "table"
    SlateStore.create(str(place)).write(ROWS, compression="none")
    filler = small_disk / "filler"
    filler.write_bytes(bytes(1 << 20))
    found = attempt(place, "none", 0)
    assert found.startswith("UnavailableError")
    assert "No space left" in found
    check_untouched(place)
    filler.unlink()
    SlateStore.open(str(place)).vacuum(minAge="0s", force=True)
    small = ROWS.slice(0, 10)
    SlateStore.open(str(place)).write(small)
    check_untouched(place)


def test_a_vacuum_on_a_full_disk(small_disk: Path) -> None:
    place, filler = small_disk / "table", small_disk / "filler"
    store = SlateStore.create(str(place))
    for _ in range(2):
        store.write(ROWS, compression="none", mode="overwrite")
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    with pytest.raises(UnavailableError, match="No space left"):
        store.vacuum(minAge="0s", force=True)
    check_untouched(place)
    os.truncate(filler, filler.stat().st_size - (64 << 10))
    assert store.vacuum(minAge="0s", force=True).bytes > ROWS.nbytes // 2
    check_untouched(place)


def test_files_that_may_not_grow(tmp_path: Path) -> None:
    place = tmp_path / "table"
    SlateStore.create(str(place)).write(ROWS)
    assert attempt(place, "fsize", 1 << 20).startswith("UnavailableError")
    check_untouched(place)
    assert attempt(place, "none", 0) == "done"


def test_few_handles(tmp_path: Path) -> None:
    place = tmp_path / "table"
    SlateStore.create(str(place)).write(ROWS)
    assert attempt(place, "nofile", 24) == "done"


def test_no_room_for_temporary_files(tmp_path: Path, small_disk: Path) -> None:
    place = tmp_path / "table"
    SlateStore.create(str(place)).write(ROWS)
    (small_disk / "filler").write_bytes(bytes((6 << 20) - 8192))
    assert attempt(place, "none", 0, TMPDIR=str(small_disk)) == "done"


LITTLE = 64 << 20


def test_a_write_without_memory(tmp_path: Path) -> None:
    place = tmp_path / "table"
    SlateStore.create(str(place)).write(ROWS)
    assert attempt(place, "memory", LITTLE) == "MemoryError"
    check_untouched(place)


def test_a_command_without_memory_says_so_in_one_line(tmp_path: Path) -> None:
    place = tmp_path / "table"
    SlateStore.create(str(place)).write(ROWS)
    code, *lines = attempt(place, "command", LITTLE).splitlines()
    assert code == "exit code 1"
    assert [line.split(":")[0] for line in lines] == ["MemoryLimitError"]
    check_untouched(place)


def test_no_folder_for_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    store = SlateStore.create(str(tmp_path / "table"))
    store.write(ROWS)
    new = ROWS.set_column(1, "value", pa.array([b"new" * 333] * len(ROWS)))[::-1]
    with pytest.raises(UnavailableError, match="TMPDIR"):
        store.write(new, writeBuffer="1m")
    check_untouched(tmp_path / "table")
