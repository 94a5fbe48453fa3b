"""A proxy between a client and a server that delays, cuts and loses responses, returns errors and drops headers."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from typing import Final, Literal, TypeAlias
from urllib.parse import urlsplit

import pytest

from slatespark.storage import obstore_config, s3_driver
from tests.support.server_process import QueueingServer

# Faults of a request: none; close the connection before or after it took effect, or within the answer; half an answer
# that claims to be whole; an error, before the request took effect or (with the mark) after it. With the status 200,
# the error says that one of several objects was not deleted.
Fault: TypeAlias = (
    Literal["pass", "drop", "lose answer", "cut", "halve"] | tuple[int, str] | tuple[int, str, Literal["late"]]
)

# Faults after which a repeated request succeeds; the last as by versitygw, beside the deletion of the last object of a
# folder.
PASSING: Final[tuple[Fault, ...]] = (
    "drop",
    (503, "SlowDown"),
    (500, "InternalError"),
    (409, "ConditionalRequestConflict"),
    (409, "ExistingObjectIsDirectory"),
)


class FaultyProxy:
    """A server at `endpoint` that applies the fault of `decide(method, path)` to each request."""

    def __init__(self, target: str) -> None:
        self.target = urlsplit(target).netloc
        self.decide: Callable[[str, str], Fault] = lambda method, path: "pass"
        self.forgotten_headers: set[str] = set()
        self.requests: list[tuple[str, str]] = []
        self.headers: list[dict[str, str]] = []  # of the same requests, with names in lower case
        self.is_silent = False  # never says "100 Continue"
        self.delay_s = 0.0  # of each answer
        self.bytes = 0  # of bodies, in both directions
        self.answering = 0  # requests that have come and are not answered
        self.lock = threading.Lock()
        self._server = QueueingServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"proxy": self}))
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def fail(self, fault: Fault, method: str, *, times: int = 1) -> None:
        """Apply `fault` to the next `times` requests of a method."""
        left = [times]

        def decide(asked: str, _path: str) -> Fault:
            if asked == method and left[0] > 0:
                left[0] -= 1
                return fault
            return "pass"

        self.decide = decide

    def wait(self) -> None:
        """Wait for requests of calls that have given up: they may still take effect."""
        end = time.monotonic() + 30
        while self.answering and time.monotonic() < end:
            time.sleep(0.001)

    @contextmanager
    def running(self) -> Iterator[FaultyProxy]:
        """Serve until the end of the block."""
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    proxy: FaultyProxy
    protocol_version = "HTTP/1.1"  # HTTP/1.0 has no "100 Continue", for which clients wait before sending a body

    def handle_any(self) -> None:
        with self.proxy.lock:
            self.proxy.answering += 1
        try:
            self._answer()
        finally:
            with self.proxy.lock:
                self.proxy.answering -= 1

    def _answer(self) -> None:
        self.close_connection = True
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with self.proxy.lock:
            self.proxy.bytes += len(body)
        self.proxy.requests.append((self.command, self.path))
        self.proxy.headers.append({name.lower(): value for name, value in self.headers.items()})
        fault = self.proxy.decide(self.command, self.path)
        time.sleep(self.proxy.delay_s)
        if isinstance(fault, tuple):
            if fault[2:]:
                self._forward(body)
            self._reply_error(fault[0], fault[1])
        elif fault != "drop":
            status, headers, answer = self._forward(body)
            if fault == "cut":
                self._reply(status, {"Content-Length": str(len(answer)), **headers}, answer[: len(answer) // 2])
            elif fault == "halve":
                half = answer[: len(answer) // 2]
                self._reply(status, {**headers, "Content-Length": str(len(half))}, half)
            elif fault == "pass":
                self._reply(status, headers, answer)

    def _reply_error(self, status: int, code: str) -> None:
        error = f"<Error><Code>{code}</Code><Message>said on cue</Message></Error>"
        answer = f"<DeleteResult>{error}</DeleteResult>" if status == 200 else error
        self._reply(status, {"x-ms-error-code": code}, answer.encode())

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = handle_any  # noqa: N815 - names of the base class

    def _forward(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        dropped = {name.lower() for name in self.proxy.forgotten_headers} | {"expect"}
        headers = {name: value for name, value in self.headers.items() if name.lower() not in dropped}
        connection = http.client.HTTPConnection(self.proxy.target, timeout=60)
        try:
            connection.request(self.command, self.path, body, headers)
            response = connection.getresponse()
            found = {name.title(): value for name, value in response.getheaders()}  # servers differ
            return response.status, found, response.read()
        finally:
            connection.close()

    def _reply(self, status: int, headers: dict[str, str], answer: bytes) -> None:
        self.send_response(status)
        length = headers.get("Content-Length", str(len(answer)))  # for HEAD it differs from the body's
        for name, value in {**headers, "Content-Length": length, "Connection": "close"}.items():
            if name not in ("Transfer-Encoding", "Date", "Server"):
                self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            with self.proxy.lock:
                self.proxy.bytes += len(answer)
            self.wfile.write(answer)

    def handle_expect_100(self) -> bool:
        return not self.proxy.is_silent and super().handle_expect_100()

    def log_message(self, *_: object) -> None:
        pass


def behind(proxy: FaultyProxy, options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of the server for requests that go through the proxy."""
    endpoint = options["endpoint_url"].replace(f"http://{proxy.target}", proxy.endpoint)
    return {**options, "endpoint_url": endpoint}


def hurry_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """The libraries below repeat requests too, but do not wait for long."""
    arguments = s3_driver.s3_arguments

    def impatient(options: dict[str, str]) -> dict[str, object]:
        changed = arguments(options)
        changed["config_kwargs"]["retries"]["total_max_attempts"] = 1
        return changed

    soon = {"init_backoff": timedelta(milliseconds=1), "max_backoff": timedelta(milliseconds=1), "base": 2}
    monkeypatch.setattr(s3_driver, "s3_arguments", impatient)
    monkeypatch.setitem(obstore_config._RETRIES, "backoff", soon)
