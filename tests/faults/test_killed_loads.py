"""A load beside a live client that is killed at each of its steps, and repeated: it takes effect once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from slatespark.storage.local_store import LocalStore
from slatespark.table.log.compactions import fetch_compactions
from slatespark.table.records.handed_loads import fetch_handed_loads
from tests.faults.dying_load import KEYS
from tests.faults.jobs import stores_of
from tests.support.client import ClientOptions, Location, Put
from tests.support.client_admin import read_manifest
from tests.support.cluster import REPOSITORY
from tests.support.live_client import LiveClient
from tests.support.observers import awaited

# Every call that changes the store, in order; the list of compactions is written by the client as well.
STEPS: Final = [
    "create:slatespark/leases/*:1",
    "put:compacted/*:1",  # the rows
    "put:compacted/*:2",  # merged with those of the client
    "create:compactions/*:1",  # submitted
    "create:compactions/*:2",  # claimed
    "create:slatespark/loads/*:1",
    "create:compactions/*:3",  # handed over
    "create:slatespark/commits/*:1",
    "create:slatespark/txn/*:1",
    "delete:slatespark/loads/*:1",
    "delete:slatespark/leases/*:2",  # the first one is that of a probe for the time
]
OPTIONS: Final = ClientOptions(
    compactor=True, settings={"compactor_options.poll_interval": "50ms", "compactor_options.worker": None}
)


def kill_and_repeat(folder: Path, mode: str, cues: list[str]) -> None:
    command = [sys.executable, "-m", "tests.faults.dying_load", str(folder), mode, *cues]
    subprocess.run(command, check=True, timeout=300, cwd=REPOSITORY)


@pytest.mark.slow
def test_a_load_that_is_repeated_takes_effect_once(database: Location) -> None:
    cues = [f"{step}:{moment}" for step in STEPS for moment in ("before", "after")]
    with LiveClient(database, OPTIONS) as live:
        live.write([Put(b"a", b"client"), Put(b"k", b"client")])
        live.flush_memtable()
        epochs = {(read_manifest(database).writer_epoch, read_manifest(database).compactor_epoch)}
        kill_and_repeat(database.folder, "cooperate", cues)
        loads = b"".join(b"+%d" % number for number in range(len(cues)))
        expected = {**dict.fromkeys(KEYS, loads), b"a": b"client" + loads, b"k": b"client"}
        assert awaited(lambda: {row.key: row.value for row in live.scan()}, expected) == expected
        assert live.is_open()
        epochs.add((read_manifest(database).writer_epoch, read_manifest(database).compactor_epoch))
        assert len(epochs) == 1
        stores = stores_of(LocalStore(database.folder))
        assert fetch_compactions(stores).value.active_jobs() == ()
        assert fetch_handed_loads(stores.main) == []


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_load_that_is_repeated_by_fencing_takes_effect_once(moment: str, database: Location) -> None:
    """The client has the rows, or not; either way the commit that fences it knows."""
    with LiveClient(database, OPTIONS) as live:
        live.write([Put(b"a", b"client"), Put(b"k", b"client")])
        live.flush_memtable()
        kill_and_repeat(database.folder, "fence", [f"create:compactions/*:3:{moment}"])
    with LiveClient(database, OPTIONS) as live:
        assert live.get(b"a") == b"client+0"
        assert live.get(b"z") == b"+0"
