"""Where the real client finds a database on the moto server."""

from __future__ import annotations

from tests.support.client import Location
from tests.support.moto_server import MotoServer


def s3_location(server: MotoServer, url: str) -> Location:
    """A database at `s3://bucket/path`."""
    options = server.options
    return Location.s3(
        url,
        access_key_id=options["key"],
        secret_access_key=options["secret"],
        region=options["region"],
        endpoint=options["endpoint_url"],
        allow_http="true",
    )
