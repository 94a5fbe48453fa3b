"""The versions of a table as text."""

from __future__ import annotations

from collections.abc import Sequence

from slatespark.table.inspection.versions import VersionFacts
from slatespark.texts import NOTHING, align_table, printable, span_text
from slatespark.units import ms_to_text


def versions_text(versions: Sequence[VersionFacts]) -> str:
    """Return versions as aligned columns."""
    rows = [
        (
            str(facts.version),
            ms_to_text(facts.committed_ms),
            printable(facts.operation or NOTHING),
            _rows(facts),
            NOTHING if facts.files is None else f"{facts.files:,}",
            NOTHING if facts.files_removed is None else f"{facts.files_removed:,}",
            span_text(facts.first_seq, facts.last_seq) or NOTHING,
            printable(str(facts.engine or NOTHING)),
            printable(str(facts.write_id or NOTHING)),
        )
        for facts in versions
    ]
    header = ("version", "committed", "operation", "rows", "files", "removed", "seqs", "engine", "write")
    return align_table(header, rows, right={"version", "files", "removed"})


def _rows(facts: VersionFacts) -> str:
    counts = (f"{count:,} {printable(kind)}" for kind, count in facts.rows.items() if count)
    return ", ".join(counts) or NOTHING
