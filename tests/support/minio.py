"""MinIO, an S3 server, where it is installed: it takes long to build, so `make servers` does not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.s3_process import KEY, SECRET, S3Process
from tests.support.server_process import find_program, free_port


@pytest.fixture(scope="session")
def minio() -> Iterator[S3Process]:
    """A server for the whole run; tests are skipped where MinIO is not installed."""
    program, port = find_program("minio", "SLATESPARK_MINIO"), free_port()
    place = ["--address", f"127.0.0.1:{port}", "--console-address", f"127.0.0.1:{free_port()}"]
    command = [program, "server", "--quiet", *place, "data"]
    environment = {"MINIO_ROOT_USER": KEY, "MINIO_ROOT_PASSWORD": SECRET, "MINIO_BROWSER": "off"}
    with S3Process(command, port, environment) as server:
        yield server
