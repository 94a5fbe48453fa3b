"""Reports name objects, tables and jobs, whose names others chose: these do not command the terminal."""

from __future__ import annotations

from slatespark.display.drop_text import drop_text
from slatespark.display.vacuum_text import vacuum_text
from slatespark.table.gc.drop_plan import DropReport
from slatespark.table.gc.report import KEPT, CollectedFile, VacuumReport

EVIL = "a\x1b[2J\nb"


def lines(text: str) -> list[str]:
    found = text.split("\n")
    assert all(line.isprintable() for line in found)
    return found


def test_a_drop() -> None:
    report = DropReport("memory://t", 1, False, released=(EVIL, EVIL), kept=(EVIL,))
    assert len(lines(drop_text(report))) == len(lines(drop_text(DropReport("memory://t", 1, False)))) + 3


def test_a_vacuum() -> None:
    file = CollectedFile(EVIL, 1, KEPT, EVIL, "sst")
    shown = lines(
        vacuum_text(
            VacuumReport("memory://t", 1, 0, 0, False, (file,), jobs_dropped=(EVIL,), unknown=EVIL), with_kept=True
        )
    )
    bare = lines(vacuum_text(VacuumReport("memory://t", 1, 0, 0, False, (file,)), with_kept=True))
    assert len(shown) == len(bare) + 2
