"""`slatespark worker` as a process of its own: it is stopped, and it is killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slatespark.format.compactions import Compaction, CompactionStatus
from slatespark.table.log.compactions import fetch_compactions
from slatespark.table.stores import open_stores
from tests.support.client import Client, ClientOptions, Location, Merge, Put
from tests.support.effort import THOROUGH

TIMEOUT_S = 60
IMPATIENT = ClientOptions(
    compactor=True,
    compact_by_itself=True,
    settings={"compactor_options.worker": None, "compactor_options.worker_heartbeat_timeout": "2s"},
)
SLOW = "tests.support.slow_merges"
# SIGINT takes the way of SIGTERM
ENDS = (signal.SIGTERM, signal.SIGKILL, *((signal.SIGINT,) if THOROUGH else ()))


@contextmanager
def worker_process(location: Location, *arguments: str, module: str = "slatespark") -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", module, "worker", str(location.folder), "--poll-interval", "20ms", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def entries(location: Location) -> tuple[Compaction, ...]:
    return fetch_compactions(open_stores(str(location.folder), storage={})).value.jobs


def wait_for(location: Location, status: CompactionStatus) -> Compaction:
    deadline_s = time.monotonic() + TIMEOUT_S
    while [job.status for job in entries(location)] != [status]:
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    return entries(location)[0]


@contextmanager
def client_with_a_job(folder: Path, *operands: Merge) -> Iterator[Client]:
    with Client.open(Location.local(folder), IMPATIENT) as client:
        for number in range(4):
            client.write([*(Put(b"%03d" % key, b"%d" % number) for key in range(50)), *operands])
            client.flush_memtable()
        wait_for(client.location, CompactionStatus.SCHEDULED)
        yield client


def test_it_merges_until_it_is_told_to_stop(tmp_path: Path) -> None:
    with (
        client_with_a_job(tmp_path / "db") as client,
        worker_process(client.location, "--json", "--heartbeat-interval", "50ms") as process,
    ):
        wait_for(client.location, CompactionStatus.COMPLETED)
        assert len(client.scan()) == 50
        process.send_signal(signal.SIGTERM)
        out, errors = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, errors) == (0, "")
    [report] = [json.loads(line) for line in out.splitlines()]
    assert (report["rows_in"], report["rows_out"], report["destination"], report["error"]) == (200, 50, 0, None)


def test_operands_are_folded_by_the_operator_that_is_given(tmp_path: Path) -> None:
    with client_with_a_job(tmp_path / "db", Merge(b"m", b"+")) as client:
        with worker_process(client.location, "--once") as process:
            assert "mergeOperator" in process.communicate(timeout=TIMEOUT_S)[1]
            assert process.returncode == 1
        with worker_process(client.location, "--once", "--merge-operator", "concat", "--parallelism", "1") as process:
            assert process.communicate(timeout=TIMEOUT_S)[1] == ""
            assert process.returncode == 0
        wait_for(client.location, CompactionStatus.COMPLETED)
        assert client.get(b"m") == b"++++"
        [row] = client.scan(b"m", b"n")
        assert row.value == b"++++"


@pytest.mark.parametrize("kind", ENDS)
def test_the_job_of_a_worker_that_ends_goes_to_another(kind: signal.Signals, tmp_path: Path) -> None:
    """A stopped worker gives it back; of a dead one the coordinator takes it, after its time-out."""
    with client_with_a_job(tmp_path / "db") as client:
        expected = client.scan()
        with worker_process(client.location, "--heartbeat-interval", "50ms", module=SLOW) as process:
            taken = wait_for(client.location, CompactionStatus.RUNNING)
            process.send_signal(kind)
            process.wait(TIMEOUT_S)
        left = wait_for(client.location, CompactionStatus.SCHEDULED)
        assert (left.id, left.worker) == (taken.id, None)
        assert client.scan() == expected
        with worker_process(client.location, "--once", "--heartbeat-interval", "50ms") as process:
            assert process.wait(TIMEOUT_S) == 0
        wait_for(client.location, CompactionStatus.COMPLETED)
        assert client.scan() == expected
