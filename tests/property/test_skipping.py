"""Files that a scan skips make no difference: random layers, properties of a random part of their files."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark.format.properties import SstProperties
from slatespark.format.row import Row, RowKind, columns_to_rows, rows_to_columns
from slatespark.format.ulid import Ulid
from slatespark.kernels import take_rows
from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE, MERGE, TOMBSTONE, Visibility
from slatespark.table.read.cursor import LayerCursor, layer_windows, memory_windows
from slatespark.table.read.fold import resolve_operator
from slatespark.table.read.plan import Layer
from slatespark.table.read.scan import visible_windows
from slatespark.table.read.skipping import SkipRule, skip_files
from slatespark.table.stores import TableStores
from tests.unit.table.layers import new_stores, put_file

CONCAT: Final = resolve_operator("concat")
NOW_MS: Final = 100
RETIRED_MS: Final = 50

# What the rows of a file are like: (kinds, create_ts, expire_ts) to choose from.
THEMES: Final[dict[str, tuple[list[RowKind], list[int | None], list[int | None]]]] = {
    "plain": ([RowKind.PUT], [60, 70], [None]),
    "expired": ([RowKind.PUT], [10, 60], [90, 100]),
    "expired operands": ([RowKind.MERGE], [10, 60], [90, 100]),
    "expired, both": ([RowKind.PUT, RowKind.MERGE], [10, 60, None], [90, 100]),
    "tombstones": ([RowKind.DELETE], [10, 60, None], [None]),
    "old": ([RowKind.PUT], [20, 50], [None, 200]),
    "old, all kinds": (list(RowKind), [20, 50], [None, 90, 200]),
    "operands": ([RowKind.MERGE], [50, 60, None], [None, 100, 101]),
    "anything": (list(RowKind), [None, 20, 51, 60], [None, 90, 100, 101]),
}


@dataclass(frozen=True)
class Table:
    """Files of rows, by layer, newest first; the first layer may stand for the WAL."""

    layers: tuple[tuple[tuple[Row, ...], ...], ...]
    newest_in_memory: bool


@st.composite
def tables(draw: st.DrawFn) -> Table:
    count = draw(st.integers(1, 6))
    layers = []
    for number in range(count):
        first_seq = 10 * (count - number)
        keys = sorted(draw(st.sets(st.sampled_from([b"a", b"b", b"c", b"d", b"e"]), min_size=1)))
        themes = draw(st.lists(st.sampled_from(sorted(THEMES)), min_size=1, max_size=3))
        rows = [
            row
            for place, key in enumerate(keys)
            for row in draw(_versions(key, first_seq, themes[place % len(themes)]))
        ]
        cuts = draw(st.lists(st.integers(0, 10), max_size=2))
        edges = sorted({0, len(rows), *(cut % len(rows) for cut in cuts)})
        layers.append(tuple(tuple(rows[start:end]) for start, end in itertools.pairwise(edges)))
    return Table(tuple(layers), draw(st.booleans()))


@st.composite
def _versions(draw: st.DrawFn, key: bytes, first_seq: int, theme: str) -> list[Row]:
    """One key's versions in a layer, newest first; a file may end between them."""
    rows = []
    for seq in range(first_seq + draw(st.sampled_from([0, 0, 1, 2])), first_seq - 1, -1):
        kinds, created, expires = THEMES[theme]
        kind = draw(st.sampled_from(kinds))
        expire_ts = None if kind is RowKind.DELETE else draw(st.sampled_from(expires))
        value = b"" if kind is RowKind.DELETE else b"%d," % seq
        rows.append(Row(key, seq, kind, value, draw(st.sampled_from(created)), expire_ts))
    return rows


def visibilities() -> st.SearchStrategy[Visibility]:
    return st.builds(
        Visibility,
        max_seq=st.sampled_from([2**63, 2**63, 20, 41]),
        now_ms=st.sampled_from([NOW_MS, NOW_MS, 99]),
        include_expired=st.sampled_from([False, False, True]),
        include_deleted=st.booleans(),
        all_versions=st.sampled_from([False, False, False, True]),
        max_create_ts_ms=st.sampled_from([None, None, 55]),
    )


@dataclass(frozen=True)
class MetadataFilter:
    """`column BETWEEN low AND high`, or `column IS NULL`."""

    column: str
    low: int
    high: int
    nulls: bool

    def passes(self, row: Row) -> bool:
        value = getattr(row, self.column)
        return self.nulls if value is None else self.low <= value <= self.high

    def may_pass(self, known: SstProperties) -> bool:
        low, high, flag = {
            "seq": (known.min_seq, known.max_seq, None),
            "create_ts_ms": (known.min_create_ts, known.max_create_ts, HAS_CREATE),
            "expire_ts_ms": (known.min_expire_ts, known.max_expire_ts, HAS_EXPIRE),
        }[self.column]
        if self.nulls and flag is not None and not known.all_flags & flag:
            return True
        return low is not None and high is not None and low <= self.high and high >= self.low


def filters() -> st.SearchStrategy[list[MetadataFilter]]:
    one = st.builds(
        MetadataFilter,
        column=st.sampled_from(["seq", "create_ts_ms", "expire_ts_ms"]),
        low=st.sampled_from([-1, 20, 31, 55]),
        high=st.sampled_from([30, 55, 95, 1000]),
        nulls=st.booleans(),
    )
    return st.lists(one, max_size=2)


def properties_of(rows: Sequence[Row]) -> SstProperties:
    """What a file of these rows says of them, told row by row."""
    created = [row.create_ts_ms for row in rows if row.create_ts_ms is not None]
    expires = [row.expire_ts_ms for row in rows if row.expire_ts_ms is not None]
    counts = [sum(row.kind is kind for row in rows) for kind in (RowKind.PUT, RowKind.DELETE, RowKind.MERGE)]
    flags = [_flags(row) for row in rows]
    any_flags, all_flags = 0, 0xFF
    for flag in flags:
        any_flags, all_flags = any_flags | flag, all_flags & flag
    return SstProperties(
        created_ms=0,
        min_create_ts=min(created, default=None),
        max_create_ts=max(created, default=None),
        min_expire_ts=min(expires, default=None),
        max_expire_ts=max(expires, default=None),
        min_seq=min(row.seq for row in rows),
        max_seq=max(row.seq for row in rows),
        puts=counts[0],
        deletes=counts[1],
        merges=counts[2],
        any_flags=any_flags,
        all_flags=all_flags,
        all_versions=False,
    )


def _flags(row: Row) -> int:
    kind = {RowKind.PUT: 0, RowKind.DELETE: TOMBSTONE, RowKind.MERGE: MERGE}[row.kind]
    return (
        kind | (HAS_CREATE if row.create_ts_ms is not None else 0) | (HAS_EXPIRE if row.expire_ts_ms is not None else 0)
    )


def shown(
    stores: TableStores, newest: Sequence[Row], layers: Sequence[Layer], rule: SkipRule, passes: Callable[[Row], bool]
) -> list[Row]:
    cursors = [LayerCursor(memory_windows(rows_to_columns(newest)))] if newest else []
    cursors += [LayerCursor(layer_windows(stores, layer, 1 << 20)) for layer in layers]
    windows = visible_windows(cursors, rule.visibility, CONCAT, retired_ms=rule.retired_ms)
    rows = [row for sources, selection in windows for row in columns_to_rows(take_rows(sources, selection.rows))]
    return [row for row in rows if passes(row)]


@settings(max_examples=400, deadline=None)
@given(tables(), visibilities(), st.sampled_from([None, RETIRED_MS]), filters(), st.data())
def test_a_scan_shows_the_same_with_and_without_skipping(
    table: Table, visibility: Visibility, retired_ms: int | None, conditions: list[MetadataFilter], data: st.DataObject
) -> None:
    hides_expired = not (visibility.include_expired or visibility.all_versions)
    rule = SkipRule(visibility, retired_ms if hides_expired else None)
    if conditions:
        rule = replace(rule, may_pass=lambda known: all(one.may_pass(known) for one in conditions))
    stores = new_stores()
    newest: list[Row] = []
    layers: list[Layer] = []
    known: dict[Ulid, SstProperties] = {}
    for number, files in enumerate(table.layers):
        if number == 0 and table.newest_in_memory:
            newest = [row for rows in files for row in rows]
            rule = replace(rule, newest_may_fold=True)
            continue
        slices = tuple(put_file(stores, rows, block_size=1) for rows in files)
        layers.append(Layer(f"run {number}", slices))
        for part, rows in zip(slices, files, strict=True):
            if data.draw(st.sampled_from([True, True, True, False])):
                known[part.file.id] = properties_of(rows)

    def passes(row: Row) -> bool:
        return all(one.passes(row) for one in conditions)

    kept = skip_files(layers, known, rule)
    assert shown(stores, newest, kept, rule, passes) == shown(stores, newest, layers, rule, passes)
