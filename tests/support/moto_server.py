"""A real S3 server on loopback: moto in a process of its own."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from typing import Self

import pytest

from tests.support.client import Location
from tests.support.server_process import free_port, open_directly

# `python -m moto.server`, which ends with us even if we are killed: then its standard input ends. Its threads check the
# condition of a request and store the object in two steps, so conditional requests must wait for each other.
_SERVE = """
import os, runpy, sys, threading
import werkzeug.serving

serve, one_at_a_time = werkzeug.serving.run_simple, threading.Lock()

def atomically(app):
    def answer(environ, start_response):
        if "HTTP_IF_NONE_MATCH" in environ or "HTTP_IF_MATCH" in environ:
            with one_at_a_time:
                return app(environ, start_response)
        return app(environ, start_response)
    return answer

werkzeug.serving.run_simple = lambda host, port, app, **options: serve(host, port, atomically(app), **options)
threading.Thread(target=lambda: (sys.stdin.buffer.read(), os._exit(0)), daemon=True).start()
runpy.run_module("moto.server", run_name="__main__")
"""

_names = itertools.count()

KEY, SECRET, REGION = "moto-key-id", "moto-secret-key", "us-east-1"


class MotoServer:
    """A running server; use it as a context."""

    def __init__(self) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed by stop()
        self._process: subprocess.Popen[bytes] | None = None
        self.endpoint = ""

    def start(self, *, attempts: int = 3, patience_s: float = 60) -> None:
        """Start on a free port and wait for the first answer; on another port if somebody else was faster."""
        for _ in range(attempts):
            port = free_port()
            self.endpoint = f"http://127.0.0.1:{port}"
            self._process = subprocess.Popen(
                [sys.executable, "-c", _SERVE, "-H", "127.0.0.1", "-p", str(port)],
                stdin=subprocess.PIPE,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                # The server must not take the credentials or the endpoint of a test for its own.
                env={name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
            )
            if self._answers(patience_s):
                return
            self._end_process()
        self._output.seek(0)
        raise RuntimeError(f"moto does not start: {self._output.read().decode(errors='replace')}")

    def stop(self) -> None:
        """Stop the server, whatever state it is in."""
        self._end_process()
        self._output.close()

    def create_bucket(self, name: str = "") -> str:
        """Create an empty bucket and return its address, `s3://name`; by default its name is new."""
        name = name or f"bucket-{next(_names)}"
        self.request("PUT", f"/{name}")
        return f"s3://{name}"

    def reset(self) -> None:
        """Forget all buckets."""
        self.request("POST", "/moto-api/reset")

    def request(self, method: str, path: str, data: bytes | None = None) -> None:
        """Send a request past all clients: moto asks for no signature."""
        request = urllib.request.Request(self.endpoint + path, method=method, data=data)
        open_directly(request)

    @property
    def options(self) -> dict[str, str]:
        """What to give to `open_store`."""
        return {"endpoint_url": self.endpoint, "key": KEY, "secret": SECRET, "region": REGION}

    def location(self, url: str) -> Location:
        """Where SlateDB's client finds a database."""
        keys = {"access_key_id": KEY, "secret_access_key": SECRET}
        return Location.s3(url, **keys, region=REGION, endpoint=self.endpoint, allow_http="true")

    @property
    def environment(self) -> dict[str, str]:
        """The same as variables, for SlateDB's client and for ours."""
        return {
            "AWS_ENDPOINT": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": REGION,
        }

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _answers(self, patience_s: float) -> bool:
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline and self._process is not None and self._process.poll() is None:
            try:
                self.request("GET", "/moto-api/")
            except OSError:
                time.sleep(0.05)
            else:
                return self._process.poll() is None  # else it was somebody else who answered
        return False

    def _end_process(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(30)
        self._process = None


@pytest.fixture(scope="session")
def moto_server() -> Iterator[MotoServer]:
    """One server for the session (for each worker, if there are several); import it into a conftest to use it."""
    with MotoServer() as server:
        yield server
