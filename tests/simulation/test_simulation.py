"""Many actors at once, under random schedules, faults, deaths and clocks: a few hundred seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.simulation.run import simulate
from tests.simulation.world import WIDE
from tests.support.effort import examples

BATCHES: Final = 6
SEEDS_EACH: Final = examples(40)


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(BATCHES))
def test_whatever_happens_the_table_shows_what_was_committed(batch: int, tmp_path: Path) -> None:
    first = batch * SEEDS_EACH + (WIDE if batch % 2 else 0)
    for seed in range(first, first + SEEDS_EACH):
        simulate(seed, client_folder=tmp_path if seed % 25 == 0 else None)


def test_a_seed_decides_everything() -> None:
    assert [simulate(seed).history.whole() for seed in (5, 8)] == [simulate(seed).history.whole() for seed in (5, 8)]
