"""Where the real client finds a database on the moto server."""

from __future__ import annotations

from tests.support.client import Location
from tests.support.moto_server import MotoServer


def s3_location(server: MotoServer, url: str) -> Location:
    """A database at `s3://bucket/path`."""
    return server.location(url)
