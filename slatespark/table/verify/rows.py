"""Compares the rows of one file with its other parts: index, filter, statistics, properties, first and last key.

Takes decoded blocks, a window at a time. Every kind of fault is reported once per file or block, with a count, so that
a broken filter is one finding, not a million.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from slatespark.format.filter import FilterSet
from slatespark.format.index import SstIndex
from slatespark.format.info import SstInfo, SstType
from slatespark.format.properties import BlockBounds, SstProperties, bounds_of, join_bounds
from slatespark.format.stats import SstStats
from slatespark.format.wal import SEQ_BYTES
from slatespark.kernels import gather_keys, hash_keys, new_key_mask, sort_rows
from slatespark.kernels.columns import MERGE, TOMBSTONE, RowColumns, packed_rows
from slatespark.kernels.results import Fields
from slatespark.table.verify.findings import key_text

Report: TypeAlias = Callable[[str, int | None, str], None]  # takes section, offset, what


@dataclass(frozen=True, slots=True)
class RowTotals:
    """Totals of the rows of a file; first and last are in file order."""

    rows: int = 0
    first_seq: int | None = None
    last_seq: int | None = None
    max_seq: int | None = None
    min_seq: int | None = None


@dataclass(frozen=True, slots=True)
class StatedParts:
    """The other parts of a file; None for a part that is missing or damaged."""

    info: SstInfo
    index: SstIndex
    filters: FilterSet | None
    stats: SstStats | None
    properties: tuple[SstProperties, BlockBounds] | None


@dataclass(slots=True)
class RowCheck:
    """Compares rows with the other parts of the file, window by window."""

    parts: StatedParts
    report: Report
    is_whole: bool = True  # False once a block could not be read: then sums are not compared
    rows: int = 0
    key_bytes: int = 0
    value_bytes: int = 0
    denied: int = 0
    first_denied: bytes = b""
    first_seq: int | None = None
    last_seq: int | None = None
    min_seq: int | None = None
    max_seq: int | None = None
    last_key: bytes | None = None
    is_gap_behind: bool = False  # the block before could not be read
    counts: list[NDArray[np.uint16]] = field(default_factory=list)
    bounds: list[BlockBounds] = field(default_factory=list)

    def skip(self) -> None:
        """Note that a block could not be read."""
        self.is_whole, self.is_gap_behind = False, True

    def add(self, rows: RowColumns, starts: NDArray[np.int64], first_block: int) -> None:
        """Check the rows of consecutive blocks.

        Parameters
        ----------
        rows : from `decode_blocks`
        starts : start of each block's payload in `rows.value_bytes`
        first_block : number of the first block
        """
        # A value, even an empty one, lies in its block, so value_starts ascend, and give the first row of a block.
        first_rows = np.searchsorted(rows.value_starts, starts)
        if self.parts.info.sst_type is SstType.WAL:
            self._check_wal(rows, first_rows, first_block)
        else:
            self._check_order(rows, first_block)
            self._check_separators(rows, first_rows, first_block)
            self._check_ends(rows, first_block)
        self._probe(rows)
        self._sum(rows, first_rows)

    def finish(self) -> RowTotals:
        """Compare the sums, and return the totals."""
        if self.denied:
            self._fault(
                "filter",
                f"It denies {self.denied} of {self.rows} existing keys, first {key_text(self.first_denied)}.",
            )
        if self.is_whole and self.rows:
            self._check_stats()
            self._check_properties()
        return RowTotals(self.rows, self.first_seq, self.last_seq, self.max_seq, self.min_seq)

    def _fault(self, section: str, what: str) -> None:
        info = self.parts.info
        spans = {"index": info.index_range, "filter": info.filter_range, "stats": info.stats_range}
        span = spans.get(section)
        self.report(section, None if span is None else span.start, what)

    def _block_fault(self, block: int, what: str) -> None:
        self.report(f"block {block}", int(self.parts.index.block_offsets[block]), what)

    # --- order ------------------------------------------------------------------------------------------------------

    def _check_order(self, rows: RowColumns, block: int) -> None:
        """Compare with the last row of the previous window; the decoder has checked the order inside a window."""
        key, seq = rows.key(0), int(rows.seqs[0])
        if np.diff(rows.key_offsets).min() == 0:
            self._block_fault(block, "A row in or after this block has an empty key.")
        if self.last_key is None or self.last_seq is None:
            return
        if (key, -seq) <= (self.last_key, -self.last_seq):
            self._block_fault(
                block,
                f"It starts with key {key_text(key)} at seq {seq}, not after key {key_text(self.last_key)} at seq "
                f"{self.last_seq} of the block before.",
            )

    def _check_wal(self, rows: RowColumns, first_rows: NDArray[np.int64], first_block: int) -> None:
        """Check that seqs ascend, and that the index names the first one of each block.

        See docs/reference/format/wal.md.
        """
        falls = np.flatnonzero(rows.seqs[1:] < rows.seqs[:-1])
        falls_at_start = self.last_seq is not None and int(rows.seqs[0]) < self.last_seq
        if len(falls) or falls_at_start:
            at = 0 if falls_at_start else int(falls[0]) + 1
            block = first_block + int(np.searchsorted(first_rows, at, side="right")) - 1
            self._block_fault(block, f"A row has seq {int(rows.seqs[at])}, below that of the row before.")
        for number, row in enumerate(first_rows.tolist(), first_block):
            found, expected = self.parts.index.first_key(number), int(rows.seqs[row]).to_bytes(SEQ_BYTES, "big")
            if found != expected:
                self._fault(
                    "index", f"Block {number} is listed as {key_text(found)}, its first seq is {expected.hex()}."
                )
        if first_block == 0 and self.parts.info.first_entry != int(rows.seqs[0]).to_bytes(SEQ_BYTES, "big"):
            entry = self.parts.info.first_entry
            self._fault("info", f"It names the first seq {key_text(entry)}, expected {int(rows.seqs[0])}.")

    def _check_separators(self, rows: RowColumns, first_rows: NDArray[np.int64], first_block: int) -> None:
        """Check that an index search finds every key: last key before < separator <= first key.

        See docs/reference/format/sst-index.md.
        """
        one_by_one = first_rows[:1] if self._separators_fit(rows, first_rows, first_block) else first_rows
        for number, row in enumerate(one_by_one.tolist(), first_block):
            key = rows.key(row)
            before = rows.key(row - 1) if row else None if self.is_gap_behind else self.last_key
            found = self.parts.index.first_key(number)
            spans = before == key  # versions of one key span blocks
            if found > key or (before is not None and (found < before or (found == before and not spans))):
                bounds = f"expected above {key_text(before)} and up to {key_text(key)}"
                self._fault("index", f"Block {number} is listed from {key_text(found)}, {bounds}.")

    def _separators_fit(self, rows: RowColumns, first_rows: NDArray[np.int64], first_block: int) -> bool:
        """Tell whether all blocks but the first one pass `_check_separators`."""
        index, firsts = self.parts.index, first_rows[1:]
        start, end = first_block + 1, first_block + len(first_rows)
        separators = RowColumns.of_keys(index.key_bytes, index.key_offsets[start : end + 1])
        edges = np.stack([firsts - 1, packed_rows(1, len(firsts)), firsts], axis=1)  # key before, separator, first key
        offsets, key_bytes = gather_keys([rows, separators], edges.ravel())
        keys = RowColumns.of_keys(key_bytes, offsets.astype(np.int64))
        numbers = np.arange(edges.size, dtype=np.int64)
        if not np.array_equal(sort_rows(keys), numbers):
            return False
        is_new = new_key_mask([keys], numbers).reshape(edges.shape)
        return not (is_new[:, 2] & ~is_new[:, 1]).any()

    def _check_ends(self, rows: RowColumns, first_block: int) -> None:
        info, first, last = self.parts.info, rows.key(0), rows.key(len(rows) - 1)
        if info.first_entry is not None and first < info.first_entry:
            self._block_fault(
                first_block, f"Key {key_text(first)} is below the file's first, {key_text(info.first_entry)}."
            )
        if info.last_entry is not None and last > info.last_entry:
            self._block_fault(
                first_block, f"Key {key_text(last)} is above the file's last, {key_text(info.last_entry)}."
            )

    # --- sums -------------------------------------------------------------------------------------------------------

    def _probe(self, rows: RowColumns) -> None:
        if self.parts.filters is None:
            return
        missing = ~self.parts.filters.probe(hash_keys([rows], np.arange(len(rows), dtype=np.int64)))
        if missing.any() and not self.denied:
            self.first_denied = rows.key(int(np.argmax(missing)))
        self.denied += int(missing.sum())

    def _sum(self, rows: RowColumns, first_rows: NDArray[np.int64]) -> None:
        low, high = int(rows.seqs.min()), int(rows.seqs.max())
        self.min_seq = low if self.min_seq is None else min(self.min_seq, low)
        self.max_seq = high if self.max_seq is None else max(self.max_seq, high)
        self.first_seq = int(rows.seqs[0]) if self.first_seq is None else self.first_seq
        self.last_seq, self.last_key = int(rows.seqs[-1]), rows.key(len(rows) - 1)
        self.is_gap_behind = False
        self.rows += len(rows)
        self.key_bytes += int(rows.key_offsets[len(rows)] - rows.key_offsets[0])
        self.value_bytes += int(rows.value_lengths.sum())
        deletes, merges = (rows.flags & TOMBSTONE) != 0, (rows.flags & MERGE) != 0
        kinds = np.stack([~(deletes | merges), deletes, merges], axis=1)
        self.counts.append(np.add.reduceat(kinds, first_rows, axis=0, dtype=np.uint16))
        if self.parts.properties is not None:
            self.bounds.append(bounds_of(Fields(rows.seqs, rows.flags, rows.create_ts, rows.expire_ts), first_rows))

    def _kinds(self) -> tuple[int, int, int]:
        puts, deletes, merges = np.concatenate(self.counts).sum(axis=0, dtype=np.int64).tolist()
        return puts, deletes, merges

    def _check_stats(self) -> None:
        stats = self.parts.stats
        if stats is None:
            return
        found = (*self._kinds(), self.key_bytes, self.value_bytes)
        stated = (stats.num_puts, stats.num_deletes, stats.num_merges, stats.raw_key_size, stats.raw_val_size)
        names = ("puts", "deletes", "merges", "key bytes", "value bytes")
        for name, said, is_there in zip(names, stated, found, strict=True):
            if said != is_there:
                self._fault("stats", f"It counts {said} {name}, there are {is_there}.")
        counts = np.concatenate(self.counts)
        if len(stats.block_counts) not in (0, len(counts)):
            self._fault("stats", f"It has counts of {len(stats.block_counts)} blocks, there are {len(counts)}.")
        elif len(stats.block_counts) and (wrong := (stats.block_counts != counts).any(axis=1)).any():
            self._fault("stats", f"Its counts are wrong for {int(wrong.sum())} blocks, first {int(np.argmax(wrong))}.")

    def _check_properties(self) -> None:
        if self.parts.properties is None or self.min_seq is None or self.max_seq is None:
            return
        stated, block_bounds = self.parts.properties
        bounds = join_bounds(self.bounds)
        found = SstProperties.of_blocks(
            bounds,
            counts=self._kinds(),
            seqs=(self.min_seq, self.max_seq),
            created_ms=stated.created_ms,
        )
        for name, value in asdict(found).items():
            if name != "all_versions" and getattr(stated, name) != value:
                self._fault("properties", f"{name} is stated as {getattr(stated, name)}, it is {value}.")
        if any(not np.array_equal(getattr(block_bounds, f.name), getattr(bounds, f.name)) for f in fields(BlockBounds)):
            self._fault("properties", "The bounds per block do not match the rows.")
