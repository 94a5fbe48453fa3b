"""`slatespark` as a command that is there at once: each call is a fork of a process that has most of it imported.

A page of shell blocks starts the command many times, and most of the time of a start goes into imports. How a start
itself behaves is for `tests/unit/cli`.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn

from tests.support.cluster import REPOSITORY

_STREAMS: Final = (0, 1, 2)
_MAX_REQUEST_BYTES: Final = 1 << 20

_COMMAND: Final = """\
#!{python} -IS
import json, os, socket, sys
there = socket.socket(socket.AF_UNIX)
there.connect({address!r})
request = {{"arguments": sys.argv[1:], "folder": os.getcwd(), "environment": dict(os.environ)}}
socket.send_fds(there, [json.dumps(request).encode()], [0, 1, 2])
there.shutdown(socket.SHUT_WR)
answer = there.recv(16)
sys.exit(int(answer) if answer else 70)
"""


@contextmanager
def warm_command(folder: Path) -> Iterator[None]:
    """Put the command into a folder, for the path of a shell, and run the process behind it."""
    address = folder / "socket"
    command = folder / "slatespark"
    command.write_text(_COMMAND.format(python=sys.executable, address=str(address)))
    command.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(address))
        listening.listen()
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.support.warm_command", str(listening.fileno())],
            pass_fds=(listening.fileno(),),
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        )
        try:
            yield
        finally:
            server.terminate()
            server.wait()


def serve(listening: socket.socket) -> None:
    """Fork for each call."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
    gc.freeze()
    while True:
        there, _ = listening.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listening.close()
            _answer(there)
        there.close()


def _answer(there: socket.socket) -> NoReturn:
    """Run the command that a caller asks for with its streams, and send it the exit status."""
    request, streams, _, _ = socket.recv_fds(there, _MAX_REQUEST_BYTES, len(_STREAMS))
    for stream, given in zip(_STREAMS, streams, strict=True):
        os.dup2(given, stream)
        os.close(given)
    status = _run(**json.loads(request))
    sys.stdout.flush()
    sys.stderr.flush()
    there.sendall(b"%d" % status)
    os._exit(status)  # the end of the interpreter would take longer than the command


def _run(arguments: list[str], folder: str, environment: dict[str, str]) -> int:
    from slatespark.cli.main import main

    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["slatespark", *arguments]
    try:
        main()
    except SystemExit as exc:
        return int(exc.code or 0)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _import_most() -> None:
    """Import what most commands import when they run, by running one."""
    import pyarrow as pa

    from slatespark import SlateStore
    from slatespark.cli.app import app

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        store = SlateStore.create(f"{folder}/table", pa.schema([("id", pa.int64())]), keyColumns="id")
        store.write(pa.table({"id": [1]}))
        app(["scan", f"{folder}/table"], standalone_mode=False)


if __name__ == "__main__":
    _import_most()
    serve(socket.socket(fileno=int(sys.argv[1])))
