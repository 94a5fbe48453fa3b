"""The rows of a columnar copy as windows of a layer; where it turns out to be damaged, the SST takes over.

The seal of a copy covers the file as a whole, and a scan reads parts of it. So three things are checked instead: the
footer, with the statistics, when it is fetched; the checksum of each page that is read; and, after each fetch, that the
seal is still the one of the footer, since a copy may be written anew under its name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from slatespark.errors import CorruptDataError
from slatespark.format.columnar_copy import seal_range
from slatespark.format.copy_chunks import GroupChunks
from slatespark.kernels import key_span
from slatespark.storage import run_ahead
from slatespark.table.read.arrow import MAX_BATCH_BYTES, MAX_BATCH_ROWS, Projection
from slatespark.table.read.copies.part import CopyGroup, CopyPart
from slatespark.table.read.copies.rows import CopyRows, copy_rows
from slatespark.table.read.copies.stored import UNUSABLE, warn_unusable
from slatespark.table.read.merge.cursor import Window, layer_windows
from slatespark.table.read.planning.plan import FileSlice, Layer
from slatespark.table.stores import TableStores, object_context


@dataclass(frozen=True, slots=True)
class CopyReads:
    """Reads layers, some slices of them from copies.

    Attributes
    ----------
    parts : parts of copies, by slice
    projection, names : columns of the read, and those of its filter
    ahead_bytes : size of the SSTs that are read ahead, as for `cursor.layer_windows`
    """

    parts: Mapping[FileSlice, CopyPart]
    projection: Projection
    names: tuple[str, ...]
    ahead_bytes: int

    def layer_windows(self, stores: TableStores, layer: Layer, window_bytes: int) -> Iterator[Window]:
        """Return the windows of a layer; raises as `cursor.layer_windows`."""
        if self.parts.keys().isdisjoint(layer.slices):  # its first read starts at once
            return layer_windows(stores, layer, window_bytes, ahead_bytes=self.ahead_bytes)
        return self._some_copied(stores, layer, window_bytes)

    def _some_copied(self, stores: TableStores, layer: Layer, window_bytes: int) -> Iterator[Window]:
        for is_copied, slices in groupby(layer.slices, key=self.parts.__contains__):
            if not is_copied:
                rest = Layer(layer.name, tuple(slices))
                yield from layer_windows(stores, rest, window_bytes, ahead_bytes=self.ahead_bytes)
                continue
            for part in slices:
                yield from self.part_windows(stores, self.parts[part], window_bytes)

    def part_windows(self, stores: TableStores, part: CopyPart, window_bytes: int) -> Iterator[Window]:
        """Yield the rows of a slice from its copy, or the rest of them from its SST."""
        done = 0  # rows of the file, as many as the copy has
        try:
            for group, chunks in _fetched_groups(stores, part, window_bytes):
                with object_context(stores.main, part.meta.path):
                    rows = self._rows(part, group, chunks)
                for window in _cut(rows, part, group):
                    done = group.first_row + window.high
                    yield window
        except UNUSABLE as exc:
            warn_unusable(stores.main, part.meta, exc)
        else:
            return
        if done:
            yield from _sst_windows(stores, part.part, done, window_bytes)
        else:
            yield from layer_windows(stores, Layer("copy", (part.part,)), window_bytes)

    def _rows(self, part: CopyPart, group: CopyGroup, chunks: GroupChunks) -> CopyRows:
        rows, seq = chunks.read(list(part.names_of(group))), part.footer.label.min_seq
        return copy_rows(rows, self.names, self.projection, seq=seq, with_keys=part.needs_keys(group))


def _fetched_groups(stores: TableStores, part: CopyPart, window_bytes: int) -> Iterator[tuple[CopyGroup, GroupChunks]]:
    """Yield row groups with their chunks; as many as fit a window are fetched together, and the next ones meanwhile."""
    batches = list(part.fetched_together(window_bytes))
    fetches = [partial(_fetch, stores, part, batch) for batch in batches]
    is_remote = stores.main.is_remote
    coming = run_ahead(fetches[0], is_remote=is_remote) if fetches else None
    for number, batch in enumerate(batches):
        assert coming is not None
        found = coming()
        coming = run_ahead(fetches[number + 1], is_remote=is_remote) if number + 1 < len(fetches) else None
        yield from zip(batch, found, strict=True)


def _fetch(stores: TableStores, part: CopyPart, groups: list[CopyGroup]) -> list[GroupChunks]:
    """Return the chunks of row groups; nearby ones share a request."""
    store, path, footer = stores.main, part.meta.path, part.footer
    by_group = [part.spans(group) for group in groups]
    with object_context(store, path):
        found = iter(store.get_ranges(path, [span for spans in by_group for span in spans]))
        chunks = [{span.start: next(found) for span in spans} for spans in by_group]
        if bytes(store.get_range(path, seal_range(footer, part.meta.size))) != footer.seal:
            raise CorruptDataError("the columnar copy was rewritten while it was read.")
    return [GroupChunks(footer.metadata, group.number, data) for group, data in zip(groups, chunks, strict=True)]


def _cut(rows: CopyRows, part: CopyPart, group: CopyGroup) -> Iterator[Window]:
    """Yield the rows of a row group that lie in the slice, as windows that make batches of usual size."""
    low, high = 0, len(rows)
    keys = part.part.keys
    if group.is_cut:
        low, high = key_span(rows, keys)
    size = sum(column.nbytes for column in rows.columns.values())
    step = max(1, min(MAX_BATCH_ROWS, len(rows) * MAX_BATCH_BYTES // max(1, size)))
    for start in range(low, high, step):
        end = min(start + step, high)
        yield Window(rows, start, end, (rows.key(end - 1), 1))


def _sst_windows(stores: TableStores, part: FileSlice, row: int, window_bytes: int) -> Iterator[Window]:
    """Yield the rows of a slice from a row of the file on, counted from the first row of the file.

    It reads the file from its start: only an SST says which key a row has, if the copy cannot be trusted.

    Requires: each key has one version.
    """
    whole = Layer("copy", (part.file.whole(),))
    at = 0
    for window in layer_windows(stores, whole, window_bytes):
        low, high = key_span(window.rows, part.keys, window.low, window.high)
        low = max(low, window.low + row - at)
        at += window.high - window.low
        if low < high:
            # The bound of the window may lie beyond the slice, where the next slice has rows of this file still.
            yield Window(window.rows, low, high, (window.rows.key(high - 1), 1))
