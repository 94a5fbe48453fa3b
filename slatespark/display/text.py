"""Facts and rows as aligned text for the shell: dataclasses in, text out."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from slatespark.ranges import KeyRange
from slatespark.table.commit.version_retention import is_retained
from slatespark.table.read.describe import ColumnFacts, DefinitionFacts, TableFacts
from slatespark.table.read.files import FileFacts
from slatespark.table.verify.findings import Finding, VerifyReport
from slatespark.units import MAX_MS, bytes_to_text, ms_to_text

if TYPE_CHECKING:
    from slatespark.display.key_names import KeyNames

GAP = "  "
NOTHING = "-"
MAX_KEY_CHARACTERS = 40  # of a key in a table of files; longer ones are cut


def align_table(header: Sequence[str], rows: Iterable[Sequence[str]], *, right: Collection[str] = ()) -> str:
    """Return rows as aligned columns below a header.

    Parameters
    ----------
    right : names of columns that hold numbers, which stand on the right
    """
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    aligned = (
        GAP.join(
            cell.rjust(width) if name in right else cell.ljust(width)
            for name, cell, width in zip(header, line, widths, strict=True)
        ).rstrip()
        for line in lines
    )
    return "\n".join(aligned)


def align_facts(facts: Iterable[tuple[str, str]]) -> str:
    """Return names and values in two columns; a value of several lines stays in its column."""
    pairs = list(facts)
    width = max((len(name) for name, _ in pairs), default=0) + len(GAP)
    lines = []
    for name, value in pairs:
        first, *others = value.split("\n")
        lines.append(f"{name.ljust(width)}{first}".rstrip())
        lines.extend(f"{'':{width}}{line}" for line in others)
    return "\n".join(lines)


def bytes_text(data: bytes, *, as_text: bool) -> str:
    """Return bytes for a terminal: hexadecimal, or as UTF-8 where they are.

    As text, what a terminal would act upon is escaped as in JSON, and bytes that are no UTF-8 become `0x...`.
    """
    if not as_text:
        return data.hex()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return f"0x{data.hex()}"
    return printable(text)


def printable(text: str) -> str:
    """Return text with what a terminal would act upon escaped as in JSON."""
    return text if text.isprintable() else "".join(_escaped(letter) for letter in text)


def _escaped(letter: str) -> str:
    return letter if letter.isprintable() else json.dumps(letter)[1:-1]


def numbers_text(numbers: Iterable[int]) -> str:
    """Return ascending numbers with runs of them joined: `1-4, 7`."""
    runs = []
    for _, members in groupby(enumerate(numbers), key=lambda item: item[1] - item[0]):
        run = [number for _, number in members]
        runs.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
    return ", ".join(runs) or NOTHING


def plural(count: int, noun: str) -> str:
    """Return a count with its noun: `1 file`, `2 files`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _instant(ms: int | None) -> str:
    return NOTHING if ms is None else ms_to_text(ms)


# --- one table ------------------------------------------------------------------------------------------------------


def describe_text(facts: TableFacts) -> str:
    """Return the facts of a table."""
    pairs = [
        ("table", facts.url),
        ("kind", facts.kind),
        *(definition_facts(facts.definition) if facts.definition is not None else ()),
        ("version", str(facts.version)),
        ("versions present", numbers_text(facts.versions)),
        ("format", _format_text(facts)),
        ("epochs", f"writer {facts.writer_epoch}, compactor {facts.compactor_epoch}"),
        ("layers", f"{plural(facts.l0_views, 'L0 view')}, {plural(facts.sorted_runs, 'sorted run')}"),
        ("files", f"{plural(facts.files, 'file')}, {bytes_to_text(facts.stored_bytes)}"),
        ("compression", ", ".join(_codec_texts(facts)) or NOTHING),
        ("last seq", str(facts.last_seq)),
        ("clock tick", _instant(facts.clock_tick_ms)),
        ("WAL tail", _wal_text(facts)),
    ]
    if facts.rows is not None:
        at = [name for name, _ in pairs].index("compression")
        pairs.insert(at, ("row versions", _rows_text(facts)))
    if facts.segments:
        pairs.append(("segments", ", ".join(facts.segments)))
    pairs.extend(("checkpoint", text) for text in _checkpoint_texts(facts))
    pairs.extend(("external database", text) for text in _external_texts(facts))
    pairs.extend(("compaction job", text) for text in _job_texts(facts))
    return align_facts(pairs)


def definition_facts(definition: DefinitionFacts) -> list[tuple[str, str]]:
    """Return what a definition says as names and values; nothing in it commands the terminal."""
    pairs = [("definition", f"version {definition.version}")]
    if definition.columns:
        pairs.append(("key columns", f"{_names(definition.key_columns)} ({definition.key_format})"))
        pairs.append(("values", _values_text(definition)))
        pairs.append(("columns", _columns_text(definition.columns)))
    if definition.dropped_columns:
        pairs.append(("dropped columns", _names(definition.dropped_columns)))
    pairs.extend((printable(name), printable(value)) for name, value in sorted(definition.properties.items()))
    return pairs


def _values_text(definition: DefinitionFacts) -> str:
    count = definition.writer_schemas
    return f"{definition.value_format}, {plural(count, 'schema')}" if count else definition.value_format


def _columns_text(columns: Sequence[ColumnFacts]) -> str:
    rows = [(printable(item.name), item.type, column_mark(item)) for item in columns]
    widths = [max(len(row[at]) for row in rows) for at in range(2)]
    return "\n".join(f"{name:{widths[0]}}{GAP}{kind:{widths[1]}}{GAP}{mark}".rstrip() for name, kind, mark in rows)


def column_mark(column: ColumnFacts) -> str:
    """Return what is special about a column: its place in the key, or that it is never null."""
    return f"key {column.key + 1}" if column.key is not None else "" if column.nullable else "not null"


def _names(names: Iterable[str]) -> str:
    return ", ".join(printable(name) for name in names)


def _format_text(facts: TableFacts) -> str:
    versions = " and ".join(map(str, facts.sst_formats))
    return f"manifest {facts.manifest_format}" + (f", SSTs {versions}" if versions else "")


def _codec_texts(facts: TableFacts) -> list[str]:
    return [f"{item.codec} ({plural(item.files, 'file')}, {bytes_to_text(item.stored_bytes)})" for item in facts.codecs]


def _rows_text(facts: TableFacts) -> str:
    rows = facts.rows
    assert rows is not None
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
        f"{point.version}, created {ms_to_text(point.created_ms)}, "
        + ("stays" if point.expires_ms is None else f"expires {ms_to_text(point.expires_ms)}")
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
    return [f"{item.path}: {plural(item.files, 'file')}, checkpoint {item.checkpoint}" for item in facts.external]


def _job_texts(facts: TableFacts) -> list[str]:
    return [
        f"{job.id}: {job.status}, {plural(job.sources, 'source')}, created {ms_to_text(job.created_ms)}"
        + (f", worker {job.worker}" if job.worker else "")
        for job in facts.jobs
    ]


# --- files ----------------------------------------------------------------------------------------------------------


def files_text(files: Sequence[FileFacts], *, as_text: bool = False, names: KeyNames | None = None) -> str:
    """Return a line for each file of each layer; columns of which nothing is known are left out.

    Parameters
    ----------
    as_text : keys are text where they can be
    names : of the keys of a typed table
    """
    if not files:
        return "The table has no files."

    def first(file: FileFacts) -> str:
        return names.of(file.start) if names is not None else _key_text(file.start, as_text=as_text)

    def last(file: FileFacts) -> str:
        if names is not None and file.end is not None:
            return names.last(file.end)
        return _last_text(KeyRange(file.start, file.end), as_text=as_text)

    columns = {
        "layer": [file.layer for file in files],
        "file": [file.id for file in files],
        "database": [file.root or "" for file in files],
        "from key": [first(file) for file in files],
        "to key": [last(file) for file in files],
        "bytes": [bytes_to_text(file.stored_bytes) for file in files],
        "codec": [file.compression for file in files],
        "rows": ["" if file.rows is None else f"{file.rows:,}" for file in files],
        "blocks": ["" if file.blocks is None else f"{file.blocks:,}" for file in files],
        "seqs": [_span_text(file.min_seq, file.max_seq) for file in files],
        "written": [_instants_text(file.min_create_ms, file.max_create_ms) for file in files],
        "expires": [_instants_text(file.min_expire_ms, file.max_expire_ms) for file in files],
        "has": [", ".join(file.features or ()) for file in files],
        "created": [ms_to_text(file.created_ms) for file in files],
    }
    shown = {name: cells for name, cells in columns.items() if any(cells)}
    return align_table(list(shown), zip(*shown.values(), strict=True), right={"bytes", "rows", "blocks"})


def _key_text(key: bytes, *, as_text: bool) -> str:
    text = bytes_text(key, as_text=as_text)
    return text if len(text) <= MAX_KEY_CHARACTERS else f"{text[: MAX_KEY_CHARACTERS - 1]}…"


def _last_text(keys: KeyRange, *, as_text: bool) -> str:
    """Return the end of a range: the last key itself where the range ends right behind one."""
    if keys.end is None:
        return "open"
    if keys.end.endswith(b"\0"):
        return _key_text(keys.end[:-1], as_text=as_text)
    return f"below {_key_text(keys.end, as_text=as_text)}"


def _span_text(low: int | None, high: int | None) -> str:
    if low is None or high is None:
        return ""
    return str(low) if low == high else f"{low}-{high}"


def _instants_text(low: int | None, high: int | None) -> str:
    if low is None or high is None:
        return ""
    return ms_to_text(low) if low == high else f"{ms_to_text(low)} to {ms_to_text(high)}"


# --- verification ---------------------------------------------------------------------------------------------------


def verify_text(report: VerifyReport) -> str:
    """Return what a verification found, and how much it looked at."""
    read = (
        f"Read {plural(report.objects, 'object')}, {bytes_to_text(report.stored_bytes)}, "
        f"{plural(report.rows, 'row version')}; version {numbers_text(report.versions)} of {report.url}."
    )
    lines = [finding_text(finding) for finding in report.findings]
    if report.omitted:
        lines.append(f"{report.omitted:,} more findings are not listed.")
    if report.incomplete_versions:
        numbers = numbers_text(report.incomplete_versions)
        lines.append(f"Note: files of version {numbers} were collected; such versions can no longer be read.")
    return "\n".join([*lines, read, _verdict(report)])


def finding_text(finding: Finding) -> str:
    """Return a finding as one line: where, what."""
    place = f" at byte {finding.offset:,}" if finding.offset is not None else ""
    mark = "" if finding.is_damage else "not checked: "
    return f"{finding.object}{place} ({finding.section}): {mark}{finding.what}"


def _verdict(report: VerifyReport) -> str:
    damages = report.omitted + sum(finding.is_damage for finding in report.findings)
    gaps = sum(not finding.is_damage for finding in report.findings)
    if not damages and not gaps:
        return "Everything is sound."
    parts = [plural(damages, "fault") + " found"] if damages else ["No fault found"]
    if gaps:
        parts.append(f"{plural(gaps, 'part')} could not be checked")
    return f"{', '.join(parts)}."
