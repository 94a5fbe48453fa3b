"""Our writes and the real client's, interleaved on one database in S3."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.property.test_both_writers import Database, Turn, our_writes, sessions
from tests.support.effort import examples
from tests.support.moto_server import MotoServer
from tests.support.moto_server import moto_server as moto_server

_serial = itertools.count()


@pytest.mark.s3
@pytest.mark.slow
@settings(max_examples=examples(4), suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(turns=st.lists(st.one_of(our_writes(), sessions()), min_size=2, max_size=4))
def test_both_read_what_both_wrote_in_s3(moto_server: MotoServer, turns: list[Turn]) -> None:
    url = f"{moto_server.create_bucket('both-writers')}/db{next(_serial)}"
    Database(moto_server.location(url), url, moto_server.options).live_through(turns)
