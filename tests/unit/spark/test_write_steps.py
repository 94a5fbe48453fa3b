"""A write of Spark plans, runs and commits in new processes: each imports what its own step needs, and no more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from slatespark import SlateStore

PLAN = """
from pyspark.sql.types import BinaryType, StructField, StructType
from slatespark.spark.source.datasource import SlateDataSource
columns = StructType([StructField("key", BinaryType(), False), StructField("value", BinaryType())])
writer = SlateDataSource({"path": path}).writer(columns, False)
pickle.dump(writer, open(f"{folder}/writer", "wb"))
"""
TASK = """
import pyarrow as pa
import pyspark
pyspark.TaskContext = types.SimpleNamespace(get=lambda: types.SimpleNamespace(
    partitionId=lambda: 0, attemptNumber=lambda: 0, getLocalProperty=lambda name: None))
writer = pickle.load(open(f"{folder}/writer", "rb"))
rows = pa.RecordBatch.from_pydict({"key": pa.array([b"a"], pa.binary()), "value": pa.array([b"b"], pa.binary())})
pickle.dump(writer.write(iter([rows])), open(f"{folder}/message", "wb"))
"""
COMMIT = """
writer = pickle.load(open(f"{folder}/writer", "rb"))
writer.commit([pickle.load(open(f"{folder}/message", "rb"))])
"""
COMMITTING = {"slatespark.table.commit.commit", "slatespark.table.commit.conflicts", "slatespark.table.rows.overlaps"}
READING = {"slatespark.table.read.reader", "slatespark.table.read.scan", "slatespark.table.read.copies.usable"}
ELSEWHERE = {"slatespark.table.cooperation", "slatespark.table.compaction.plan", "slatespark.table.gc", "fastavro"}
COMPUTING = {"pyarrow.compute", "numba"}


def run_step(code: str, folder: Path) -> set[str]:
    """Run a step in a process of its own; return the modules that it has imported."""
    head = f"import pickle, sys, types\nfolder, path = {str(folder)!r}, {str(folder / 'table')!r}\n"
    ending = "\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", head + code + ending], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize("exists", [False, True])
def test_each_step_imports_what_it_needs(tmp_path: Path, exists: bool) -> None:
    if exists:
        SlateStore.create(str(tmp_path / "table"))
    planned = run_step(PLAN, tmp_path)
    assert not planned & {*COMMITTING, *READING, *ELSEWHERE, "slatespark.table.rows.sst_upload", *COMPUTING}
    ran = run_step(TASK, tmp_path)
    assert not ran & {*COMMITTING, *READING, *ELSEWHERE}
    committed = run_step(COMMIT, tmp_path)
    assert committed & {*READING, *ELSEWHERE, *COMPUTING, "slatespark.kernels._object_code"} == set()
    assert SlateStore.open(str(tmp_path / "table")).scan().read_all().to_pylist() == [{"key": b"a", "value": b"b"}]
