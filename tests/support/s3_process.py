"""A real S3 server on loopback, as a process."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from tests.support.client import Location
from tests.support.server_process import ServerProcess

KEY, SECRET, REGION = "server-key-id", "server-secret-key", "us-east-1"

_names = itertools.count()


class S3Process(ServerProcess):
    """A running server.

    Parameters
    ----------
    command : starts it in an empty folder
    port : where it listens
    environment : tells it that KEY and SECRET may do everything
    """

    def __init__(self, command: Sequence[str], port: int, environment: Mapping[str, str]) -> None:
        self.endpoint = f"http://127.0.0.1:{port}"
        super().__init__(command, self.endpoint, environment)

    @property
    def options(self) -> dict[str, str]:
        """What to give to `open_store`."""
        return {"endpoint_url": self.endpoint, "key": KEY, "secret": SECRET, "region": REGION}

    def create_bucket(self) -> str:
        """Create an empty bucket, and return its URL."""
        name = f"bucket-{next(_names)}"
        self._client.create_bucket(Bucket=name)
        return f"s3://{name}"

    @cached_property
    def _client(self) -> Any:
        """Made once: botocore reads all that it knows of S3 for each client, which takes longer than a small test."""
        from botocore.session import Session

        keys = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET}
        return Session().create_client("s3", region_name=REGION, endpoint_url=self.endpoint, **keys)

    def location(self, url: str) -> Location:
        """Where SlateDB's client finds a database."""
        keys = {"access_key_id": KEY, "secret_access_key": SECRET}
        return Location.s3(url, **keys, region=REGION, endpoint=self.endpoint, allow_http="true")
