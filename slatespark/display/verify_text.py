"""A verification report as text."""

from __future__ import annotations

from slatespark.table.verify.findings import Finding, VerifyReport, key_text
from slatespark.texts import numbers_text, plural, printable
from slatespark.units import bytes_to_text


def verify_text(report: VerifyReport) -> str:
    """Return the findings of a verification, what it read, and the verdict."""
    read = (
        f"Read {plural(report.objects, 'object')}, {bytes_to_text(report.stored_bytes)}, "
        f"{plural(report.rows, 'row version')}; version {numbers_text(report.versions)} of {report.url}."
    )
    if report.wal_rows:
        read += (
            f" Of the row versions, {report.wal_rows:,} are in WAL files, "
            "which stay for a while after their rows are in other files too."
        )
    lines = [finding_text(finding) for finding in report.findings]
    if report.omitted:
        lines.append(f"{report.omitted:,} more findings are not listed.")
    for view in report.empty_views:
        end = "" if view.end is None else key_text(view.end)
        lines.append(
            f"Note: the view [{key_text(view.start)}, {end}) of SST {view.file} shows no row; vacuum removes it."
        )
    if report.incomplete_versions:
        numbers = numbers_text(report.incomplete_versions)
        lines.append(f"Note: files of version {numbers} were garbage-collected; such versions can no longer be read.")
    return "\n".join(map(printable, [*lines, read, _verdict(report)]))


def finding_text(finding: Finding) -> str:
    """Return a finding as one line: where, what."""
    place = f" at byte {finding.offset:,}" if finding.offset is not None else ""
    mark = "" if finding.is_damage else "not checked: "
    return f"{finding.object}{place} ({finding.section}): {mark}{finding.what}"


def _verdict(report: VerifyReport) -> str:
    damages = report.omitted + sum(finding.is_damage for finding in report.findings)
    gaps = sum(not finding.is_damage for finding in report.findings)
    if not damages and not gaps:
        return "No faults found."
    parts = [plural(damages, "fault") + " found"] if damages else ["No faults found"]
    if gaps:
        parts.append(f"{plural(gaps, 'part')} could not be checked")
    return f"{', '.join(parts)}."
