"""A model of the expiry report: counts every row of every block, one by one."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from slatespark.format.block_group import unpack_blocks
from slatespark.format.index import decode_index_section
from slatespark.format.info import Footer, decode_footer, encode_footer, footer_range
from slatespark.format.manifest import Manifest
from slatespark.format.manifest_codec import encode_manifest
from slatespark.format.paths import manifest_path, wal_path
from slatespark.format.references import BytesRange, SortedRun, SstHandle, SstMap, SstView
from slatespark.format.row import Row, RowKind
from slatespark.format.sst import layout_of
from slatespark.format.ulid import Ulid
from slatespark.format.wal import decode_wal
from slatespark.kernels.reference.decode import decode_blocks
from slatespark.ranges import KeyRange
from slatespark.table.read.planning.plan import FileSlice, Layer
from slatespark.table.retention.expiry_tally import ExpiryReport
from slatespark.table.stores import TableStores
from tests.support.row_values import columns_to_rows
from tests.support.wal_files import encode_wal

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
HORIZON_MS = 3660 * DAY_MS

Place: TypeAlias = tuple[int, int]  # ordered: expired, the start of a period, beyond the horizon, never, not shown
EXPIRED, TIME, LATER, NEVER, HIDDEN = range(5)


@dataclass
class Model:
    """Counts rows of files and of the WAL.

    Parameters
    ----------
    now_ms, width_ms : what has expired, and the length of a period
    retention_ms : of the table
    """

    now_ms: int
    width_ms: int
    retention_ms: int | None = None
    rows: Counter[Place] = field(default_factory=Counter)
    stored_bytes: Counter[Place] = field(default_factory=Counter)
    wal_rows: Counter[Place] = field(default_factory=Counter)
    wal_bytes: Counter[Place] = field(default_factory=Counter)

    def place(self, row: Row) -> Place:
        ends = [] if row.expire_ts_ms is None else [row.expire_ts_ms]
        if self.retention_ms is not None and row.create_ts_ms is not None and row.kind is not RowKind.DELETE:
            ends += [end for end in [row.create_ts_ms + self.retention_ms] if end < 2**63]
        expire = min(ends, default=None)
        if expire is None:
            return NEVER, 0
        if expire <= self.now_ms:
            return EXPIRED, 0
        if expire >= self.now_ms // DAY_MS * DAY_MS + HORIZON_MS:
            return LATER, self.now_ms // DAY_MS * DAY_MS + HORIZON_MS
        return TIME, expire // self.width_ms * self.width_ms

    def add_block(self, rows: Iterable[tuple[Row, bool]], size: int, *, wal: bool = False) -> None:
        """Count the rows of a block; the flags say which are visible."""
        counts: Counter[Place] = Counter()
        weights: dict[Place, int] = defaultdict(int)
        for row, shown in rows:
            place = self.place(row) if shown else (HIDDEN, 0)
            counts[place] += 1
            weights[place] += max(len(row.key) + len(row.value), 1)
        reached = running = 0
        for place in sorted(counts):
            running += weights[place]
            upto = size * running // sum(weights.values())
            self.rows[place] += counts[place]
            self.stored_bytes[place] += upto - reached
            if wal:
                self.wal_rows[place] += counts[place]
                self.wal_bytes[place] += upto - reached
            reached = upto

    def add_slice(self, stores: TableStores, part: FileSlice) -> None:
        """Count the rows of a slice."""
        info = part.file.info
        data = bytes(stores.at(part.file.root).get(part.file.path))
        index = decode_index_section(data[info.index_range.start : info.index_range.end], info)
        for number, (start, end) in enumerate(itertools.pairwise(index.block_edges(info).tolist())):
            edges, encoded = np.array([0, end - start], np.int64), index.encoded_bytes[number : number + 1]
            block = unpack_blocks(
                np.frombuffer(data[start:end], np.uint8), edges, encoded, info.compression, limit_bytes=1 << 40
            )
            rows = decode_blocks(block.data, block.starts, block.ends, version=part.file.format_version)
            self.add_block(((row, part.keys.contains(row.key)) for row in columns_to_rows(rows)), end - start)

    def add_wal(self, stores: TableStores, numbers: Iterable[int], above_seq: int) -> None:
        """Count WAL files."""
        for number in numbers:
            data = bytes(stores.wal.get(wal_path(number)))
            if data:
                rows = columns_to_rows(decode_wal(data))
                self.add_block(((row, row.seq > above_seq) for row in rows), len(data), wal=True)

    def parts(self) -> list[tuple[object, ...]]:
        """Rows in the form of `report_parts`."""
        used = sorted({place for place, rows in self.rows.items() if rows and place[0] in (TIME, LATER)})
        return [
            (
                {EXPIRED: "expired", NEVER: "never"}.get(place[0], "expires"),
                place[1] if place[0] in (TIME, LATER) else None,
                place[1] + self.width_ms if place[0] == TIME else None,
                *(counts[place] for counts in (self.rows, self.stored_bytes, self.wal_rows, self.wal_bytes)),
            )
            for place in ((EXPIRED, 0), *used, (NEVER, 0))
        ]


def report_parts(report: ExpiryReport) -> list[tuple[object, ...]]:
    """The parts of a report as plain tuples."""
    return [
        (part.state, part.start_ms, part.end_ms, part.rows, part.stored_bytes, part.wal_rows, part.wal_bytes)
        for part in report.parts
    ]


# --- tables by hand -------------------------------------------------------------------------------------------------


def strip_properties(stores: TableStores, part: FileSlice) -> None:
    """Turn a file into one of another client: without our properties."""
    data = bytes(stores.main.get(part.file.path))
    footer = decode_footer(data[footer_range(len(data)).start :])
    layout = layout_of(part.file.info, footer, len(data))
    bare = data[: layout.gap.start] + data[layout.info.start : layout.info.end]
    stores.main.put(part.file.path, [bare + encode_footer(Footer(layout.gap.start, footer.version))])


def publish_layers(stores: TableStores, layers: Sequence[Layer], wal: Sequence[Sequence[Row]] = ()) -> None:
    """Publish manifest 1 with layers, newest first; WAL files hold the rows of higher seqs."""
    handles = {
        part.file.id: SstHandle(part.file.id, part.file.info, part.file.format_version)
        for layer in layers
        for part in layer.slices
    }
    views = itertools.count(1)
    runs = tuple(
        SortedRun(
            len(layers) - number,
            tuple(SstView(Ulid(next(views)), part.file.id, BytesRange.of(part.keys)) for part in layer.slices),
        )
        for number, layer in enumerate(layers)
    )
    in_trees = min((row.seq for rows in wal for row in rows), default=1001) - 1
    manifest = Manifest(ssts=SstMap(handles.values()), compacted=runs, last_l0_seq=in_trees, wal_id_last_seen=len(wal))
    stores.main.put(manifest_path(1), [encode_manifest(manifest)])
    for number, rows in enumerate(wal, 1):
        stores.wal.put(wal_path(number), [encode_wal(rows) if rows else b""])


def cut(part: FileSlice, keys: KeyRange) -> FileSlice:
    """A view of a part of a slice."""
    return FileSlice(part.file, part.keys.intersect(keys))
