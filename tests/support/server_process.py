"""Servers that the tests start where their programs are at hand."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from http.server import ThreadingHTTPServer
from typing import Self

import pytest

# Runs a program that ends with us even if we are killed: then the standard input of the shell ends.
_GUARD = '"$@" </dev/null & cat >/dev/null; kill -KILL $!; wait'

_START_S = 60


def find_program(name: str, variable: str) -> str:
    """Return the path of a program, from an environment variable or the search path; without it the test is skipped."""
    found = program_path(name, variable)
    if found is None:
        pytest.skip(f"{name} is neither on the path nor named by {variable}")
    return found


def program_path(name: str, variable: str) -> str | None:
    """Return the path of a program, from an environment variable or the search path; None if it is not installed."""
    return os.environ.get(variable) or shutil.which(name)


class ServerProcess:
    """A running server in an empty folder of its own; it answers at `url` before the constructor returns."""

    def __init__(self, command: Sequence[str], url: str, environment: Mapping[str, str] | None = None) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed by stop()
        self._folder = tempfile.TemporaryDirectory()
        self._process = subprocess.Popen(
            ["sh", "-c", _GUARD, "sh", *command],
            cwd=self._folder.name,
            stdin=subprocess.PIPE,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            # A server must not take the credentials or the endpoint of a test for its own.
            env={**_own_environment(), **(environment or {})},
        )
        try:
            self._await(url)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the server."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(30)
        self._output.close()
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _await(self, url: str) -> None:
        end = time.monotonic() + _START_S
        while True:
            try:
                open_directly(urllib.request.Request(url))
            except urllib.error.HTTPError:
                return  # it refuses, so it is there
            except OSError:
                if time.monotonic() > end:
                    self._output.seek(0)
                    raise RuntimeError(f"A server does not start: {self._output.read()!r}") from None
                time.sleep(0.05)
            else:
                return


class QueueingServer(ThreadingHTTPServer):
    """A server in this process, which refuses no connection of many that come at once."""

    request_queue_size = 128
    daemon_threads = True


def open_directly(request: urllib.request.Request) -> bytes:
    """Return the answer to a request; no proxy of the environment may catch what is meant for loopback."""
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as answer:
        found: bytes = answer.read()
        return found


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _own_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "AZURE_", "GOOGLE_"))}
