"""Windows use the memory of those before: page faults of a scan, counted in a new process."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from slatespark import SlateStore

_ROWS = 400_000
_SCANS = """
import resource, sys
from slatespark import SlateStore

for _ in range(3):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    rows = sum(len(batch) for batch in SlateStore.open(sys.argv[1]).scan(parallelism=1))
    print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) * resource.getpagesize())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="how other allocators keep memory is not known")
def test_a_scan_clears_few_pages_again(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    store = SlateStore.create(path, keyColumns="id", schema="id BIGINT, name STRING, amount DOUBLE, city STRING")
    store.write(_table())
    scans = subprocess.run([sys.executable, "-c", _SCANS, path], check=True, capture_output=True, text=True).stdout
    *_, cleared_bytes = map(int, scans.split())
    stored_bytes = sum(file.stat().st_size for file in (tmp_path / "t" / "compacted").iterdir())
    # Mapping the file takes a sixteenth; without the kept memory it is more than a third.
    assert cleared_bytes < stored_bytes / 6


def _table() -> pa.Table:
    ids = pa.array(range(_ROWS), pa.int64())
    return pa.table(
        {
            "id": ids,
            "name": [f"name of the row with the number {number}" for number in range(_ROWS)],
            "amount": ids.cast(pa.float64()),
            "city": [f"city {number % 1000}" for number in range(_ROWS)],
        }
    )
