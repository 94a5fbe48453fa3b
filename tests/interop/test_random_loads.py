"""Random loads beside a live client that writes all the time: everybody sees the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.interop.test_cooperative_writes import QUICK, WORKER, flushed
from tests.support.client import ClientOptions, Location, Put
from tests.support.client_admin import read_manifest
from tests.support.cooperative_loads import add_load, load_beside
from tests.support.effort import examples
from tests.support.live_client import LiveClient, Traffic
from tests.support.model import Model
from tests.support.observers import check_observers

NOW_MS = 2_000_000_000_000  # 2033: later than every write, before the far future

CLIENTS = {
    "by itself": ClientOptions(
        compactor=True,
        compact_by_itself=True,
        flush_interval="20ms",
        settings={**QUICK, "compactor_options.poll_interval": "300ms"},
    ),
    "our workers": ClientOptions(compactor=True, flush_interval="20ms", settings=WORKER),
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(examples(1)))
@pytest.mark.parametrize("name", CLIENTS)
def test_random_loads_beside_a_client_that_writes(name: str, seed: int, database: Location) -> None:
    random = np.random.default_rng(seed)
    model = Model()
    with LiveClient(database, CLIENTS[name]) as live:
        live.write([Put(b"key%05d" % number, b"first") for number in range(0, 300, 2)])
        live.flush_memtable()
        epochs = {shown_epochs(database)}
        for _ in range(4):
            live.start_writing(random_traffic(random))
            rows = random_load(random)
            operands = bool(random.random() < 0.3)
            options = {"mergeOperator": "concat"} if operands else {}
            record = load_beside(
                database.folder, rows, operands=operands, unflushedRows="win", clientTimeout="20s", **options
            )
            live.stop_writing()
            live.sync(model)
            add_load(model, record, rows, operands=operands)
            check_observers(live, model, NOW_MS)
            epochs.add(shown_epochs(database))
        assert len(epochs) == 1


def test_loads_beside_a_client_that_is_never_without_a_job(database: Location) -> None:
    """It plans its next merge of L0 views at the look at which it commits the last one."""
    settings: dict[str, Any] = {
        "compactor_options.commit_compacted_interval": "10s",
        "compactor_options.scheduler_options.min_compaction_sources": "1",
    }
    options = ClientOptions(compactor=True, compact_by_itself=True, flush_interval="5ms", settings=settings)
    random, model = np.random.default_rng(1), Model()
    with LiveClient(database, options) as live:
        flushed(live, a="first")
        for seed in range(3):
            live.start_writing(Traffic(writes_per_s=1000, keys=300, deletes=0.1, flush_every=20, seed=seed))
            rows = random_load(random)
            record = load_beside(database.folder, rows, unflushedRows="win", clientTimeout="60s")
            live.stop_writing()
            live.sync(model)
            add_load(model, record, rows)
            check_observers(live, model, NOW_MS)


def shown_epochs(database: Location) -> tuple[int, int]:
    manifest = read_manifest(database)
    return manifest.writer_epoch, manifest.compactor_epoch


def random_traffic(random: np.random.Generator) -> Traffic:
    return Traffic(
        writes_per_s=1500,
        keys=300,
        deletes=0.15,
        merges=0.2,
        ttls=0.05,
        past_ttls=0.05,
        flush_every=int(random.choice([40, 150, 400])),
        snapshot_every=int(random.choice([0, 100])),
        seed=int(random.integers(1 << 30)),
    )


def random_load(random: np.random.Generator) -> dict[bytes, bytes | None]:
    count = int(random.choice([1, 20, 200]))
    numbers = sorted(random.choice(400, count, replace=False).tolist())
    return {b"key%05d" % number: None if random.random() < 0.2 else b"load %d" % number for number in numbers}
