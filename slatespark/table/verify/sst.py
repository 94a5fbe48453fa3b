"""Checks every byte of one SST or WAL file: sections, blocks, rows, and whether they agree.

If one place is damaged, the rest is still checked as far as possible. The window bounds the memory, besides the index
and the filter of one file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from slatespark.errors import CorruptDataError, UnsupportedFormatError
from slatespark.format.block_group import unpack_blocks
from slatespark.format.filter import decode_filter_section
from slatespark.format.index import decode_index_section
from slatespark.format.info import (
    FOOTER_BYTES,
    Footer,
    SstInfo,
    SstType,
    check_section_bounds,
    decode_footer,
    decode_info_section,
    footer_range,
    info_range,
)
from slatespark.format.properties import BlockBounds, SstProperties, decode_properties, gap_range
from slatespark.format.references import SstHandle
from slatespark.format.stats import decode_stats_section
from slatespark.format.wal import END_BYTES, is_of_wal, is_old_fence
from slatespark.kernels import decode_blocks
from slatespark.ranges import ByteRange
from slatespark.storage import read_ahead
from slatespark.storage.object_store import Buffer, ObjectStore
from slatespark.table.read.merge.layer_reads import group_blocks
from slatespark.table.verify.findings import Findings, key_text
from slatespark.table.verify.rows import RowCheck, RowTotals, StatedParts

# What one request fetches besides blocks: all sections of a file, unless its index or filter is very large.
MAX_END_BYTES: Final = 16 << 20
SMALL_FILE_BYTES: Final = 1 << 20  # up to which a request fetches the blocks as well

Outcome = TypeVar("Outcome")


@dataclass(frozen=True, slots=True)
class SstTarget:
    """A file to check.

    Attributes
    ----------
    store, path, size : the object, as listed
    handle : its description in the manifest; None for a WAL file
    """

    store: ObjectStore
    path: str
    size: int
    handle: SstHandle | None = None

    @property
    def url(self) -> str:
        """Address of the object."""
        return f"{self.store.url}/{self.path}"


@dataclass(frozen=True, slots=True)
class SstOutcome:
    """The outcome for a file.

    Attributes
    ----------
    is_sound : no fault was found
    totals : of the rows that could be read
    properties : of the file; None if it has none, or they are damaged
    """

    is_sound: bool
    totals: RowTotals
    properties: SstProperties | None = None


def check_sst(target: SstTarget, findings: Findings, *, window_bytes: int) -> SstOutcome:
    """Read a whole file and note its faults.

    Raises
    ------
    FileNotFoundError, UnavailableError
        From the store.
    """
    before = len(findings.items) + findings.omitted
    totals, properties = _SstCheck(target, findings, window_bytes, _Content(target)).run()
    findings.count(target.size)
    findings.rows += totals.rows
    if target.handle is None:
        findings.wal_rows += totals.rows
    return SstOutcome(len(findings.items) + findings.omitted == before, totals, properties)


class _Content:
    """The bytes of a file. Its sections, which lie at its end, are fetched together, and a small file whole."""

    def __init__(self, target: SstTarget) -> None:
        self._target = target
        end_bytes = END_BYTES if target.handle is None else target.size - target.handle.info.index_offset
        self._is_small = target.size <= SMALL_FILE_BYTES
        wanted = min(max(end_bytes, FOOTER_BYTES), MAX_END_BYTES)
        self._start = 0 if self._is_small else max(0, target.size - wanted)
        self._end: Buffer | None = None

    def read(self, span: ByteRange) -> Buffer:
        """Return some bytes; raises as `get_range`."""
        target = self._target
        if span.end <= span.start or span.start < self._start or span.end > target.size:
            return target.store.get_range(target.path, span)
        if self._end is None:
            self._end = target.store.get_range(target.path, ByteRange(self._start, target.size))
        return memoryview(self._end)[span.start - self._start : span.end - self._start]

    def read_blocks(self, spans: Sequence[ByteRange]) -> Iterator[Buffer]:
        """Yield the bytes of ascending ranges, once the sections are decoded."""
        if self._is_small:
            return map(self.read, spans)
        self._end = None
        return read_ahead(self._target.store, self._target.path, spans)


@dataclass(frozen=True, slots=True)
class _SstCheck:
    target: SstTarget
    findings: Findings
    window_bytes: int
    content: _Content

    def run(self) -> tuple[RowTotals, SstProperties | None]:
        footer = self._footer()
        own_info = None if footer is None else self._own_info(footer)
        handle = self.target.handle
        if handle is not None:
            self._compare(footer, own_info, handle)
            info, version = handle.info, handle.format_version
        elif footer is None or own_info is None:  # of a WAL file the footer is the only source
            return RowTotals(), None
        else:
            info, version = own_info, footer.version
        return self._check_sections(info, version, footer)

    # --- sections ---------------------------------------------------------------------------------------------------

    def _attempt(self, section: str, base: int, step: Callable[[], Outcome]) -> Outcome | None:
        """Return the result of a step; note an error under its section, and return None."""
        try:
            return step()
        except (CorruptDataError, UnsupportedFormatError) as exc:
            self.findings.error(self.target.url, section, exc, base)
            return None

    def _section(self, name: str, span: ByteRange | None, decode: Callable[[Buffer], Outcome]) -> Outcome | None:
        if span is None:
            return None
        return self._attempt(name, span.start, lambda: decode(self.content.read(span)))

    def _footer(self) -> Footer | None:
        span = self._attempt("footer", 0, lambda: footer_range(self.target.size))
        return self._section("footer", span, decode_footer)

    def _own_info(self, footer: Footer) -> SstInfo | None:
        """Return the file's own info."""
        span = self._attempt("footer", self.target.size - FOOTER_BYTES, lambda: info_range(footer, self.target.size))
        info = self._section("info", span, decode_info_section)
        if info is not None:
            self._attempt("info", 0, lambda: check_section_bounds(info, footer.info_offset))
            self._check_type(info, footer.version)
        return info

    def _check_type(self, info: SstInfo, version: int) -> None:
        is_wal = self.target.handle is None
        expected = SstType.WAL if is_wal else SstType.COMPACTED
        if not (is_of_wal(info, version) if is_wal else info.sst_type is expected):
            self.findings.damage(self.target.url, "info", f"The file is {info.sst_type.name}, not {expected.name}.")

    def _compare(self, footer: Footer | None, own: SstInfo | None, handle: SstHandle) -> None:
        """Compare with the copy in the manifest, which readers use (docs/reference/format/sst.md)."""
        differing = [
            f"{item.name} {_shown(getattr(own, item.name))} instead of {_shown(getattr(handle.info, item.name))}"
            for item in fields(SstInfo)
            if own is not None and getattr(own, item.name) != getattr(handle.info, item.name)
        ]
        if footer is not None and footer.version != handle.format_version:
            differing.append(f"format version {footer.version} instead of {handle.format_version}")
        if differing:
            offset = None if footer is None else footer.info_offset
            self.findings.damage(
                self.target.url, "info", f"The file contradicts the manifest: {', '.join(differing)}.", offset
            )

    def _properties(self, info: SstInfo, footer: Footer | None) -> tuple[SstProperties, BlockBounds] | None:
        span = None if footer is None else gap_range(info, footer)
        if span is None or span.end > self.target.size:
            return None
        return self._section("properties", span, decode_properties)

    def _check_sections(
        self, info: SstInfo, version: int, footer: Footer | None
    ) -> tuple[RowTotals, SstProperties | None]:
        is_fence = self.target.handle is None and is_old_fence(info)
        index = self._section(
            "index", info.index_range, lambda data: decode_index_section(data, info, may_be_empty=is_fence)
        )
        filters = self._section("filter", info.filter_range, lambda data: decode_filter_section(data, info))
        stats = self._section("stats", info.stats_range, lambda data: decode_stats_section(data, info))
        properties = self._properties(info, footer)
        stated = None if properties is None else properties[0]
        if index is None:
            self.findings.unchecked(self.target.url, "blocks", "Without the index the data blocks cannot be found.")
            return RowTotals(), stated
        check = RowCheck(StatedParts(info, index, filters, stats, properties), self._report)
        self._check_blocks(check, version)
        return check.finish(), stated

    def _report(self, section: str, offset: int | None, what: str) -> None:
        self.findings.damage(self.target.url, section, what, offset)

    # --- blocks -----------------------------------------------------------------------------------------------------

    def _check_blocks(self, check: RowCheck, version: int) -> None:
        """Feed all blocks to the check, a window at a time."""
        edges = check.parts.index.block_edges(check.parts.info)
        groups = group_blocks(edges, 0, len(edges) - 1, self.window_bytes)
        spans = [ByteRange(int(edges[first]), int(edges[end])) for first, end in groups]
        buffers = self.content.read_blocks(spans)
        for (first, end), span in zip(groups, spans, strict=True):
            try:
                data = np.frombuffer(next(buffers), np.uint8)
            except CorruptDataError as exc:  # the object ends before the last block
                self.findings.error(self.target.url, f"block {first}", exc, span.start)
                check.skip()
                return
            self._check_window(check, data, edges[first : end + 1] - span.start, version, first)

    def _check_window(
        self, check: RowCheck, data: NDArray[np.uint8], edges: NDArray[np.int64], version: int, first_block: int
    ) -> None:
        done = 0
        while done < len(edges) - 1:
            try:
                done += self._decode(check, data, edges[done:], version, first_block + done)
            except (CorruptDataError, UnsupportedFormatError):
                break
        else:
            return
        for block in range(done, len(edges) - 1):  # at least one is damaged
            try:
                self._decode(check, data, edges[block : block + 2], version, first_block + block)
            except (CorruptDataError, UnsupportedFormatError) as exc:
                start = int(edges[block] + check.parts.index.block_offsets[first_block] - edges[0])
                self.findings.error(self.target.url, f"block {first_block + block}", _local(exc), start)
                check.skip()

    def _decode(
        self, check: RowCheck, data: NDArray[np.uint8], edges: NDArray[np.int64], version: int, first_block: int
    ) -> int:
        """Check as many blocks as a decompressed window holds; return their number."""
        info = check.parts.info
        encoded = check.parts.index.encoded_bytes[first_block : first_block + len(edges) - 1]
        opened = unpack_blocks(data, edges, encoded, info.compression, limit_bytes=self.window_bytes)
        ordered = info.sst_type is not SstType.WAL
        rows = decode_blocks(opened.data, opened.starts, opened.ends, version=version, ordered=ordered)
        check.add(rows, opened.starts, first_block)
        return len(opened.starts)


def _local(error: CorruptDataError | UnsupportedFormatError) -> CorruptDataError | UnsupportedFormatError:
    """Return an error about one block without its offset, which may be in decompressed bytes."""
    if isinstance(error, CorruptDataError):
        return CorruptDataError(str(error.args[0]), why=error.why)
    return error


def _shown(value: object) -> str:
    return key_text(value) if isinstance(value, bytes) else str(value)
