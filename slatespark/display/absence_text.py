"""The report of a search for keys that should be gone, and of their erasure, as text."""

from __future__ import annotations

from collections.abc import Iterator

from slatespark.display.key_names import KeyNames
from slatespark.table.gc.absence_report import AbsenceReport, Erasure, KeyLocation
from slatespark.texts import NOTHING, align_facts, align_table, numbers_text, plural, printable
from slatespark.units import bytes_to_text, ms_to_text


def absence_text(report: AbsenceReport, names: KeyNames) -> str:
    """Return a report as facts in two columns, and a line for each object that holds rows of the keys or names one.

    Parameters
    ----------
    names : how the first keys that were found are shown
    """
    facts = align_facts(_facts(report))
    if not report.found:
        return facts
    header = ("object", "rows", "first key", "versions", "kept by")
    rows = [
        (
            location.url,
            _rows(location),
            names.of(location.first_key),
            numbers_text(location.versions),
            _keepers(location),
        )
        for location in report.found
    ]
    return f"{facts}\n\n{align_table(header, rows)}"


def _facts(report: AbsenceReport) -> Iterator[tuple[str, str]]:
    yield "table", report.url
    yield "version", str(report.version)
    yield "versions present", numbers_text(report.versions)
    if report.erasure is not None:
        yield from _erasure_facts(report.erasure)
    searched = plural(report.objects, "object")
    if locations := sum(bool(location.rows) for location in report.found):
        yield "rows", f"still stored in {locations:,} of {searched}"
    elif report.unread:
        yield "rows", f"none in {searched}, but not everything could be read"
    else:
        yield "rows", f"gone: none in {searched}"
    if named := sum(not location.rows for location in report.found):
        yield "names", f"{plural(named, 'object')} without rows still {'name' if named > 1 else 'names'} a key"
    if report.until_ms is not None:
        yield "can go", f"at {ms_to_text(report.until_ms)}: erase again then"
    if report.unread:
        yield "not read", "\n".join(map(printable, report.unread))


def _erasure_facts(erasure: Erasure) -> Iterator[tuple[str, str]]:
    removed = erasure.removed
    if removed.version is None:
        yield "erased", "nothing: the newest version held no row"
    else:
        yield "erased", f"{plural(removed.rows, 'row version')} by version {removed.version}"
        sizes = f"{bytes_to_text(removed.bytes_in)}, to {bytes_to_text(removed.bytes_out)}"
        yield "rewritten", f"{plural(removed.files_in, 'file')}, {sizes}"
    if erasure.records:
        yield "records cleared", f"{erasure.records:,}"
    if erasure.released:
        yield "versions released", numbers_text(sorted({point.version for point in erasure.released}))
    yield "deleted", f"{plural(erasure.deleted, 'object')}, {bytes_to_text(erasure.deleted_bytes)}"
    if erasure.has_history:
        yield "past of others", "as before: reads as of any time show the same of other keys"


def _rows(location: KeyLocation) -> str:
    if not location.rows:
        return f"none: a {location.kind} names it"
    return ", ".join(f"{count:,} {kind}" for kind, count in location.rows.items())


def _keepers(location: KeyLocation) -> str:
    """Return what must go before a vacuum deletes the object, and when that goes by itself."""
    if not location.is_kept:
        return "older versions, which a vacuum deletes" if location.versions else f"{NOTHING} (a vacuum deletes it)"
    named = [*(["the newest version"] if location.is_current else []), *location.checkpoints]
    keepers = printable(", ".join(named) or location.reason)
    return keepers if location.until_ms is None else f"{keepers}, until {ms_to_text(location.until_ms)}"
