"""A Python for the workers of Spark that has imported what they need: each daemon of them is a fork of one process.

Spark starts a daemon for each kind of worker (plans, writes, commits, tasks), in the driver and in each executor, and
each of its forks imports everything again: most of the processor time of a small job goes there. What else Spark
starts runs in an ordinary Python. `tests/faults/killed_streams.py` has the daemons as Spark starts them.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

REPOSITORY: Final = Path(__file__).parents[2]

_STREAMS: Final = (0, 1, 2)
_MAX_REQUEST_BYTES: Final = 1 << 20

_COMMAND: Final = """\
#!{python} -IS
import os, sys
if sys.argv[1:3] != ["-m", "pyspark.daemon"]:
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
import json, socket
there = socket.socket(socket.AF_UNIX)
there.connect({address!r})
request = {{"arguments": sys.argv[2:], "folder": os.getcwd(), "environment": dict(os.environ)}}
socket.send_fds(there, [json.dumps(request).encode()], [0, 1, 2])
there.shutdown(socket.SHUT_WR)
there.recv(1)
"""

_MODULES: Final = (
    "pyspark.daemon",
    "pyspark.worker",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "slatespark.spark.source.change_reader",
    "slatespark.spark.jobs.compaction_worker",
    "slatespark.spark.source.datasource",
    "slatespark.spark.jobs.range_merges",
    "slatespark.spark.source.reader",
    "slatespark.spark.source.streaming.sink",
    "slatespark.spark.source.streaming.source",
    "slatespark.spark.worker",
    "slatespark.spark.source.writer",
    "pandas",  # pyspark uses it where it is installed
)


class WarmPython(NamedTuple):
    """The path of the command, and the process that is forked."""

    command: str
    pid: int


@cache
def warm_python() -> WarmPython:
    """Start the process, once for all tests of this one; it ends with it."""
    folder = tempfile.TemporaryDirectory(prefix="slatespark-python-")
    address, command = Path(folder.name) / "socket", Path(folder.name) / "python"
    command.write_text(_COMMAND.format(python=sys.executable, address=str(address)))
    command.chmod(0o755)
    paths = [str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])]
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(address))
        listening.listen(128)
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.support.warm_python", str(listening.fileno())],
            stdin=subprocess.PIPE,
            pass_fds=(listening.fileno(),),
            # as Spark starts its workers: the same text must have the same hash in each
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONHASHSEED": "0"},
        )

    def stop() -> None:
        assert server.stdin is not None
        server.stdin.close()
        server.wait()
        folder.cleanup()

    atexit.register(stop)
    return WarmPython(str(command), server.pid)


def serve(listening: socket.socket) -> None:
    """Fork for each call, until standard input ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
    gc.freeze()
    while True:
        ready, _, _ = select.select([listening, sys.stdin], [], [])
        if sys.stdin in ready:
            return
        there, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            _be_daemon(there)
        there.close()


def _be_daemon(there: socket.socket) -> NoReturn:
    """Be the daemon that a caller asks for, with its streams; the caller sees its end."""
    request, streams, _, _ = socket.recv_fds(there, _MAX_REQUEST_BYTES, len(_STREAMS))
    for stream, given in zip(_STREAMS, streams, strict=True):
        os.dup2(given, stream)
        os.close(given)
    try:
        _run(**json.loads(request))
    except SystemExit as end:
        os._exit(int(end.code or 0))
    os._exit(1)


def _run(arguments: list[str], folder: str, environment: dict[str, str]) -> None:
    import pyspark.daemon

    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    paths = [folder, *environment.get("PYTHONPATH", "").split(os.pathsep)]
    sys.path[:0] = [path for path in paths if path and path not in sys.path]
    sys.argv = arguments
    # Older releases choose the kind of worker when the module is imported.
    importlib.reload(pyspark.daemon).manager()


def _import_all() -> None:
    for name in _MODULES:
        with contextlib.suppress(ImportError):  # not every version of pyspark has each
            importlib.import_module(name)
    import pyspark.sql.worker

    for module in pkgutil.iter_modules(pyspark.sql.worker.__path__, "pyspark.sql.worker."):
        importlib.import_module(module.name)


if __name__ == "__main__":
    _import_all()
    serve(socket.socket(fileno=int(sys.argv[1])))
