"""Parquet files are read piece by piece: their rows take no more memory in a larger file."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slatespark.cli.files import read_files
from slatespark.cli.files.file_formats import FileFormat
from slatespark.cli.files.read_files import PARQUET_ROWS
from slatespark.cli.files.target_columns import TargetColumns

ROW_BYTES = 100
GROUPS = 12


@pytest.fixture
def traced() -> Iterator[None]:
    """What Arrow reads from a file of Python lies in objects of Python."""
    tracemalloc.start()
    yield
    tracemalloc.stop()


def memory() -> int:
    return int(tracemalloc.get_traced_memory()[0] + pa.total_allocated_bytes())


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("row_group_size", [PARQUET_ROWS, PARQUET_ROWS * GROUPS])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, row_group_size: int) -> None:
    file, count = tmp_path / "rows.parquet", PARQUET_ROWS * GROUPS
    values = bytes(ROW_BYTES * count)
    rows = pa.table(
        {"value": pa.FixedSizeBinaryArray.from_buffers(pa.binary(ROW_BYTES), count, [None, pa.py_buffer(values)])}
    )
    pq.write_table(rows, file, row_group_size=row_group_size, compression="none", use_dictionary=False)
    del rows, values
    before, most, seen = memory(), 0, 0
    target = TargetColumns(None, {}, is_new=True)
    with read_files.read_files([str(file)], FileFormat.PARQUET, target, None) as reader:
        for batch in reader:
            seen += batch.num_rows
            most = max(most, memory() - before)
    assert seen == count
    assert most < file.stat().st_size // 2


def test_batches_of_large_rows_have_fewer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_files, "PARQUET_BYTES", 1 << 20)
    file, large, small = tmp_path / "rows.parquet", [bytes(100_000)] * 50, [b""] * 5000
    with pq.ParquetWriter(file, pa.schema([("value", pa.binary())]), use_dictionary=False) as writer:
        for values in (small, large, small):
            writer.write_table(pa.table({"value": values}))
    with read_files.read_files([str(file)], FileFormat.PARQUET, TargetColumns(None, {}, is_new=True), None) as reader:
        sizes = [(batch.num_rows, batch.nbytes) for batch in reader]
    assert sum(rows for rows, _ in sizes) == 10_050
    assert max(size for _, size in sizes) < 2 << 20
