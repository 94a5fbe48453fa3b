"""Writers that commit without pause take turns: nobody is kept out, however long the own steps take."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from slatespark import CommitConflictError, SlateStore
from slatespark.storage.local_store import LocalStore
from slatespark.table.commit.backoff import MAX_COMMIT_ATTEMPTS
from slatespark.table.log.manifests import fetch_latest_manifest, may_be_claim
from slatespark.table.records.commits import newest_commit_records
from tests.faults.busy_database import check_serves_on
from tests.faults.jobs import Job, stores_of, table_of
from tests.support.cluster import REPOSITORY
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock

LARGE_ROWS = 20_000
PATIENCE_S = 120.0


def write_without_pause(folder: Path, writer: int, rows: int) -> None:
    """Write the same rows again and again, from when every writer has begun until the test has seen enough."""
    store = SlateStore.open(str(folder))
    table = pa.table({"key": [b"%d-%06d" % (writer, row) for row in range(rows)], "value": [b"x" * 50] * rows})
    store.write(table.slice(0, 1))
    (folder.parent / f"ready-{writer}").touch()
    while not (folder.parent / "go").exists():
        time.sleep(0.01)
    while not (folder.parent / "stop").exists():
        with suppress(CommitConflictError):  # on a slow machine a writer may run out of attempts; it goes on
            store.write(table)


@pytest.mark.slow
def test_writers_without_pause_commit_in_turns(tmp_path: Path) -> None:
    """Two quick ones and a slow one, whose rows take long to move above those of the others."""
    folder = tmp_path / "db"
    SlateStore.create(str(folder), autoCompact=False)
    sizes = {0: 1, 1: 1, 2: LARGE_ROWS}
    program = (
        "import sys, pathlib; from tests.faults.test_turns import write_without_pause; "
        "write_without_pause(pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", program, str(folder), str(writer), str(rows)], cwd=REPOSITORY)
        for writer, rows in sizes.items()
    ]
    while not all((tmp_path / f"ready-{writer}").exists() for writer in sizes):
        assert all(child.poll() is None for child in children)
        time.sleep(0.01)
    (tmp_path / "go").touch()
    end = time.monotonic() + PATIENCE_S
    large = quick = 0
    while time.monotonic() < end and (large < 3 or quick < 6):
        assert all(child.poll() is None for child in children)
        time.sleep(0.1)
        commits = Counter(
            next(iter(record.files.values()))["puts"]
            for record in newest_commit_records(LocalStore(folder))
            if record.operation == "write"
        )
        large = commits[LARGE_ROWS]
        quick = sum(commits.values()) - large
    (tmp_path / "stop").touch()
    assert [child.wait(PATIENCE_S) for child in children] == [0, 0, 0]
    assert large >= 3
    assert quick >= 6


@pytest.mark.slow
def test_a_writer_that_is_slow_to_claim_is_let_in(tmp_path: Path) -> None:
    """It needs longer from its look to its claim than the quick one for whole commits, so they never meet."""
    folder = tmp_path / "db"
    SlateStore.create(str(folder), autoCompact=False)
    program = (
        "import sys, pathlib; from tests.faults.test_turns import write_without_pause; "
        "write_without_pause(pathlib.Path(sys.argv[1]), 0, 1)"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(folder)], cwd=REPOSITORY) as child:
        while not (tmp_path / "ready-0").exists():
            assert child.poll() is None
            time.sleep(0.01)
        slow = FailingStore(LocalStore(folder))
        for nth in range(1, MAX_COMMIT_ATTEMPTS + 1):
            slow.run(lambda: time.sleep(0.2), "create", "manifest/*", nth=nth)
        (tmp_path / "go").touch()
        try:
            Job(slow).upload(table_of([(b"slow", b"v")])).commit()
        finally:
            (tmp_path / "stop").touch()
        assert child.wait(PATIENCE_S) == 0
    check_serves_on(folder, [(b"0-000000", b"x" * 50), (b"slow", b"v")])


def test_rows_that_take_long_to_move_are_moved_under_the_claim(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    SlateStore.create(str(folder))
    clock, seeds = FakeClock(), itertools.count(1)
    store = FailingStore(LocalStore(folder))
    slow = Job(store, clock).upload(table_of([(b"k%03d" % number, b"slow") for number in range(50)]))

    def sibling() -> None:
        """Another commit while the rows are rewritten, unless it has to wait for the claim."""
        if may_be_claim(fetch_latest_manifest(stores_of(LocalStore(folder))).value):
            return
        Job(folder, FakeClock(clock.now_ms(), seed=next(seeds))).upload(table_of([(b"k000", b"quick")])).commit()

    for nth in range(1, 10):
        store.run(sibling, "put", "compacted/*", nth=nth)
    sibling()
    store.calls.clear()
    slow.commit()
    writes = [call.path.split("/")[0] for call in store.calls if call.operation in ("create", "put")]
    shown = "".join({"compacted": "f", "manifest": "m"}.get(name, "") for name in writes)
    assert shown == "fmfm", "moved above the sibling, claimed, moved above the next one, published"
    check_serves_on(folder, [(b"k%03d" % number, b"slow") for number in range(50)])


def test_a_dead_sibling_is_waited_for_once(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    SlateStore.create(str(folder))
    dying = FailingStore(LocalStore(folder)).fail("create", "wal/*", moment="after", error=RuntimeError("dies"))
    job = Job(dying, FakeClock(), ifClientActive="fence").upload(table_of([(b"k", b"lost")]))
    lease = next(iter(stores_of(LocalStore(folder)).main.list("slatespark/leases/"))).path
    content = bytes(dying.get(lease))
    with pytest.raises(RuntimeError, match="dies"):
        job.commit()
    dying.put(lease, [content])  # a killed process leaves it
    clocks = [FakeClock(seed=seed) for seed in (1, 2)]
    for number, clock in enumerate(clocks):
        Job(folder, clock).upload(table_of([(b"k", b"%d" % number)])).commit()
    assert [sum(clock.slept_ms) > 0 for clock in clocks] == [True, False]
    check_serves_on(folder, [(b"k", b"1")])
