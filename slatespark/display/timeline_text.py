"""The timeline of a table's keys as text: which files are visible or overshadowed in each interval, and since when."""

from __future__ import annotations

from collections.abc import Iterator

from slatespark.display.key_names import KeyNames
from slatespark.table.inspection.timeline import KeyTimeline
from slatespark.table.inspection.timeline_intervals import FileVersion, TimelineInterval
from slatespark.texts import align_table, plural, printable
from slatespark.units import bytes_to_text, ms_to_text


def timeline_text(timeline: KeyTimeline, *, as_text: bool) -> str:
    """Return a line for each file of each interval, followed by the replacements; keys as `KeyNames` has them."""
    if not timeline.intervals:
        return f"{printable(timeline.url)}, version {timeline.version}: there are no files."
    bounds = [bound for item in timeline.intervals for bound in (item.start, item.end)]
    bounds += [bound for item in timeline.replacements for bound in (item.start, item.end)]
    names = KeyNames(timeline.codec, bounds, as_text=as_text)
    header = ("from key", "to key", "file", "layer", "added", "state", "bytes", "created")
    rows = (row for interval in timeline.intervals for row in _rows(interval, names))
    parts = [
        f"{printable(timeline.url)}, version {timeline.version}",
        align_table(header, rows, right={"bytes"}),
    ]
    if timeline.wal_files:
        parts.append(f"Above all of these: the WAL, {plural(timeline.wal_files, 'file')}.")
    if timeline.replacements:
        parts.append(_replacements_text(timeline, names))
    return "\n\n".join(parts)


def _rows(interval: TimelineInterval, names: KeyNames) -> Iterator[tuple[str, ...]]:
    """Yield the lines of an interval; only the first line shows its keys."""
    keys = names.first(interval.start), names.last(interval.end)
    if not any(file.is_visible for file in interval.files):
        since = "" if interval.replaced is None else f" since version {interval.replaced}"
        yield (*keys, "", "", "", f"no data{since}", "", "")
        keys = "", ""
    for file in interval.files:
        yield (
            *keys,
            file.id,
            file.layer or "",
            "" if file.added is None else f"version {file.added}",
            _state(file),
            bytes_to_text(file.stored_bytes),
            ms_to_text(file.created_ms),
        )
        keys = "", ""


def _state(file: FileVersion) -> str:
    if file.is_visible:
        return "visible"
    return "hidden" if file.since is None else f"overshadowed since version {file.since}"


def _replacements_text(timeline: KeyTimeline, names: KeyNames) -> str:
    rows = (
        (
            str(item.version),
            ms_to_text(item.committed_ms),
            printable(item.operation),
            names.first(item.start),
            names.last(item.end),
            f"{item.rows:,}",
        )
        for item in timeline.replacements
    )
    header = ("version", "committed", "operation", "from key", "to key", "rows")
    return align_table(header, rows, right={"version", "rows"})
