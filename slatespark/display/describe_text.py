"""The facts of a table as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from slatespark.display.checkpoints_text import expiry_clause
from slatespark.table.commit.version_retention import is_retained
from slatespark.table.inspection.describe import ColumnFacts, DefinitionFacts, RowFacts, TableFacts
from slatespark.texts import GAP, NOTHING, align_facts, bytes_text, numbers_text, plural, printable
from slatespark.units import MAX_MS, bytes_to_text, ms_to_text

MAX_SEGMENTS: Final = 8  # whose prefixes are shown


def describe_text(facts: TableFacts) -> str:
    """Return the facts of a table."""
    return align_facts(_facts(facts))


def _facts(facts: TableFacts) -> Iterator[tuple[str, str]]:
    yield "table", facts.url
    yield "kind", facts.kind
    if facts.definition is not None:
        yield from definition_facts(facts.definition, with_columns=True)
    yield "version", str(facts.version)
    yield "versions present", numbers_text(facts.versions)
    yield "format", _format_text(facts)
    yield "epochs", f"writer {facts.writer_epoch}, compactor {facts.compactor_epoch}"
    yield "layers", f"{plural(facts.l0_views, 'L0 view')}, {plural(facts.sorted_runs, 'sorted run')}"
    yield "files", f"{plural(facts.files, 'file')}, {bytes_to_text(facts.stored_bytes)}"
    if facts.copies:
        yield "columnar copies", f"{plural(facts.copies, 'file')}, {bytes_to_text(facts.copy_bytes)}"
    if facts.rows is not None:
        yield "row versions", _rows_text(facts.rows)
    yield "compression", ", ".join(_codec_texts(facts)) or NOTHING
    yield "last seq", str(facts.last_seq)
    yield "clock tick", _instant(facts.clock_tick_ms)
    yield from history_facts(facts)
    yield "WAL tail", _wal_text(facts)
    if facts.segment_extractor is not None:
        yield "segments", _segments_text(facts)
    yield from (("checkpoint", text) for text in _checkpoint_texts(facts))
    yield from (("external database", text) for text in _external_texts(facts))
    yield from (("compaction job", text) for text in _job_texts(facts))


def _segments_text(facts: TableFacts) -> str:
    shown = ", ".join(facts.segments[:MAX_SEGMENTS])
    more = f", and {len(facts.segments) - MAX_SEGMENTS:,} more" if len(facts.segments) > MAX_SEGMENTS else ""
    return f"{len(facts.segments):,} by {printable(facts.segment_extractor or '')}{': ' if shown else ''}{shown}{more}"


def history_facts(facts: TableFacts) -> Iterator[tuple[str, str]]:
    """Yield the floor of a history table, effective and stored, as name and value; nothing for other tables."""
    floors = facts.history_floors
    if floors is not None:
        stored = f" (stored: {_instant(floors.stored_ms)})" if floors.stored_ms != floors.effective_ms else ""
        yield "history floor", f"{_instant(floors.effective_ms)}{stored}"


def definition_facts(definition: DefinitionFacts, *, with_columns: bool) -> Iterator[tuple[str, str]]:
    """Yield a definition as names and values, with control characters escaped."""
    yield "definition", f"version {definition.version}"
    if definition.columns:
        yield "key columns", f"{_names(definition.key_columns)} ({definition.key_format})"
        yield "values", _values_text(definition)
        if with_columns:
            yield "columns", columns_text(definition.columns)
    if definition.dropped_columns:
        yield "dropped columns", _names(definition.dropped_columns)
    yield from ((printable(name), printable(value)) for name, value in sorted(definition.properties.items()))


def _values_text(definition: DefinitionFacts) -> str:
    count = definition.writer_schemas
    return f"{definition.value_format}, {plural(count, 'schema')}" if count else definition.value_format


def columns_text(columns: Sequence[ColumnFacts]) -> str:
    """Return a line for each column: name, type, and place in the key."""
    rows = [(printable(item.name), printable(item.type), column_mark(item)) for item in columns]
    widths = [max(len(row[at]) for row in rows) for at in range(2)]
    return "\n".join(f"{name:{widths[0]}}{GAP}{kind:{widths[1]}}{GAP}{mark}".rstrip() for name, kind, mark in rows)


def column_mark(column: ColumnFacts) -> str:
    """Return the place of a column in the key, or `not null`, or nothing."""
    return f"key {column.key + 1}" if column.key is not None else "" if column.nullable else "not null"


def _names(names: Iterable[str]) -> str:
    return ", ".join(printable(name) for name in names)


def _format_text(facts: TableFacts) -> str:
    versions = " and ".join(map(str, facts.sst_formats))
    return f"manifest {facts.manifest_format}" + (f", SSTs {versions}" if versions else "")


def _codec_texts(facts: TableFacts) -> list[str]:
    return [f"{item.codec} ({plural(item.files, 'file')}, {bytes_to_text(item.stored_bytes)})" for item in facts.codecs]


def _rows_text(rows: RowFacts) -> str:
    text = f"{plural(rows.puts, 'put')}, {plural(rows.deletes, 'delete')}, {plural(rows.merges, 'merge')}"
    unknown = f"; unknown for {plural(rows.files_without_stats, 'file')}" if rows.files_without_stats else ""
    return f"{text} in files{unknown}"


def _wal_text(facts: TableFacts) -> str:
    wal = facts.wal
    if wal.start == wal.end:
        return f"empty, next file {wal.end}"
    ids = f"file {wal.start}" if wal.end == wal.start + 1 else f"files {wal.start}-{wal.end - 1}"
    return f"{ids}, {'no rows' if wal.last_seq is None else f'last seq {wal.last_seq}'}"


def _checkpoint_texts(facts: TableFacts) -> list[str]:
    texts = [
        f"{point.id}{f' {bytes_text(point.name.encode(), as_text=True)}' if point.name else ''}: version "
        f"{point.version}, created {ms_to_text(point.created_ms)}, {expiry_clause(point)}"
        for point in facts.checkpoints
        if not is_retained(point.name)
    ]
    kept = [point for point in facts.checkpoints if is_retained(point.name)]
    if kept:
        versions = numbers_text(sorted(point.version for point in kept))
        last = ms_to_text(max(point.expires_ms or MAX_MS for point in kept))
        texts.append(f"{plural(len(kept), 'version')} kept for versionRetention, {versions}: the last one until {last}")
    return texts


def _external_texts(facts: TableFacts) -> list[str]:
    return [
        f"{printable(item.path)}: {plural(item.files, 'file')}, checkpoint {item.checkpoint}" for item in facts.external
    ]


def _job_texts(facts: TableFacts) -> list[str]:
    return [
        f"{job.id}: {job.status}, {plural(job.sources, 'source')}, created {ms_to_text(job.created_ms)}"
        + (f", worker {printable(job.worker)}" if job.worker else "")
        for job in facts.jobs
    ]


def _instant(ms: int | None) -> str:
    return NOTHING if ms is None else ms_to_text(ms)
