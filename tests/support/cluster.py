"""A Spark of several executor processes, for one script at a time.

A process holds one Spark context, and the test session has it already; so the script runs in a process of its own. It
finds a session in `spark` and hands its result back by assigning something JSON can hold to `result`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from slatespark.spark.java import ensure_java

REPOSITORY: Final = Path(__file__).parents[2]
# A JVM of a test lives for minutes at most: its second compiler would take more time than it saves.
JVM_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

_PROLOGUE: Final = """\
import json, sys
from pathlib import Path
from pyspark.sql import SparkSession
arguments = json.loads(sys.argv[1])
builder = SparkSession.builder.{start}({master!r})
for key, value in json.loads(sys.argv[2]).items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
result = None
"""

_QUIET: Final = 'spark.sparkContext.setLogLevel("ERROR")\n'

_EPILOGUE: Final = """
spark.stop()
Path(sys.argv[3]).write_text(json.dumps(result))
"""


def run_in_cluster(
    script: str,
    *,
    master: str = "local-cluster[2,1,1024]",
    settings: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    timeout_s: float = 900,
    connects: bool = False,
    **arguments: Any,
) -> Any:
    """Run a script on several executors and return its `result`.

    Parameters
    ----------
    script : Python; sees `spark` and the mapping `arguments`
    master : executors, cores of each, MiB of each
    settings : more Spark settings
    environment : more environment variables, for the driver and the executors
    connects : through Spark Connect; `master` is then that of a server of its own
    arguments : what the script gets, as far as JSON can hold it
    """
    ensure_java()
    paths = [str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])]
    variables = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(paths),  # tests may run without an installation
        **(environment or {}),
    }
    with tempfile.TemporaryDirectory(prefix="slatespark-cluster-") as folder:
        home = Path(folder)
        all_settings = {
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": JVM_OPTIONS,
            "spark.executor.extraJavaOptions": JVM_OPTIONS,
            "spark.executor.memory": "1g",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.warehouse.dir": str(home / "warehouse"),
            "spark.local.dir": str(home / "local"),
            "spark.worker.dir": str(home / "work"),
            **(settings or {}),
        }
        program, answer = home / "script.py", home / "result.json"
        prologue = _PROLOGUE.format(start="remote" if connects else "master", master=master)
        program.write_text(prologue + ("" if connects else _QUIET) + script + _EPILOGUE)
        command = [sys.executable, str(program), json.dumps(arguments), json.dumps(all_settings), str(answer)]
        environ = {**variables, "SPARK_WORKER_DIR": str(home / "work")}
        status, output = _run(command, home, environ, timeout_s)
        if status != 0:
            raise AssertionError(f"The script ended with {status}:\n{output}")
        return json.loads(answer.read_text())


def _run(command: list[str], folder: Path, environment: Mapping[str, str], timeout_s: float) -> tuple[int, str]:
    """Exit status and output of a command; at the time limit it dies with the JVMs it started."""
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            output += f"\nNot done after {timeout_s:g} seconds."
    return process.returncode, output
