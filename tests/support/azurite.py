"""A real Azure Blob Storage server on loopback: Azurite, where it is installed (`npm install -g azurite`)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import itertools
import urllib.request
from collections.abc import Iterator
from email.utils import formatdate

import pytest

from tests.support.client import Location
from tests.support.server_process import ServerProcess, find_program, free_port, open_directly

# Azurite's own account, which its documentation tells.
ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

_VERSION = "2021-08-06"

_names = itertools.count()


class Azurite(ServerProcess):
    """A running server."""

    def __init__(self, program: str) -> None:
        port = free_port()
        self.endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
        place = ["--blobHost", "127.0.0.1", "--blobPort", str(port)]
        calm = ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent"]
        super().__init__([program, *place, *calm], self.endpoint)

    @property
    def options(self) -> dict[str, str]:
        """What to give to `open_store`."""
        return {"endpoint_url": self.endpoint, "account_name": ACCOUNT, "account_key": ACCOUNT_KEY}

    def create_bucket(self) -> str:
        """Create an empty container, and return its URL."""
        name = f"container-{next(_names)}"
        self._put(f"/{name}", "restype=container")
        return f"az://{name}"

    def location(self, url: str) -> Location:
        """Where SlateDB's client finds a database."""
        account = {"account_name": ACCOUNT, "account_key": ACCOUNT_KEY}
        return Location.remote(url, **account, endpoint=self.endpoint, allow_http="true")

    def _put(self, path: str, query: str) -> None:
        date = formatdate(usegmt=True)
        resource = f"/{ACCOUNT}/{ACCOUNT}{path}\n{query.replace('=', ':')}"
        signed = "PUT" + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:{_VERSION}\n{resource}"
        key = hmac.new(base64.b64decode(ACCOUNT_KEY), signed.encode(), hashlib.sha256).digest()
        headers = {
            "x-ms-date": date,
            "x-ms-version": _VERSION,
            "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(key).decode()}",
        }
        request = urllib.request.Request(f"{self.endpoint}{path}?{query}", method="PUT", headers=headers)
        open_directly(request)


@pytest.fixture(scope="session")
def azurite() -> Iterator[Azurite]:
    """A server for the whole run; tests are skipped where Azurite is not installed."""
    with Azurite(find_program("azurite-blob", "SLATESPARK_AZURITE")) as server:
        yield server
