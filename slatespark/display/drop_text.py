"""The report of a drop, or its plan, as text."""

from __future__ import annotations

from collections.abc import Iterator

from slatespark.display.vacuum_text import counted_objects
from slatespark.table.gc.drop_plan import DropReport
from slatespark.texts import align_facts, printable
from slatespark.units import bytes_to_text


def drop_text(report: DropReport) -> str:
    """Return a report as facts in two columns."""
    return align_facts(_facts(report))


def _facts(report: DropReport) -> Iterator[tuple[str, str]]:
    yield "table", report.url
    yield "version", "none: an earlier drop has removed it" if report.version is None else str(report.version)
    counted = f"{counted_objects(report.objects)}, {bytes_to_text(report.stored_bytes)}"
    yield "would delete" if report.dry_run else "deleted", counted
    if report.kept:
        yield "not the table's", "\n".join(printable(path) for path in report.kept)
    if report.released:
        yield "released", "\n".join(f"the files that {printable(url)} kept for it" for url in report.released)
    if report.blockers:
        yield "may be needed", "\n".join(printable(blocker.text) for blocker in report.blockers)
