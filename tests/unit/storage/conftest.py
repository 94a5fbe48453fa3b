from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.moto_server import MotoServer
from tests.support.moto_server import moto_server as moto_server
from tests.unit.storage.faulty_proxy import FaultyProxy


@pytest.fixture
def proxy(moto_server: MotoServer) -> Iterator[FaultyProxy]:
    """A proxy in front of the server, which fails the requests that a test says."""
    with FaultyProxy(moto_server.endpoint).running() as proxy:
        yield proxy
