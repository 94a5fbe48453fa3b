"""What a step of upkeep did, as text."""

from __future__ import annotations

import pytest

from slatespark.display.upkeep_text import upkeep_text
from slatespark.table.gc.report import CollectedFile, VacuumReport
from slatespark.table.upkeep.upkeep import UpkeepOutcome


@pytest.mark.parametrize(
    ("sizes", "views", "said"),
    [
        ([1], 0, "Deleted 1 object, 1 B."),
        ([1, 2], 1, "Deleted 2 objects, 3 B. Removed 1 empty view."),
        ([], 3, "Deleted 0 objects, 0 B. Removed 3 empty views."),
    ],
)
def test_what_a_vacuum_did(sizes: list[int], views: int, said: str) -> None:
    files = [CollectedFile(f"compacted/{size}", size, "deleted", "unreferenced", "sst") for size in sizes]
    kept = CollectedFile("compacted/x", 100, "kept", "it is referenced", "sst")
    report = VacuumReport("memory://t", 1, 0, 0, dry_run=False, files=(*files, kept), views_removed=views)
    outcome = UpkeepOutcome("memory://t", "vacuum", report, is_done=True, error=None, next_ms=0)
    assert upkeep_text(outcome) == f"memory://t: vacuum\n{said}"
