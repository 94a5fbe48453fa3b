"""A Google Cloud Storage server on loopback: fake-gcs-server, where it is installed.

It speaks Google's JSON API. obstore, and so SlateDB's client, speaks the XML API, so a front translates. Generations
and the conditions on them, which commits rest on, are the server's.
"""

from __future__ import annotations

import itertools
import json
import urllib.request
from collections.abc import Iterator

import pytest

from tests.support.client import Location
from tests.support.google_xml import XmlFront
from tests.support.server_process import ServerProcess, find_program, free_port, open_directly

TOKEN = "a-token-of-a-test"  # the server takes any

_names = itertools.count()


class GoogleServer(ServerProcess):
    """A running server, and the front before it."""

    def __init__(self, program: str) -> None:
        port = free_port()
        self.json_endpoint = f"http://127.0.0.1:{port}"
        place = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-public-host", f"127.0.0.1:{port}"]
        command = [program, *place, "-backend", "memory", "-log-level", "error"]
        self._front = XmlFront(self.json_endpoint)
        self.endpoint = self._front.endpoint
        super().__init__(command, f"{self.json_endpoint}/_internal/healthcheck")

    def stop(self) -> None:
        """Stop both."""
        self._front.stop()
        super().stop()

    @property
    def options(self) -> dict[str, str]:
        """What to give to `open_store`."""
        return {"endpoint_url": self.endpoint, "token": TOKEN}

    def create_bucket(self) -> str:
        """Create an empty bucket, and return its URL."""
        name = f"bucket-{next(_names)}"
        url, content = f"{self.json_endpoint}/storage/v1/b", json.dumps({"name": name}).encode()
        open_directly(urllib.request.Request(url, content, {"Content-Type": "application/json"}))
        return f"gs://{name}"

    def location(self, url: str) -> Location:
        """Where SlateDB's client finds a database."""
        return Location.remote(url, base_url=self.endpoint, bearer_token=TOKEN, allow_http="true")


@pytest.fixture(scope="session")
def google_server() -> Iterator[GoogleServer]:
    """A server for the whole run; tests are skipped where fake-gcs-server is not installed."""
    with GoogleServer(find_program("fake-gcs-server", "SLATESPARK_FAKE_GCS_SERVER")) as server:
        yield server
