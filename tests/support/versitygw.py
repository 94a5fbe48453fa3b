"""versitygw, an S3 gateway to a folder, where it is installed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.s3_process import KEY, REGION, SECRET, S3Process
from tests.support.server_process import find_program, free_port

PROGRAM = ("versitygw", "SLATESPARK_VERSITYGW")


@pytest.fixture(scope="session")
def versitygw() -> Iterator[S3Process]:
    """A server for the whole run; tests are skipped where versitygw is not installed."""
    program, port = find_program(*PROGRAM), free_port()
    place = ["--port", f"127.0.0.1:{port}", "--region", REGION, "--keep-alive", "--quiet", "posix", "."]
    with S3Process([program, *place], port, {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}) as server:
        yield server
