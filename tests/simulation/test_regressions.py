"""Seeds that once showed a defect, each named for it.

A seed tells its story only for as long as the simulation draws the same. So each defect also has a test of its own, in
the file that the comment names.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pytest

from slatespark.table.commit.requirements import UnmovedWal
from tests.simulation.run import SeedError, simulate

SEEDS: Final = {
    # tests/faults/test_erase_faults.py
    "an erasure left a row that another commit had moved out of the WAL": 29,
    # tests/faults/test_erase_faults.py
    "an erasure deleted a file whose lease was still on its way": 3001158,
    # tests/faults/test_load_races.py
    "a load beside a client brought rows back that a range deletion had cut off meanwhile": 7103084,
    # tests/unit/table/verify/test_run.py
    "a verification took a commit during it for damage, as the manifest was not to be had again": 7419169,
    # tests/unit/table/gc/test_run.py
    "a vacuum deleted the claim of a manifest that came while it listed them, and a sibling refused": 9300800,
}


@pytest.mark.parametrize("seed", SEEDS.values(), ids=SEEDS.keys())
def test_seed(seed: int) -> None:
    simulate(seed)


def test_a_defect_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulation can fail: without what prevents the first of these defects, one of some seeds does."""
    monkeypatch.setattr(UnmovedWal, "before_claim", lambda *_: None)
    with pytest.raises(SeedError, match="erase"):
        _simulate_all(range(850, 890))


def _simulate_all(seeds: Iterable[int]) -> None:
    for seed in seeds:
        simulate(seed)
