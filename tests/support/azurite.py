"""A real Azure Blob Storage server on loopback: Azurite, where it is installed (`npm install -g azurite`)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import itertools
import os
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from email.utils import formatdate

import pytest

from tests.support.moto_server import free_port

# Azurite's own account, which its documentation tells.
ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

_VERSION = "2021-08-06"
_START_S = 60

_names = itertools.count()


class Azurite:
    """A running server."""

    def __init__(self, program: str) -> None:
        port = free_port()
        self.endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
        self._folder = tempfile.TemporaryDirectory()
        arguments = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--inMemoryPersistence"]
        self._process = subprocess.Popen(
            [program, *arguments, "--skipApiVersionCheck", "--disableTelemetry", "--silent"],
            cwd=self._folder.name,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
        )

    def stop(self) -> None:
        """Stop the server."""
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()

    @property
    def options(self) -> dict[str, str]:
        """What to give to `open_store`."""
        return {"endpoint_url": self.endpoint, "account_name": ACCOUNT, "account_key": ACCOUNT_KEY}

    def create_container(self) -> str:
        """Create an empty container, and return its URL."""
        name = f"container-{next(_names)}"
        end = time.monotonic() + _START_S
        while True:
            try:
                self._put(f"/{name}", "restype=container")
            except (urllib.error.URLError, ConnectionError):  # it is still starting
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)
            else:
                return f"az://{name}"

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
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as answer:
            answer.read()


@pytest.fixture(scope="session")
def azurite() -> Iterator[Azurite]:
    """A server for the whole run; tests are skipped where Azurite is not installed."""
    program = os.environ.get("SLATESPARK_AZURITE") or shutil.which("azurite-blob")
    if program is None:
        pytest.skip("azurite-blob is neither on the path nor named by SLATESPARK_AZURITE")
    server = Azurite(program)
    try:
        yield server
    finally:
        server.stop()
