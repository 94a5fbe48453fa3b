"""A Spark of several executor processes, which runs scripts.

A process holds one Spark context, and the test session has it already; so the scripts run in a process of their own. A
script finds a session in `spark` and hands its result back by assigning something JSON can hold to `result`.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from slatespark.spark.java import ensure_java
from tests.support.spark_classes import archive_options
from tests.support.warm_python import warm_python

REPOSITORY: Final = Path(__file__).parents[2]
# A JVM of a test lives for minutes at most: its second compiler would take more time than it saves.
JVM_FLAGS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
JVM_OPTIONS: Final = f"{JVM_FLAGS} {archive_options()}".strip()

_SHOWN_CHARS: Final = 20_000


class Cluster:
    """A Spark that lives as long as its block, for any number of scripts one after the other.

    Parameters
    ----------
    master : executors, cores of each, MiB of each
    settings : more Spark settings
    connects : through Spark Connect; `master` is then that of a server of its own
    timeout_s : of each script; the first one waits for the start, too
    """

    def __init__(
        self,
        *,
        master: str = "local-cluster[2,1,1024]",
        settings: Mapping[str, str] | None = None,
        connects: bool = False,
        timeout_s: float = 900,
    ) -> None:
        self._master, self._settings, self._connects = master, settings or {}, connects
        self._timeout_s = timeout_s
        self._folder = tempfile.TemporaryDirectory(prefix="slatespark-cluster-")
        self._log = Path(self._folder.name) / "log"

    def __enter__(self) -> Self:
        ensure_java()
        home = Path(self._folder.name)
        settings = {
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
            **self._settings,
        }
        start = {"master": self._master, "settings": settings, "connects": self._connects}
        self._answers, theirs = os.pipe()
        paths = [str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {
            **os.environ,
            "PYSPARK_PYTHON": warm_python().command,
            "PYTHONPATH": os.pathsep.join(paths),  # tests may run without an installation
            "SPARK_WORKER_DIR": str(home / "work"),
        }
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.cluster_driver", json.dumps(start), str(theirs)],
                cwd=home,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs,),
                start_new_session=True,
            )
        os.close(theirs)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()  # no more scripts
            self._process.wait(self._timeout_s if kind is None else 10)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self._kill()
        os.close(self._answers)
        self._folder.cleanup()

    def run(self, script: str, **arguments: Any) -> Any:
        """Run a script on several executors and return its `result`; raises `AssertionError` if it fails.

        Parameters
        ----------
        script : Python; sees `spark`, a new session, and the mapping `arguments`
        arguments : what the script gets, as far as JSON can hold it
        """
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"script": script, "arguments": arguments}).encode() + b"\n")
        self._process.stdin.flush()
        is_there, _, _ = select.select([self._answers], [], [], self._timeout_s)
        if not is_there:
            self._kill()
            raise AssertionError(f"Not done after {self._timeout_s:g} seconds:\n{self._output()}")
        answer = b""
        while not answer.endswith(b"\n") and (part := os.read(self._answers, 1 << 20)):
            answer += part
        if not answer:
            raise AssertionError(f"The driver ended with {self._process.wait()}:\n{self._output()}")
        found = json.loads(answer)
        if found["error"] is not None:
            raise AssertionError(f"The script failed:\n{found['error']}\n{self._output()}")
        return found["result"]

    def _kill(self) -> None:
        """End the driver with the JVMs that it started."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _output(self) -> str:
        return self._log.read_text(errors="replace")[-_SHOWN_CHARS:]


def run_in_cluster(script: str, *, master: str, connects: bool = False, **arguments: Any) -> Any:
    """Run a script in a `Cluster` of its own; returns its `result`."""
    with Cluster(master=master, connects=connects) as cluster:
        return cluster.run(script, **arguments)
