"""ReapSurvey: properties and outlines of a table's files, kept between passes and reaps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slatespark.format.manifest import Manifest
from slatespark.format.properties import BlockBounds, SstProperties, bounds_of, join_bounds
from slatespark.format.ulid import Ulid
from slatespark.kernels import gather_fields
from slatespark.kernels.columns import MERGE, TOMBSTONE
from slatespark.storage import run_in_groups
from slatespark.table.read.planning.plan import FileSlice, Layer, SstFile
from slatespark.table.read.section_cache import SectionCache
from slatespark.table.read.versions.file_properties import file_properties
from slatespark.table.retention.expiry_files import fetch_outline, read_blocks
from slatespark.table.retention.expiry_plan import FileOutline
from slatespark.table.retention.plan import DueView, StoredView
from slatespark.table.rows.sst_upload import NewFile
from slatespark.table.stores import OWN_ROOT, TableStores

OUTLINES_BYTES: Final = 64 << 20  # of outlines held; the outline of another client's file costs a full read
PARALLEL_OUTLINES: Final = 8


def outline_cache() -> SectionCache[FileOutline]:
    """Return a cache of outlines of the files of any number of tables."""
    return SectionCache(OUTLINES_BYTES, lambda outline: outline.held_bytes)


@dataclass(slots=True)
class ReapSurvey:
    """Facts of files. Files never change, so each fact is fetched once.

    Attributes
    ----------
    window_bytes : decoded at a time
    known : properties of files
    outlines : fetched recently; several tables may share them
    """

    stores: TableStores
    window_bytes: int
    known: dict[SstFile, SstProperties] = field(default_factory=dict)
    outlines: SectionCache[FileOutline] = field(default_factory=outline_cache)

    def views(self, manifest: Manifest, layers: Sequence[Layer]) -> tuple[StoredView, ...]:
        """Return the views of a manifest, newest first, with file properties from commit records or the files."""
        parts = [part for layer in layers for part in layer.slices]
        if any(part.file not in self.known for part in parts):
            self._update_known(manifest, parts)
            shown = {part.file for part in parts}
            self.known = {file: found for file, found in self.known.items() if file in shown}
        pairs = zip(manifest.views(), parts, strict=True)
        return tuple(StoredView(view, part, self.known.get(part.file)) for view, part in pairs)

    def _update_known(self, manifest: Manifest, parts: Sequence[FileSlice]) -> None:
        recorded = file_properties(self.stores, manifest)
        unknown: dict[SstFile, None] = {}
        for file in (part.file for part in parts if part.file not in self.known):
            found = recorded.get(file.id)
            if file.root == OWN_ROOT and found is not None:
                self.known[file] = found
            else:
                unknown[file] = None
        for file, outline in zip(unknown, self._outlines([*unknown]), strict=True):
            if outline.properties is not None:
                self.known[file] = outline.properties

    def remember(self, files: Sequence[NewFile]) -> None:
        """Remember the properties of new files."""
        self.known.update({file.whole().file: file.properties for file in files})

    def by_id(self) -> Mapping[Ulid, SstProperties]:
        """Return all known properties by file id."""
        return {file.id: found for file, found in self.known.items()}

    def outline(self, file: SstFile) -> FileOutline:
        """Return the outline of a file."""
        store = self.stores.at(file.root)
        return self.outlines.get(
            store, file.path, lambda: survey_file(self.stores, file, window_bytes=self.window_bytes)
        )

    def due_outlines(self, due: Sequence[DueView]) -> Iterator[tuple[DueView, FileOutline]]:
        """Yield views with the outlines of their files."""
        yield from zip(due, self._outlines([view.stored.part.file for view in due]), strict=True)

    def _outlines(self, files: Sequence[SstFile]) -> Iterator[FileOutline]:
        """Return the outlines of files; fetches a few at a time."""
        is_remote = self.stores.main.is_remote
        found = run_in_groups(self.outline, files, is_remote=is_remote, size=PARALLEL_OUTLINES)
        return (outline for _, outline in found)


def survey_file(stores: TableStores, file: SstFile, *, window_bytes: int) -> FileOutline:
    """Return the outline of a file, with properties. If the file has none, all of its rows are read.

    That includes rows outside the views: properties must hold for any view of the file.

    Parameters
    ----------
    window_bytes : decoded at a time
    """
    outline = fetch_outline(stores, file)
    if outline.properties is not None:
        return outline
    count = len(outline.index)
    parts: list[BlockBounds] = []
    sums = _Sums(np.zeros(count, np.int64), np.zeros(count, np.int64))
    for first, rows, first_rows in read_blocks(stores, file, outline, ((0, count),), window_bytes=window_bytes):
        fields = gather_fields([rows], np.arange(len(rows), dtype=np.int64))
        parts.append(bounds_of(fields, first_rows))
        sums.add(slice(first, first + len(first_rows)), fields.seqs, fields.flags, first_rows)
    bounds = join_bounds(parts)
    properties = sums.properties(bounds, file.id.timestamp_ms)
    return replace(
        outline, properties=properties, bounds=bounds, block_rows=sums.block_rows, block_deletes=sums.block_deletes
    )


@dataclass(slots=True)
class _Sums:
    """Running counts of the rows of a file."""

    block_rows: NDArray[np.int64]
    block_deletes: NDArray[np.int64]
    merges: int = 0
    min_seq: int = (1 << 64) - 1
    max_seq: int = 0

    def add(
        self, span: slice, seqs: NDArray[np.uint64], flags: NDArray[np.uint8], first_rows: NDArray[np.int64]
    ) -> None:
        self.block_rows[span] = np.diff(first_rows, append=len(flags))
        self.block_deletes[span] = np.add.reduceat(((flags & TOMBSTONE) != 0).astype(np.int64), first_rows)
        self.merges += int(((flags & MERGE) != 0).sum())
        self.min_seq, self.max_seq = min(self.min_seq, int(seqs.min())), max(self.max_seq, int(seqs.max()))

    def properties(self, bounds: BlockBounds, created_ms: int) -> SstProperties:
        rows, deletes = int(self.block_rows.sum()), int(self.block_deletes.sum())
        counts = rows - deletes - self.merges, deletes, self.merges
        return SstProperties.of_blocks(bounds, counts=counts, seqs=(self.min_seq, self.max_seq), created_ms=created_ms)
