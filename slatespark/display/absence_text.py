"""The report of a search for keys that should be gone, as text."""

from __future__ import annotations

from collections.abc import Iterator

from slatespark.display.key_names import KeyNames
from slatespark.display.text import NOTHING, align_facts, align_table, numbers_text, plural
from slatespark.table.gc.absence import AbsenceReport, KeyLocation


def absence_text(report: AbsenceReport, names: KeyNames) -> str:
    """Return a report as facts in two columns, and a line for each object that holds rows of the keys.

    Parameters
    ----------
    names : of the first keys that were found
    """
    facts = align_facts(_facts(report))
    if not report.found:
        return facts
    header = ("object", "rows", "first key", "versions", "kept by")
    rows = [
        (place.url, _rows(place), names.of(place.first_key), numbers_text(place.versions), _keepers(place))
        for place in report.found
    ]
    return f"{facts}\n\n{align_table(header, rows)}"


def _facts(report: AbsenceReport) -> Iterator[tuple[str, str]]:
    yield "table", report.url
    yield "version", str(report.version)
    yield "versions present", numbers_text(report.versions)
    searched = plural(report.objects, "object")
    if report.found:
        yield "rows", f"still stored in {len(report.found):,} of {searched}"
    elif report.unread:
        yield "rows", f"none in {searched}, but not everything could be read"
    else:
        yield "rows", f"gone: none in {searched}"
    if report.unread:
        yield "not read", "\n".join(report.unread)


def _rows(place: KeyLocation) -> str:
    return ", ".join(f"{count:,} {kind}" for kind, count in place.rows.items())


def _keepers(place: KeyLocation) -> str:
    """Return what must go before a vacuum can delete the object."""
    keepers = [*(["the newest version"] if place.is_current else []), *place.checkpoints]
    if keepers:
        return ", ".join(keepers)
    return "older versions" if place.versions else f"{NOTHING} (a vacuum deletes it)"
