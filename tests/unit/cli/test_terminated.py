"""Exports, imports and copies that are ended by SIGTERM."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from slatespark import SlateStore
from slatespark.cli.files.read_files import SAMPLE_ROWS
from slatespark.cli.signals import TERMINATED


def ended_by_sigterm(
    command: list[str], has_begun: Callable[[], bool], stdin: bytes = b"", *, code: int = TERMINATED
) -> None:
    """Run a command with input that does not end, and terminate it once it has begun."""
    with subprocess.Popen([sys.executable, "-m", "slatespark", *command], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(stdin)
        process.stdin.flush()
        limit = time.monotonic() + 60
        while not has_begun():
            assert process.poll() is None, process.returncode
            assert time.monotonic() < limit
            time.sleep(0.005)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == code


def test_an_export_that_is_terminated_leaves_nothing(tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "t"))
    keys = [f"{number:08}".encode() for number in range(300_000)]
    store.write(pa.table({"key": keys, "value": keys}))
    (tmp_path / "out").mkdir()
    command = ["export", str(tmp_path / "t"), str(tmp_path / "out" / "rows.json"), "--parallelism", "1"]
    ended_by_sigterm(command, lambda: any((tmp_path / "out").glob(".rows.json.*.part")))
    assert [*(tmp_path / "out").iterdir()] == []


def test_a_copy_that_is_terminated_keeps_nothing_from_vacuums(tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "t"))
    for start in range(0, 600_000, 100_000):
        keys = [f"{number:08}".encode() for number in range(start, start + 100_000)]
        store.write(pa.table({"key": keys, "value": keys}), sstSize="200k")
    target = tmp_path / "copy"
    ended_by_sigterm(["copy-to", str(tmp_path / "t"), str(target)], (target / "compacted").is_dir)
    assert store.checkpoints() == ()
    assert [*(target / "slatespark" / "leases").iterdir()] == []  # its files serve the next attempt


def test_an_import_that_is_terminated_abandons_its_lease(tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "t"))
    leases = tmp_path / "t" / "slatespark" / "leases"
    ended_by_sigterm(
        ["import", str(tmp_path / "t"), "-", "--format", "json"],
        lambda: leases.is_dir() and any(leases.iterdir()),
        b'{"key": "61", "value": "31"}\n' * 2 * SAMPLE_ROWS,
    )
    assert [*leases.iterdir()] == []
    assert store.scan().read_all().num_rows == 0


def test_an_import_that_waits_for_more_of_a_csv_can_be_terminated(tmp_path: Path) -> None:
    """Arrow waits, in which no handler of Python's runs."""
    store = SlateStore.create(str(tmp_path / "t"), pa.schema([("k", pa.string()), ("v", pa.string())]), keyColumns="k")
    leases = tmp_path / "t" / "slatespark" / "leases"
    ended_by_sigterm(
        ["import", str(tmp_path / "t"), "-", "--format", "csv"],
        lambda: leases.is_dir() and any(leases.iterdir()),
        b"k,v\n" + b"1,%b\n" % (b"a" * 1000) * 10_000,
        code=-signal.SIGTERM,
    )
    assert store.scan().read_all().num_rows == 0
