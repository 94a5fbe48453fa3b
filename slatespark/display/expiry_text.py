"""How much of a table expires when, as text."""

from __future__ import annotations

from slatespark.display.values import duration_text
from slatespark.table.retention.expiry_tally import ExpiryPart, ExpiryReport
from slatespark.texts import NOTHING, align_facts, align_table, plural
from slatespark.units import bytes_to_text, ms_to_text


def expiry_text(report: ExpiryReport) -> str:
    """Return a report as facts, and its parts as aligned columns."""
    facts = align_facts(
        [
            ("table", report.url),
            ("version", str(report.version)),
            ("now", ms_to_text(report.now_ms)),
            ("stored", f"{plural(report.rows, 'row version')}, {bytes_to_text(report.stored_bytes)}"),
            *([] if report.retention_ms is None else [("retention", duration_text(report.retention_ms * 1000))]),
            ("files read", f"{report.files_read:,} of {report.files:,}"),
        ]
    )
    has_wal = any(part.wal_rows for part in report.parts)
    header = ("expires", "before", "rows", "bytes", *(("WAL rows", "WAL bytes") if has_wal else ()))
    rows = [_cells(part)[: len(header)] for part in report.parts]
    return f"{facts}\n\n{align_table(header, rows, right=set(header[2:]))}"


def _cells(part: ExpiryPart) -> tuple[str, ...]:
    return (
        part.state if part.start_ms is None else _instant(part.start_ms),
        NOTHING if part.end_ms is None else _instant(part.end_ms),
        f"{part.rows:,}",
        bytes_to_text(part.stored_bytes),
        f"{part.wal_rows:,}",
        bytes_to_text(part.wal_bytes),
    )


def _instant(ms: int) -> str:
    return ms_to_text(ms).replace(":00.000Z", "Z")
