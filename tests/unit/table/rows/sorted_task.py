"""The rows of a task, sorted and uploaded, as they are read back."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import pyarrow as pa
import pytest

from slatespark.format.paths import COMPACTED_DIR
from slatespark.format.row import Row
from slatespark.options import WriteOptions
from slatespark.table.clock import SystemClock
from slatespark.table.read.merge.cursor import layer_windows
from slatespark.table.read.merge.merge_function import MergeFunction
from slatespark.table.read.planning.plan import Layer
from slatespark.table.rows import spill
from slatespark.table.rows.encoder import RowEncoder, Stamp
from slatespark.table.rows.sst_upload import NewFile, upload_task
from slatespark.table.rows.task_sorter import TaskSorter
from slatespark.table.stores import open_stores
from slatespark.table.tasks import ThreadRunner
from tests.support.row_values import columns_to_rows

_numbers = count()


def sorted_task(
    batches: Sequence[pa.RecordBatch],
    encoder: RowEncoder,
    stamp: Stamp,
    fold: MergeFunction | None,
    *,
    buffer: int,
    sst_size: int = 3000,
    threads: int = 1,
    most_merged: int = spill.MOST_MERGED,
) -> tuple[list[Row], tuple[NewFile, ...]]:
    """Sort the rows in `buffer` bytes, each thread with a part; return what the files hold, and the files.

    Parameters
    ----------
    most_merged : how many spilled chunks are merged at a time
    """
    stores = open_stores(f"memory://sorted-task-{next(_numbers)}", storage={})
    runner = ThreadRunner(threads)
    sorter = TaskSorter(batches, encoder, stamp, fold, buffer_bytes=buffer, threads=runner)
    options = WriteOptions.parse({"path": "p", "sstSize": sst_size, "blockSize": 1024})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spill, "PART_BYTES", 1)  # each thread gets a part
        patch.setattr(spill, "MOST_MERGED", most_merged)
        files = upload_task(stores, SystemClock(), sorter, options, 0, threads=runner)
    assert len(stores.main.list(COMPACTED_DIR)) == len(files), "what was merged again is gone"
    windows = layer_windows(stores, Layer("new", tuple(file.whole() for file in files)), 1 << 20)
    return [row for window in windows for row in columns_to_rows(window.rows)[window.low : window.high]], files
