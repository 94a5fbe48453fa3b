"""Files of several tasks that share keys, merged before the commit so that `sequenceColumn` decides between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slatespark.errors import InvalidRequestError
from slatespark.kernels import new_key_mask, take_rows
from slatespark.kernels.columns import RowColumns, Visibility
from slatespark.options import WriteOptions
from slatespark.ranges import KeyRange
from slatespark.table.clock import Clock
from slatespark.table.read.cursor import LayerCursor, layer_windows
from slatespark.table.read.plan import Layer
from slatespark.table.read.scan import visible_windows, window_size
from slatespark.table.stores import TableStores
from slatespark.table.write.rows import RowEncoder
from slatespark.table.write.sequence import Ranks, order_repeats, rank_values
from slatespark.table.write.sorted_rows import SortedRows, one_version_per_key
from slatespark.table.write.sst_upload import NewFile, upload_sorted
from slatespark.units import MIN_MS

Outputs = tuple[tuple[NewFile, ...], ...]

_EVERYTHING = Visibility(max_seq=2**64 - 1, now_ms=MIN_MS, all_versions=True)


def merge_overlaps(
    stores: TableStores,
    clock: Clock,
    outputs: Sequence[tuple[NewFile, ...]],
    encoder: RowEncoder,
    options: WriteOptions,
) -> Outputs:
    """Return the files of a write with those rewritten that share keys with files of another task.

    Parameters
    ----------
    outputs : per task, in key order; a later task is newer
    encoder : with the sequence column

    Raises
    ------
    InvalidRequestError
        When that would rewrite more than `commitRewriteLimit`, or deletes are among them: they have no columns.
    """
    shared = find_overlapping(outputs)
    if not any(shared):
        return tuple(outputs)
    files = [file for group in shared for file in group]
    total_bytes = sum(file.size for file in files)
    if total_bytes > options.rewrite_limit_bytes:
        raise _use_slate_table(
            stores,
            f"to merge them would rewrite {total_bytes} bytes, commitRewriteLimit is {options.rewrite_limit_bytes}",
        )
    if any(file.properties.deletes for file in files):
        raise _use_slate_table(stores, "there are deletes among them, which have no columns to go by")
    merged = upload_sorted(stores.main, _merge(stores, shared, encoder, options), options, clock, clock.now_ms())
    chosen = {file.handle.id for file in files}
    rest = (tuple(file for file in group if file.handle.id not in chosen) for group in outputs)
    return (*rest, merged)


def _use_slate_table(stores: TableStores, fact: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"{stores.url}: tasks of this write hold rows of the same keys, and {fact}.",
        why="sequenceColumn has to decide between them.",
        todo="Use SlateTable.write, whose tasks never share keys, or repartition by the key columns.",
    )


def find_overlapping(outputs: Sequence[tuple[NewFile, ...]]) -> Outputs:
    """Return, per task, the files whose key range meets that of a file of another task."""
    spans = sorted(
        ((file.keys, task, place) for task, files in enumerate(outputs) for place, file in enumerate(files)),
        key=lambda item: item[0].start,
    )
    chosen: set[tuple[int, int]] = set()
    open_spans: list[tuple[KeyRange, int, int]] = []
    for keys, task, place in spans:
        open_spans = [item for item in open_spans if item[0].overlaps(keys)]
        for _, other_task, other_place in open_spans:
            if other_task != task:
                chosen |= {(task, place), (other_task, other_place)}
        open_spans.append((keys, task, place))
    return tuple(
        tuple(file for place, file in enumerate(files) if (task, place) in chosen) for task, files in enumerate(outputs)
    )


def _merge(stores: TableStores, shared: Outputs, encoder: RowEncoder, options: WriteOptions) -> Iterator[SortedRows]:
    layers = [Layer("new", tuple(file.whole() for file in files)) for files in reversed(shared) if files]
    window_bytes = window_size(options.write_buffer_bytes, len(layers))
    cursors = [LayerCursor(layer_windows(stores, layer, window_bytes)) for layer in layers]
    # A task holds a key once, so all its versions are in one window; newest first, hence the reversal.
    for window, selection in visible_windows(cursors, _EVERYTHING, None):
        rows = selection.rows[::-1]
        arranged = order_repeats(first := new_key_mask(window, rows), _ranks(window, rows, first, encoder))
        sources, kept = one_version_per_key(window, rows if arranged is None else rows[arranged], None)
        flat = take_rows(sources, kept[::-1])
        yield SortedRows([flat], np.arange(len(flat), dtype=np.int64))


def _ranks(sources: list[RowColumns], rows: NDArray[np.int64], first: NDArray[np.bool_], encoder: RowEncoder) -> Ranks:
    """Return the ranks of rows by the column stored in their values; it is decoded only where a key repeats."""
    assert encoder.sequence_column is not None  # the caller's condition
    ranks = Ranks(np.zeros(len(rows), np.int64), np.zeros(len(rows), np.bool_))
    repeated = np.flatnonzero(~first | np.append(~first[1:], False))
    if len(repeated):
        column: pa.Array = encoder.codec.decode(sources, rows[repeated], [encoder.sequence_column])[
            encoder.sequence_column
        ]
        found = rank_values(column)
        ranks.order[repeated], ranks.there[repeated] = found.order, found.there
    return ranks
