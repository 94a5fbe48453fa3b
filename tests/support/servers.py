"""Every server of `tests.support` that a test may run on, as one fixture."""

from __future__ import annotations

from typing import Protocol

import pytest

from tests.support.azurite import azurite as azurite
from tests.support.client import Location
from tests.support.google_server import google_server as google_server
from tests.support.minio import minio as minio
from tests.support.versitygw import versitygw as versitygw


class Server(Protocol):
    """A running object store."""

    @property
    def options(self) -> dict[str, str]:
        """What to give to `open_store`."""

    def create_bucket(self) -> str:
        """Create an empty bucket, and return its URL."""

    def location(self, url: str) -> Location:
        """Where SlateDB's client finds a database."""


@pytest.fixture(params=["versitygw", "minio", "google_server", "azurite"])
def server(request: pytest.FixtureRequest) -> Server:
    """Each server in turn; skipped where its program is not installed."""
    found: Server = request.getfixturevalue(request.param)
    return found
