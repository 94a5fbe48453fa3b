"""Checkpoints as text."""

from __future__ import annotations

from collections.abc import Sequence

from slatespark.table.checkpoints.store import CheckpointFacts
from slatespark.texts import NOTHING, align_table, plural, printable
from slatespark.units import ms_to_text


def checkpoints_text(points: Sequence[CheckpointFacts], left_out: int) -> str:
    """Return checkpoints as aligned columns.

    Parameters
    ----------
    left_out : number of checkpoints not shown, which commits keep for `versionRetention`
    """
    rows = [
        (
            point.id,
            NOTHING if point.name is None else printable(point.name),
            str(point.version),
            ms_to_text(point.created_ms),
            "never" if point.expires_ms is None else ms_to_text(point.expires_ms),
        )
        for point in points
    ]
    header = ("checkpoint", "name", "version", "created", "expires")
    shown = align_table(header, rows, right={"version"}) if rows else "The table has no checkpoint."
    if not left_out:
        return shown
    return f"{shown}\n{plural(left_out, 'version')} kept for versionRetention; --all lists them."


def expiry_clause(point: CheckpointFacts) -> str:
    """Return when a checkpoint expires, as the end of a sentence."""
    return "does not expire" if point.expires_ms is None else f"expires {ms_to_text(point.expires_ms)}"
