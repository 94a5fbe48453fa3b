"""The change feed between two manifests made by hand: files kept, cut, moved, rewritten, lost and come back."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark import SlateStore
from slatespark.format.manifest import Manifest
from slatespark.format.manifest_codec import encode_manifest
from slatespark.format.paths import manifest_path, wal_path
from slatespark.format.references import BytesRange, SortedRun, SstHandle, SstMap, SstView
from slatespark.format.row import Row, RowKind
from slatespark.format.ulid import Ulid
from slatespark.ranges import KeyRange
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.definition.versions import publish_definition
from slatespark.table.log.versioned_object import Version as DefinitionVersion
from slatespark.table.read.planning.plan import FileSlice
from slatespark.table.stores import TableStores
from tests.support.effort import examples
from tests.support.fake_clock import FakeClock
from tests.support.feeds import check_feed, check_ignored
from tests.support.wal_files import encode_wal
from tests.unit.table.layers import new_stores, put_file
from tests.unit.table.retention.expiry_model import strip_properties

KEYS = [b"a", b"b", b"bb", b"c", b"d", b"\xff"]
KINDS = [RowKind.PUT, RowKind.PUT, RowKind.PUT, RowKind.DELETE, RowKind.MERGE]
TICK_MS = 1000
PRESENT_MS = 100_000


@dataclass(frozen=True)
class Part:
    """A view of a file, and the rows that it shows."""

    part: FileSlice
    rows: tuple[Row, ...]

    def cut(self, keys: KeyRange) -> Part:
        shown = FileSlice(self.part.file, self.part.keys.intersect(keys))
        return Part(shown, tuple(row for row in self.rows if keys.contains(row.key)))


Layers = list[list[Part]]  # newest first; each may hold any key


class Maker:
    """Draws layers and what becomes of them."""

    def __init__(self, data: st.DataObject, stores: TableStores) -> None:
        self.draw, self.stores = data.draw, stores
        self.seq = 100

    def layers(self) -> Layers:
        return [self.new_layer() for _ in range(self.draw(st.integers(0, 3)))][::-1]

    def new_layer(self) -> list[Part]:
        keys = self.draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=5, unique=True))
        return self.stored(
            [self.row(key) for key in sorted(keys) for _ in range(self.draw(st.sampled_from([1, 1, 2])))]
        )

    def row(self, key: bytes, kinds: Sequence[RowKind] = KINDS) -> Row:
        """A new row; of one key the newest one comes first in a file, so the numbers fall."""
        self.seq += 1
        kind = self.draw(st.sampled_from(kinds))
        ends = self.draw(st.sampled_from([None, None, TICK_MS - 20, TICK_MS + 20, TICK_MS + 70]))
        value = self.draw(st.sampled_from([b"same", b"%d" % self.seq]))
        made_ms = TICK_MS + self.draw(st.sampled_from([-300, -100, -50, 0]))
        is_delete = kind is RowKind.DELETE
        return Row(key, self.seq, kind, b"" if is_delete else value, made_ms, None if is_delete else ends)

    def stored(self, rows: list[Row]) -> list[Part]:
        ordered = sorted(rows, key=lambda row: (row.key, -row.seq))
        at = self.draw(st.integers(0, len(ordered)))
        cut = at if 0 < at < len(ordered) and ordered[at - 1].key != ordered[at].key else len(ordered)
        return [self.file(some) for some in (ordered[:cut], ordered[cut:]) if some]

    def file(self, rows: list[Row]) -> Part:
        part = put_file(self.stores, rows, block_size=self.draw(st.sampled_from([1, 60, 4096])))
        if self.draw(st.integers(0, 3)) == 0:
            strip_properties(self.stores, part)
        return Part(part, tuple(rows))

    # --- what becomes of layers -----------------------------------------------------------------------------------

    def changed(self, layers: Layers) -> Layers:
        for _ in range(self.draw(st.integers(1, 4))):
            step = self.draw(st.sampled_from(["add", "merge", "merge", "cut", "drop", "below", "rewrite", "rewrite"]))
            layers = getattr(self, step)(layers)
        return [layer for layer in layers if layer]

    def add(self, layers: Layers) -> Layers:
        return [self.new_layer(), *layers]

    def merge(self, layers: Layers) -> Layers:
        """A compaction: hidden versions go or stay, tombstones too where nothing lies below."""
        if not layers:
            return layers
        start = self.draw(st.integers(0, len(layers) - 1))
        end = self.draw(st.integers(start + 1, len(layers)))
        rows = [row for layer in layers[start:end] for part in layer for row in part.rows]
        kept: list[Row] = []
        for _, group in itertools.groupby(sorted(rows, key=lambda row: (row.key, -row.seq)), key=lambda row: row.key):
            kept += self.retained(list(group), is_lowest=end == len(layers))
        return [*layers[:start], self.stored(kept) if kept else [], *layers[end:]]

    def retained(self, versions: list[Row], *, is_lowest: bool) -> list[Row]:
        if self.draw(st.booleans()):
            return versions
        base = next((at for at, row in enumerate(versions) if row.kind is not RowKind.MERGE), len(versions) - 1)
        kept = versions[: base + 1]
        if is_lowest and kept[-1].kind is RowKind.DELETE:
            kept = kept[:-1]
        ended = self.draw(st.booleans())
        return [self.purged(row) if ended else row for row in kept]

    @staticmethod
    def purged(row: Row) -> Row:
        """An expired row becomes a tombstone, as compactions make them."""
        if row.kind is not RowKind.PUT or row.expire_ts_ms is None or row.expire_ts_ms > TICK_MS:
            return row
        return replace(row, kind=RowKind.DELETE, value=b"", expire_ts_ms=None)

    def cut(self, layers: Layers) -> Layers:
        """A replaced range, or a restored one."""
        low, high = sorted(self.draw(st.lists(st.sampled_from(KEYS), min_size=2, max_size=2, unique=True)))
        outside = [KeyRange(b"", low), KeyRange(high, None)]
        return [[some for part in layer for keys in outside if (some := part.cut(keys)).rows] for layer in layers]

    def drop(self, layers: Layers) -> Layers:
        at = self.draw(st.integers(0, max(0, len(layers) - 1)))
        return [*layers[:at], *layers[at + 1 :]]

    def below(self, layers: Layers) -> Layers:
        """Rows that come with low numbers: insert if absent, beside a live client."""
        keys = sorted(self.draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=3, unique=True)))
        lowest = min((row.seq for layer in layers for part in layer for row in part.rows), default=100)
        rows = [replace(self.row(key), seq=lowest - 1 - number) for number, key in enumerate(keys)]
        return [*layers, self.stored(rows)]

    def rewrite(self, layers: Layers) -> Layers:
        """A load at the numbers of its sources, or a filter: other values under the same numbers."""
        if not layers:
            return layers
        at = self.draw(st.integers(0, len(layers) - 1))
        rows = [row for part in layers[at] for row in part.rows]
        changed = [replace(row, value=b"new") if row.value and self.draw(st.booleans()) else row for row in rows]
        return [*layers[:at], self.stored(changed) if changed else [], *layers[at + 1 :]]


def as_manifest(layers: Layers, tick_ms: int, last_seq: int, *, replay_after: int, seen: int) -> Manifest:
    views = itertools.count(1)
    files = {part.part.file.id: part.part.file for layer in layers for part in layer}
    handles = SstMap(SstHandle(file.id, file.info, file.format_version) for file in files.values())
    runs = tuple(
        SortedRun(
            len(layers) - number,
            tuple(SstView(Ulid(next(views)), part.part.file.id, BytesRange.of(part.part.keys)) for part in layer),
        )
        for number, layer in enumerate(layers)
    )
    return Manifest(
        ssts=handles,
        compacted=runs,
        last_l0_seq=last_seq,
        last_l0_clock_tick=tick_ms,
        replay_after_wal_id=replay_after,
        wal_id_last_seen=seen,
    )


SHAPES: list[dict[str, Any]] = [
    {},
    {"splitSize": 20},
    {"filter": "value < X'36'"},
    {"filter": "key IN (X'61', X'6262', X'64')"},
    {"startKey": b"b", "endKey": b"d"},
    {"includeExpired": True},
]
RETENTIONS_MS = [None, None, 60, 120]


@settings(max_examples=examples(75))
@given(st.data(), st.sampled_from([0, 0, 30, 100]), st.sampled_from(RETENTIONS_MS), st.sampled_from(SHAPES))
def test_it_makes_one_state_from_the_other(
    data: st.DataObject, passed_ms: int, retention_ms: int | None, shape: dict[str, Any]
) -> None:
    stores = new_stores()
    maker = Maker(data, stores)
    old = maker.layers()
    before = as_manifest(old, TICK_MS, maker.seq, replay_after=0, seen=0)
    new = maker.changed(old)
    after = as_manifest(new, TICK_MS + passed_ms, maker.seq, replay_after=0, seen=0)
    check_between(stores, before, after, retention_ms, shape)


@settings(max_examples=examples(50))
@given(st.data(), st.sampled_from([0, 100]), st.sampled_from(RETENTIONS_MS), st.sampled_from(SHAPES))
def test_rows_in_the_wal(data: st.DataObject, passed_ms: int, retention_ms: int | None, shape: dict[str, Any]) -> None:
    """Either version sees some files of the WAL, of which a flush has put the first ones into a tree by the later."""
    stores = new_stores()
    maker = Maker(data, stores)
    old = maker.layers()
    old_seq = maker.seq
    logged = [
        [maker.row(key, [RowKind.PUT, RowKind.DELETE])]
        for key in data.draw(st.lists(st.sampled_from(KEYS), min_size=2, max_size=4))
    ]
    for number, rows in enumerate(logged, 1):
        stores.wal.put(wal_path(number), [encode_wal(rows)])
    new_seen = data.draw(st.integers(1, len(logged)))
    flushed, old_seen = data.draw(st.integers(0, new_seen)), data.draw(st.integers(0, new_seen))
    newest = {row.key: row for [row] in logged[:flushed]}
    is_replaced = data.draw(st.integers(0, 3)) == 0  # the rows go with their range, and are in no file
    new = [maker.stored(list(newest.values())), *old] if newest and not is_replaced else old
    new_seq = max((row.seq for row in newest.values()), default=old_seq)
    before = as_manifest(old, TICK_MS, old_seq, replay_after=0, seen=old_seen)
    after = as_manifest(new, TICK_MS + passed_ms, new_seq, replay_after=flushed, seen=new_seen)
    check_between(stores, before, after, retention_ms, shape)


def check_between(
    stores: TableStores, before: Manifest, after: Manifest, retention_ms: int | None, shape: dict[str, Any]
) -> None:
    for number, manifest in enumerate((before, after), 1):
        stores.main.put(manifest_path(number), [encode_manifest(manifest)])
    properties = {"mergeOperator": "concat"} | ({} if retention_ms is None else {"retention": f"{retention_ms}ms"})
    publish_definition(stores, DefinitionVersion(1, TableDefinition(properties=properties)))
    store = SlateStore(stores, FakeClock(PRESENT_MS), {"path": stores.url})
    check_feed(store, ["key"], 1, 2, **shape)
    check_feed(store, ["key"], 0, 2)
    check_ignored(store, ["key"], 1, 2)
