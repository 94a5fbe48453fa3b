"""A proxy between a client and moto that loses responses, returns errors and drops headers on demand."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

# Faults of a request: none; close the connection before or after it took effect; an S3 error. With the status 200, the
# error says that one of several objects was not deleted.
Fault: TypeAlias = Literal["pass", "drop", "lose answer"] | tuple[int, str]


class FaultyProxy:
    """A server at `endpoint` that applies the fault of `decide(method, path)` to each request."""

    def __init__(self, target: str) -> None:
        self.target = urlsplit(target).netloc
        self.decide: Callable[[str, str], Fault] = lambda method, path: "pass"
        self.forgotten_headers: set[str] = set()
        self.requests: list[tuple[str, str]] = []
        self.is_silent = False  # never says "100 Continue"
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"proxy": self}))
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
        self.close_connection = True
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.proxy.requests.append((self.command, self.path))
        fault = self.proxy.decide(self.command, self.path)
        if isinstance(fault, tuple):
            status, code = fault
            error = f"<Error><Code>{code}</Code><Message>said on cue</Message></Error>"
            self._reply(status, {}, (f"<DeleteResult>{error}</DeleteResult>" if status == 200 else error).encode())
        elif fault != "drop":
            status, headers, answer = self._forward(body)
            if fault == "pass":
                self._reply(status, headers, answer)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = handle_any  # noqa: N815 - names of the base class

    def _forward(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        dropped = {*self.proxy.forgotten_headers, "Expect"}
        headers = {name: value for name, value in self.headers.items() if name not in dropped}
        connection = http.client.HTTPConnection(self.proxy.target, timeout=60)
        try:
            connection.request(self.command, self.path, body, headers)
            response = connection.getresponse()
            return response.status, dict(response.getheaders()), response.read()
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
            self.wfile.write(answer)

    def handle_expect_100(self) -> bool:
        return not self.proxy.is_silent and super().handle_expect_100()

    def log_message(self, *_: object) -> None:
        pass
