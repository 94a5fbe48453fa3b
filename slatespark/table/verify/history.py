"""History tables: no version of a key is earlier in time than the one before. As-of reads are exact only if this holds.

See docs/explanation/history-and-the-floor.md. All rows are read a second time. A buffer bounds the memory.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slatespark.kernels import merge_all, new_key_mask, take_rows
from slatespark.kernels.columns import HAS_CREATE, RowColumns
from slatespark.table.read.merge.cursor import LayerCursor
from slatespark.table.read.merge.windows import version_windows
from slatespark.table.read.planning.plan import Layer
from slatespark.table.rows.versions import joined
from slatespark.table.stores import TableStores
from slatespark.table.tasks import TaskRunner
from slatespark.table.verify.findings import Findings, key_text
from slatespark.table.verify.parts import compare_parts
from slatespark.units import ms_to_text


def check_time_order(
    stores: TableStores,
    layers: Sequence[Layer],
    findings: Findings,
    runner: TaskRunner,
    object_url: str,
) -> None:
    """Note the first version with an earlier time than the one before it, and the number of such versions.

    Parameters
    ----------
    layers : newest first; without damaged files
    runner : compares key ranges
    object_url : of the manifest
    """
    count, first = 0, ""
    with findings.noting(object_url, "times"):
        for found, example in compare_parts(stores, layers, _count_earlier, runner):
            count, first = count + found, first or example
    if count:
        findings.damage(object_url, "times", f"{first} Such versions: {count}.")


def _count_earlier(cursors: Sequence[LayerCursor]) -> tuple[int, str]:
    """Return how many versions have an earlier time than the one before them, and what to say of the first."""
    count, first = 0, ""
    last: list[RowColumns] = []  # the last row so far; its key may continue
    for window in version_windows(cursors):
        merged = merge_all(window.sources, window.lows, window.highs)
        rows = joined([*last, take_rows(window.sources, merged)])
        found = find_earlier(rows)
        if len(found) and not count:
            first = _describe(rows, int(found[0]))
        count += len(found)
        last = [take_rows([rows], np.array([len(rows) - 1], np.int64))]
    return count, first


def find_earlier(rows: RowColumns) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return which rows, sorted by (key ascending, seq descending), have an earlier time than the row after them."""
    same_key = ~new_key_mask([rows], np.arange(len(rows), dtype=np.int64))[1:]
    timed = (rows.flags & HAS_CREATE) != 0
    return np.flatnonzero(same_key & timed[1:] & timed[:-1] & (rows.create_ts[:-1] < rows.create_ts[1:]))


def _describe(rows: RowColumns, row: int) -> str:
    return (
        f"Key {key_text(rows.key(row))} has seq {int(rows.seqs[row])} at {ms_to_text(int(rows.create_ts[row]))}, above "
        f"seq {int(rows.seqs[row + 1])} at {ms_to_text(int(rows.create_ts[row + 1]))}, on a history table."
    )
