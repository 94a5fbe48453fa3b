"""Erasing 1,000 keys of a table: at random, of one tenant, or such as are not there; against writing it anew."""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from benchmarks.data import SEED, DataFolder, stored_bytes
from benchmarks.harness import Alternative, Benchmark, Target
from benchmarks.tasks import new_folder
from benchmarks.typed_rows import TENANTS, sorted_table
from benchmarks.typed_schema import KEYS, SCHEMA
from benchmarks.worker import Sample, Stopwatch, Task
from slatespark import SlateStore

TITLE: Final = "Erasing 1,000 keys of a table with SlateStore.erase, proof included"
KEYS_ERASED: Final = 1000
TENANT: Final = 17

RANDOM: Final = "erase, 1,000 random keys"
CLOSE: Final = "erase, 1,000 keys of one tenant"
ABSENT: Final = "erase, 1,000 random keys that are not there"
ANEW: Final = "scan and write all rows"

_FILE_BYTES: Final = 64 << 20
_SLACK: Final = 1.05


def make(data: DataFolder, rows: int) -> Benchmark:
    """Return the benchmark of a table of `rows` rows."""
    table = data.made(f"erase-{rows}", lambda path: _fill(path, rows))
    kinds = {RANDOM: "random", CLOSE: "close", ABSENT: "absent"}
    return Benchmark(
        alternatives=[
            *(
                Alternative(name=name, task=Task.of(erase, table=table, kind=kind, rows=rows))
                for name, kind in kinds.items()
            ),
            Alternative(name=ANEW, task=Task.of(write_anew, table=table)),
        ],
        base=RANDOM,
        targets=[
            Target(alternative=RANDOM, against=ANEW, at_most=1),
            Target(alternative=RANDOM, against=ANEW, at_most=_SLACK, measure="written_bytes"),
            Target(alternative=CLOSE, against=RANDOM, at_least=4),
            Target(alternative=ABSENT, against=RANDOM, at_least=10),
        ],
        notes=[
            f"{rows:,} rows of 8 columns in key order, {stored_bytes(table) / 1e6:.0f} MB in files of about "
            f"{_FILE_BYTES >> 20} MiB; snappy. Other keys each round.",
            "Random keys are in every file. It is asserted that each erasure rewrote the files that hold a key, and "
            f"no more than {_SLACK} times their bytes.",
        ],
        same=(),
    )


def _fill(path: Path, rows: int) -> None:
    store = SlateStore.create(str(path), schema=SCHEMA, keyColumns=list(KEYS), versionRetention="none")
    store.write(sorted_table(rows), compression="snappy", sstSize=_FILE_BYTES)


# --- tasks ----------------------------------------------------------------------------------------------------------

_rounds = iter(range(1_000_000))


def erase(table: str, kind: str, rows: int) -> Sample:
    """Erase some keys of a copy of the table; each round goes on with what the one before left."""
    store, keys = SlateStore.open(_copy(table)), _keys(kind, rows)
    held = _files_with(store, keys) if kind != "absent" else {}
    with Stopwatch() as watch:
        report = store.erase(keys=keys, compression="snappy", sstSize=_FILE_BYTES)
    assert report.gone
    assert report.erasure is not None
    removed = report.erasure.removed
    assert removed.files_in == len(held)
    assert removed.bytes_out <= _SLACK * sum(held.values())
    return watch.sample(rows=removed.rows, written_bytes=removed.bytes_out, files=removed.files_in)


def write_anew(table: str) -> Sample:
    """Write every row of the table to another one."""
    with new_folder() as folder:
        with Stopwatch() as watch:
            source = SlateStore.open(table)
            store = SlateStore.create(str(folder / "anew"), schema=SCHEMA, keyColumns=list(KEYS))
            store.write(source.scan(), compression="snappy", sstSize=_FILE_BYTES)
        files = store.files()
    return watch.sample(
        rows=sum(file.rows or 0 for file in files),
        written_bytes=sum(file.stored_bytes for file in files),
        files=len(files),
    )


@cache
def _copy(table: str) -> str:
    target = Path(tempfile.mkdtemp(dir=Path.cwd())) / "copy"
    shutil.copytree(table, target)
    return str(target)


def _keys(kind: str, rows: int) -> pa.Table:
    """Return keys that no round before had; those that are not there lie between others."""
    generator = np.random.default_rng([SEED, 11, next(_rounds)])
    ids = generator.choice(rows // TENANTS, KEYS_ERASED, replace=False) * 7 + (kind == "absent")
    tenants = np.full(KEYS_ERASED, TENANT) if kind == "close" else generator.integers(0, TENANTS, KEYS_ERASED)
    return pa.table({"tenant": [f"tenant-{number:02d}" for number in tenants], "id": ids})


def _files_with(store: SlateStore, keys: pa.Table) -> dict[str, int]:
    """Return the sizes of the files that hold a key, which one file of a load in key order alone can."""
    codec = store.definition.codec()
    encoded = [codec.encode_key((row["tenant"], row["id"])) for row in keys.to_pylist()]
    return {
        file.id: file.stored_bytes
        for file in store.files()
        if any(file.start <= key and (file.end is None or key < file.end) for key in encoded)
    }
