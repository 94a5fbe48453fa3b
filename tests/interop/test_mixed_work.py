"""Random work of ours beside a client that writes all the time; see tests/support/mixed_work.py."""

from __future__ import annotations

import pytest

from tests.support.client import Location
from tests.support.effort import examples
from tests.support.mixed_work import MixedWork


@pytest.mark.slow
@pytest.mark.parametrize("segmented", [False, True])
@pytest.mark.parametrize("seed", range(examples(1)))
def test_everybody_shows_the_model(seed: int, segmented: bool, database: Location) -> None:
    MixedWork(database, seed, segmented=segmented).run(3)
