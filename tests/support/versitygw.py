"""A real S3 server on loopback: versitygw, a gateway to a folder, where it is installed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.support.client import Location
from tests.support.server_process import ServerProcess, find_program, free_port

KEY, SECRET, REGION = "versity-key-id", "versity-secret-key", "us-east-1"

_names = itertools.count()


class VersityGateway:
    """A running server."""

    def __init__(self, program: str) -> None:
        port = free_port()
        self.endpoint = f"http://127.0.0.1:{port}"
        server = ["--port", f"127.0.0.1:{port}", "--region", REGION, "--keep-alive", "--quiet"]
        credentials = {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
        self._process = ServerProcess([program, *server, "posix", "."], self.endpoint, credentials)

    def stop(self) -> None:
        """Stop the server."""
        self._process.stop()

    @property
    def options(self) -> dict[str, str]:
        """What to give to `open_store`."""
        return {"endpoint_url": self.endpoint, "key": KEY, "secret": SECRET, "region": REGION}

    def create_bucket(self) -> str:
        """Create an empty bucket, and return its URL."""
        from botocore.session import Session

        name = f"bucket-{next(_names)}"
        keys = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET}
        client = Session().create_client("s3", region_name=REGION, endpoint_url=self.endpoint, **keys)
        client.create_bucket(Bucket=name)
        return f"s3://{name}"

    def location(self, url: str) -> Location:
        """Where SlateDB's client finds a database."""
        keys = {"access_key_id": KEY, "secret_access_key": SECRET}
        return Location.s3(url, **keys, region=REGION, endpoint=self.endpoint, allow_http="true")


@pytest.fixture(scope="session")
def versitygw() -> Iterator[VersityGateway]:
    """A server for the whole run; tests are skipped where versitygw is not installed."""
    server = VersityGateway(find_program("versitygw", "SLATESPARK_VERSITYGW"))
    try:
        yield server
    finally:
        server.stop()
