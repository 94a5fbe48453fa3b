"""Full compactions: SlateStore, and the real client's compactor on the same files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from benchmarks.data import ONE_FILE_PER_FLUSH, DataFolder, stored_bytes
from benchmarks.harness import Alternative, Benchmark, Target
from benchmarks.tasks import linked_copy
from benchmarks.worker import Sample, Stopwatch, Task
from slatespark import SlateStore
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.stores import open_stores
from tests.support.client import Client, ClientOptions, Location
from tests.support.client_admin import compact_full

TITLE: Final = "Full compaction of 4 overlapping files, against the SlateDB client's compactor"
LAYERS: Final = 4

# How each codec is called by us, and by the client.
CODECS: Final = {"none": None, "snappy": "Snappy"}


def make(data: DataFolder, rows: int) -> Benchmark:
    """Return the benchmark of `rows` rows in all files together."""
    files = {ours: data.client_layers(rows, LAYERS, codec=theirs) for ours, theirs in CODECS.items()}
    alternatives = [
        Alternative(
            name=f"{peer}, {codec}",
            task=Task.of(compact, source=path, codec=codec),
        )
        for codec, path in files.items()
        for peer, compact in (("slate", compact_slate), ("client", compact_client))
    ]
    pairs = [(f"slate, {codec}", f"client, {codec}") for codec in CODECS]
    return Benchmark(
        alternatives=alternatives,
        base="slate, none",
        targets=[
            *(Target(alternative=ours, against=peer, at_most=1, measure="cpu_seconds") for ours, peer in pairs),
            *(Target(alternative=ours, against=peer, at_most=1) for ours, peer in pairs),
        ],
        notes=[
            f"{rows:,} rows of 16 + 100 bytes, unique keys, {LAYERS} files of the client; warm page cache.",
            "MB of data: " + ", ".join(f"{codec} {data_bytes(path) / 1e6:.0f}" for codec, path in files.items()) + ".",
            "The client's compactor in Rust, from the job's submission until it is completed; it polls every 20 ms.",
            "slate syncs every file to disk, the client does not. Processor time is of all threads.",
        ],
    )


def data_bytes(path: Path) -> int:
    """Return the bytes of rows in all files of a database."""
    _, manifest = fetch_latest_manifest(open_stores(str(path), storage={}))
    return sum(handle.info.data_bytes for handle in manifest.ssts.values())


# --- tasks ----------------------------------------------------------------------------------------------------------


def compact_slate(source: str, codec: str) -> Sample:
    """Merge everything with `SlateStore.compact`."""
    with linked_copy(source) as path:
        store, before = SlateStore.open(str(path)), stored_bytes(path)
        with Stopwatch() as watch:
            store.compact(full=True, compression=codec)
        return watch.sample(rows=_one_run(path), written_bytes=stored_bytes(path) - before)


def compact_client(source: str, codec: str) -> Sample:
    """Merge everything with the client's compactor; opening and closing do not count."""
    options = ClientOptions(
        codec=CODECS[codec],
        merge_operator=False,
        min_filter_keys=1000,
        compactor=True,
        settings=ONE_FILE_PER_FLUSH.settings,
    )
    with linked_copy(source) as path:
        location, before = Location.local(path), stored_bytes(path)
        with Client.open(location, options) as client, Stopwatch() as watch:
            compact_full(client)
        return watch.sample(rows=_one_run(path), written_bytes=stored_bytes(path) - before)


def _one_run(path: Path) -> int:
    """Return how many rows there are, which are in one run."""
    _, manifest = fetch_latest_manifest(open_stores(str(path), storage={}))
    assert (len(manifest.l0), len(manifest.compacted)) == (0, 1), "not everything was merged"
    return sum(len(batch) for batch in SlateStore.open(str(path)).scan())
