"""The expiry report of a table: from file properties if they are sufficient, else from the rows of some blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from slatespark.errors import OptionError
from slatespark.format.paths import wal_path
from slatespark.format.properties import SstProperties
from slatespark.format.wal import decode_wal
from slatespark.kernels import key_span
from slatespark.options import Call, ReadOptions
from slatespark.options.values import parse_choice
from slatespark.storage import run_in_groups
from slatespark.table.clock import Clock
from slatespark.table.read.merge.cursor import window_size
from slatespark.table.read.planning.layers import fetch_layers
from slatespark.table.read.planning.plan import FileSlice, SstFile
from slatespark.table.read.reader import resolve_table
from slatespark.table.read.section_cache import SectionCache
from slatespark.table.read.versions.file_properties import MAX_COMMIT_RECORDS, recorded_properties
from slatespark.table.retention.expiry_files import fetch_outline, read_blocks
from slatespark.table.retention.expiry_plan import (
    PERIODS,
    ExpirySlots,
    FileOutline,
    choose_period,
    find_file_slot,
    last_slot,
    plan_blocks,
)
from slatespark.table.retention.expiry_tally import ExpiryReport, ExpiryTally, count_rows, list_parts
from slatespark.table.snapshot import Snapshot
from slatespark.table.stores import OWN_ROOT, TableStores, object_context
from slatespark.units import HOUR_MS

PARALLEL_OUTLINES: Final = 8  # each takes the memory of an index
OUTLINES_BYTES: Final = 16 << 20  # of outlines held
REQUESTS_PER_FILE: Final = 2  # size and last sections; a commit record costs one


def report_expiry(stores: TableStores, options: ReadOptions, clock: Clock, *, per: str | None = None) -> ExpiryReport:
    """Return when the row versions stored in a snapshot expire, including hidden ones.

    Parameters
    ----------
    stores, clock : the table, and the default of `now`
    options : which snapshot, and `now`; `readBuffer` bounds the memory for blocks
    per : `hour` or `day`; by default hours if everything expires within three days of `now`

    Raises
    ------
    TableNotFoundError, HistoryTrimmedError, OptionError
        When there is no such table or snapshot, or an option would leave rows out.
    CorruptDataError, UnsupportedFormatError, SnapshotExpiredError
        When a file is damaged or gone.
    """
    if per is not None:
        per = parse_choice(*PERIODS)(per, "per")
    options.require_options_of(Call.EXPIRY, "The expiry report of a table")
    snapshot, definition = resolve_table(stores, options, clock)
    if snapshot.as_of_ts_ms is not None:
        raise OptionError(
            "timestampAsOf: the expiry report is of a whole table.",
            why="On a history table the option leaves rows out.",
            todo="Give now, or versionAsOf.",
        )
    shown: dict[SstFile, list[FileSlice]] = {}
    for layer in fetch_layers(stores, snapshot.manifest):
        for part in layer.slices:
            shown.setdefault(part.file, []).append(part)
    window_bytes = window_size(options.read_buffer_bytes, 1)
    return _ExpiryCount(stores, snapshot, definition.retention_ms, shown, window_bytes).run(per)


@dataclass(slots=True)
class _ExpiryCount:
    """Counts the rows of a snapshot for a report.

    Attributes
    ----------
    retention_ms : retention of the table; None if it keeps rows forever
    shown : the slices of every file
    files_read, blocks, blocks_read : see `ExpiryReport`
    outlines : fetched recently
    """

    stores: TableStores
    snapshot: Snapshot
    retention_ms: int | None
    shown: dict[SstFile, list[FileSlice]]
    window_bytes: int
    files_read: set[SstFile] = field(default_factory=set)
    blocks: int = 0
    blocks_read: int = 0
    outlines: SectionCache[FileOutline] = field(
        default_factory=lambda: SectionCache(OUTLINES_BYTES, lambda outline: outline.held_bytes)
    )

    def run(self, per: str | None) -> ExpiryReport:
        # Files without properties come first, by the hour: the expiry of their rows decides the period of the report.
        slots = ExpirySlots(self.snapshot.now_ms, HOUR_MS, self.retention_ms)
        files, wal = ExpiryTally.of_slots(slots), ExpiryTally.of_slots(slots)
        known = self._recorded()
        for file, outline in self._outlines([file for file in self.shown if file not in known]):
            if outline.properties is not None:
                known[file] = outline.properties
            else:
                self._count_file(file, outline, slots, files)
        self._count_wal(slots, wal)
        if per is None:
            ends = [
                files.last_period(slots),
                wal.last_period(slots),
                *(last_slot(known[file], slots) for file in known),
            ]
            per = choose_period(slots, max(ends))
        if per == "day":
            files, wal = files.by_day(slots), wal.by_day(slots)
            slots = ExpirySlots(self.snapshot.now_ms, PERIODS[per], self.retention_ms)
        self._count_known(known, slots, files)
        return self._report(per, slots, files, wal)

    def _report(self, per: str, slots: ExpirySlots, files: ExpiryTally, wal: ExpiryTally) -> ExpiryReport:
        parts = list_parts(slots, files, wal)
        return ExpiryReport(
            url=self.stores.url,
            version=self.snapshot.manifest_id,
            now_ms=self.snapshot.now_ms,
            per=per,
            rows=sum(part.rows for part in parts),
            stored_bytes=sum(part.stored_bytes for part in parts),
            parts=parts,
            files=len(self.shown),
            files_read=len(self.files_read),
            blocks=self.blocks,
            blocks_read=self.blocks_read,
            retention_ms=self.retention_ms,
        )

    # --- files --------------------------------------------------------------------------------------------------------

    def _recorded(self) -> dict[SstFile, SstProperties]:
        """Return properties from commit records; reads no more records than reading the files would cost requests."""
        own = {file.id: file for file in self.shown if file.root == OWN_ROOT}
        handles = [file.handle for file in own.values()]
        limit = min(MAX_COMMIT_RECORDS, REQUESTS_PER_FILE * len(own))
        found = recorded_properties(self.stores, handles, limit=limit)
        return {own[sst_id]: properties for sst_id, properties in found.items()}

    def _count_known(self, known: dict[SstFile, SstProperties], slots: ExpirySlots, tally: ExpiryTally) -> None:
        """Count slatespark's own files: as a whole if all rows are in one slot, else block by block."""
        mixed = []
        for file, properties in known.items():
            slot, parts = find_file_slot(properties, slots), self.shown[file]
            if slot is not None and len(parts) == 1 and parts[0].is_whole:
                tally.add(slot, properties.num_rows, file.data_bytes)
            else:
                mixed.append(file)
        for file, outline in self._outlines(mixed):
            self._count_file(file, outline, slots, tally)

    def _count_file(self, file: SstFile, outline: FileOutline, slots: ExpirySlots, tally: ExpiryTally) -> None:
        for part in self.shown[file]:
            plan = plan_blocks(part, outline, slots)
            tally.add(plan.slots, plan.rows, plan.stored_bytes)
            self.blocks += plan.blocks
            for first, rows, first_rows in read_blocks(
                self.stores, file, outline, plan.reads, window_bytes=self.window_bytes
            ):
                shown = slots.of_rows(rows)
                low, high = key_span(rows, part.keys)
                shown[:low] = shown[high:] = slots.hidden
                sizes = np.diff(outline.edges[first : first + len(first_rows) + 1])
                count_rows(tally, shown, rows, first_rows, sizes)
                self.files_read.add(file)
                self.blocks_read += len(first_rows)

    def _outlines(self, files: Sequence[SstFile]) -> Iterator[tuple[SstFile, FileOutline]]:
        """Return files with their outlines; fetches a few at a time."""
        is_remote = self.stores.main.is_remote
        return run_in_groups(self._outline, files, is_remote=is_remote, size=PARALLEL_OUTLINES)

    def _outline(self, file: SstFile) -> FileOutline:
        """Return the outline of a file, which is usually cached the second time."""
        return self.outlines.get(self.stores.at(file.root), file.path, lambda: fetch_outline(self.stores, file))

    # --- the WAL ------------------------------------------------------------------------------------------------------

    def _count_wal(self, slots: ExpirySlots, tally: ExpiryTally) -> None:
        """Count the rows of the WAL that are not in the trees; a file is divided like a block."""
        tail, above_seq = self.snapshot.wal, np.uint64(self.snapshot.manifest.last_l0_seq)
        for number in range(tail.start, tail.end):
            path = wal_path(number)
            with object_context(self.stores.wal, path):
                data = bytes(self.stores.wal.get(path))
                rows = decode_wal(data) if data else None  # an empty object is a fence
            if rows is None or not len(rows):
                continue
            found = np.where(rows.seqs > above_seq, slots.of_rows(rows), slots.hidden)
            count_rows(tally, found, rows, np.zeros(1, np.int64), np.array([len(data)], np.int64))
