"""Tests of one group run in one process, so that they share a Spark, a server, a site."""

from __future__ import annotations

import pytest


@pytest.mark.xdist_group("one")
def test_groups_are_kept_together(request: pytest.FixtureRequest) -> None:
    """pytest-xdist knows groups by the ends of ids."""
    if not request.config.getoption("loadgroup", default=False):
        pytest.skip("The tests are not divided into groups.")
    assert request.node.nodeid.endswith("@one")
