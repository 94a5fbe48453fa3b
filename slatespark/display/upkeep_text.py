"""What a step of upkeep did, as text."""

from __future__ import annotations

from slatespark.display.compaction_text import compaction_text
from slatespark.display.reap_text import reap_text
from slatespark.table.compaction.report import CompactionReport
from slatespark.table.gc.report import VacuumReport
from slatespark.table.retention.reap_report import ReapReport
from slatespark.table.upkeep.upkeep import UpkeepOutcome
from slatespark.texts import plural
from slatespark.units import bytes_to_text, ms_to_text


def upkeep_text(outcome: UpkeepOutcome) -> str:
    """Return what a step changed, under the table and the duty; requires that it did not fail."""
    return f"{outcome.url}: {outcome.duty}\n{_report_text(outcome)}"


def _report_text(outcome: UpkeepOutcome) -> str:
    match outcome.report:
        case ReapReport() as report:
            return reap_text(report)
        case CompactionReport() as report:
            return compaction_text(report)
        case VacuumReport() as report:
            removed = f" Removed {plural(report.views_removed, 'empty view')}." if report.views_removed else ""
            return f"Deleted {plural(len(report.collected), 'object')}, {bytes_to_text(report.bytes)}.{removed}"
        case int(floor_ms):
            return f"The history floor is {ms_to_text(floor_ms)}."
    return "Nothing to do."
