"""A compaction that is killed by SIGKILL, at a call or at any moment: nothing is lost, and nothing is leaked.

Reads and the client go on at once, and so does the next compaction. Once the lease of the killed one has expired, the
first vacuum leaves what versions need, and nothing else.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from slatespark.format.paths import sst_path
from slatespark.storage.local_store import LocalStore
from slatespark.table.log.compactions import fetch_compactions
from slatespark.table.log.manifests import fetch_manifest, list_manifests
from slatespark.table.records.leases import LEASE_LIFETIME_MS
from tests.faults.actions import HOUR_MS, ROWS, client_rows_at, copied, make_table, rows_of
from tests.faults.dying_compaction import compact
from tests.faults.jobs import store_on, stores_of, table_of
from tests.faults.test_client_interleavings import unpack
from tests.support.client import Location
from tests.support.cluster import REPOSITORY
from tests.support.effort import THOROUGH
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock

KILLS: Final = 100 if THOROUGH else 6


@pytest.mark.slow
def test_compactions_that_are_killed(tmp_path: Path) -> None:
    base, now_ms = make_table(tmp_path / "base"), FakeClock().now_ms()
    with copied(base) as inner:
        store = FailingStore(inner)
        compact(store, now_ms, 1)
        calls = store.count()
    moments = [str(1 + nth * calls // (KILLS // 2)) for nth in range(KILLS // 2)]
    moments += [f"+{3000 + nth * 150_000 // KILLS}" for nth in range(KILLS // 2)]
    folders = [unpack(base, tmp_path / str(number)) for number in range(KILLS)]
    cues = [f"{folder}:{moment}" for folder, moment in zip(folders, moments, strict=True)]
    command = [sys.executable, "-m", "tests.faults.dying_compaction", str(now_ms), *cues]
    subprocess.run(command, check=True, timeout=600, cwd=REPOSITORY)
    for number, folder in enumerate(folders):
        check_goes_on(folder, now_ms, next_at_once=number % 2 == 0)


def check_goes_on(folder: Path, now_ms: int, *, next_at_once: bool) -> None:
    store = LocalStore(folder)
    assert rows_of(store) == ROWS
    assert client_rows_at(Location.local(folder)) == ROWS
    if next_at_once:
        compact(store, now_ms, 201)
    later = FakeClock(now_ms + LEASE_LIFETIME_MS + HOUR_MS, seed=202)
    store_on(store, later).vacuum(minAge="0s", force=True)
    check_nothing_leaked(folder)
    table = store_on(store, FakeClock(now_ms, seed=203))
    table.write(table_of([(b"on", b"1")]))
    compact(store, now_ms, 204)
    assert rows_of(store) == client_rows_at(Location.local(folder)) == {**ROWS, b"on": b"1"}
    assert not table.verify().findings


def check_nothing_leaked(folder: Path) -> None:
    stores = stores_of(LocalStore(folder))
    needed = {sst_path(ulid) for number in list_manifests(stores) for ulid in fetch_manifest(stores, number).ssts}
    assert files_in(folder, "compacted") == needed
    assert not files_in(folder, "slatespark/leases")
    assert not [path for path in files_in(folder, "slatespark/claims") if "worker" in path]
    assert not fetch_compactions(stores)[1].active_jobs()
    known = {"manifest", "compactions", "compacted", "wal", "gc", "slatespark"}
    assert {path.split("/")[0] for path in files_in(folder, ".")} <= known, "no temporary files"


def files_in(folder: Path, name: str) -> set[str]:
    return {str(path.relative_to(folder)) for path in (folder / name).rglob("*") if path.is_file()}
