"""Statements in Spark's shell for SQL, `spark-sql`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyspark
import pytest

from slatespark import SlateStore
from slatespark.spark.java import ensure_java

pytestmark = [pytest.mark.spark, pytest.mark.slow]

REPOSITORY: Final = Path(__file__).parents[2]
SPARK: Final = Path(pyspark.__file__).parent
SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.catalogImplementation": "in-memory",
}


def run_shell(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Run statements in the shell, as `spark-sql -e`."""
    ensure_java()
    settings = [part for item in SETTINGS.items() for part in ("--conf", "=".join(item))]
    environment = {
        **os.environ,
        "SPARK_HOME": str(SPARK),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")]),
    }
    command = [str(SPARK / "bin" / "spark-sql"), "--master", "local[1]", *settings, "-e", text]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )


def test_a_view_takes_rows_and_a_table_of_the_catalog_does_not(tmp_path: Path) -> None:
    path = tmp_path / "t"
    store = SlateStore.create(path, "id BIGINT, s STRING", "id")
    store.write(pa.table({"id": [1], "s": ["a"]}))
    done = run_shell(
        tmp_path,
        f"CREATE TEMPORARY VIEW v USING slate OPTIONS (path '{path}');"
        "INSERT INTO v VALUES (2, 'b'); /* more */ WITH q AS (SELECT 3L, 'c') INSERT INTO v SELECT * FROM q;"
        f"CREATE TABLE made USING slate OPTIONS (path '{path}') AS SELECT 4L AS id, 'd' AS s;",
    )
    assert "OptionError" in done.stderr
    assert done.returncode != 0
    assert store.scan().read_all().column("id").to_pylist() == [1, 2, 3]
