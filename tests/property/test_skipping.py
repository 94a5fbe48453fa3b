"""Files that a scan skips make no difference: random layers, properties of a random part of their files."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark.format.info import SstInfo
from slatespark.format.properties import SstProperties
from slatespark.format.row import Row, RowKind, rows_to_columns
from slatespark.format.ulid import Ulid
from slatespark.kernels import take_rows
from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE, MERGE, TOMBSTONE, Visibility
from slatespark.table.read.merge.cursor import LayerCursor, memory_windows
from slatespark.table.read.merge.merge_function import resolve_operator
from slatespark.table.read.planning.plan import FileSlice, Layer, SstFile
from slatespark.table.read.planning.skipping import SkipRule, skip_files
from slatespark.table.read.scan import visible_windows
from slatespark.table.stores import OWN_ROOT
from tests.support.effort import examples
from tests.support.row_values import columns_to_rows

T = TypeVar("T")

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


class Chooser:
    """Choices that follow from a seed: much cheaper than letting hypothesis draw each."""

    def __init__(self, seed: int) -> None:
        self._numbers = np.random.default_rng(seed)

    def one(self, choices: Sequence[T]) -> T:
        return choices[int(self._numbers.integers(len(choices)))]

    def some(self, choices: Sequence[T]) -> list[T]:
        mask = self._numbers.integers(1, 1 << len(choices))
        return [choice for place, choice in enumerate(choices) if mask >> place & 1]


def random_table(choose: Chooser) -> Table:
    count = choose.one([2, 3, 4, 5])
    layers = []
    for number in range(count):
        first_seq = 10 * (count - number)
        themes = [choose.one(sorted(THEMES)) for _ in range(choose.one([1, 1, 3]))]
        keys = choose.some([b"a", b"b", b"c", b"d", b"e"])
        rows = [
            row
            for place, key in enumerate(keys)
            for row in _versions(choose, key, first_seq, themes[place % len(themes)])
        ]
        edges = sorted({0, len(rows), *choose.some(range(len(rows)))[: choose.one([0, 0, 1, 2])]})
        layers.append(tuple(tuple(rows[start:end]) for start, end in itertools.pairwise(edges)))
    return Table(tuple(layers), choose.one([False, True]))


def _versions(choose: Chooser, key: bytes, first_seq: int, theme: str) -> list[Row]:
    """One key's versions in a layer, newest first; a file may end between them."""
    rows = []
    for seq in range(first_seq + choose.one([0, 0, 1, 2]), first_seq - 1, -1):
        kinds, created, expires = THEMES[theme]
        kind = choose.one(kinds)
        expire_ts = None if kind is RowKind.DELETE else choose.one(expires)
        value = b"" if kind is RowKind.DELETE else b"%d," % seq
        rows.append(Row(key, seq, kind, value, choose.one(created), expire_ts))
    return rows


def random_visibility(choose: Chooser) -> Visibility:
    return Visibility(
        max_seq=choose.one([2**63, 2**63, 20, 41]),
        now_ms=choose.one([NOW_MS, NOW_MS, 99]),
        include_expired=choose.one([False, False, False, True]),
        include_deleted=choose.one([False, False, True]),
        all_versions=choose.one([False, False, False, True]),
        max_create_ts_ms=choose.one([None, None, 55]),
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


def random_filters(choose: Chooser) -> list[MetadataFilter]:
    return [
        MetadataFilter(
            column=choose.one(["seq", "create_ts_ms", "expire_ts_ms"]),
            low=choose.one([-1, 20, 31, 55]),
            high=choose.one([30, 55, 95, 1000]),
            nulls=choose.one([False, True]),
        )
        for _ in range(choose.one([0, 1, 1, 2]))
    ]


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


@dataclass(frozen=True)
class Files:
    """The rows of files that only this test has, by id."""

    rows: dict[Ulid, tuple[Row, ...]]

    def add(self, rows: tuple[Row, ...]) -> FileSlice:
        sst_id = Ulid(len(self.rows))
        self.rows[sst_id] = rows
        info = SstInfo(rows[0].key, rows[-1].key, index_offset=10, index_len=5, filter_offset=10, filter_len=0)
        return FileSlice(SstFile(OWN_ROOT, sst_id, info, 2), info.key_range())

    def of(self, layer: Layer) -> list[Row]:
        return [row for part in layer.slices for row in self.rows[part.file.id] if part.keys.contains(row.key)]


def shown(sources: Sequence[Sequence[Row]], rule: SkipRule, passes: Callable[[Row], bool]) -> list[Row]:
    cursors = [LayerCursor(memory_windows(rows_to_columns(rows))) for rows in sources]
    windows = visible_windows(cursors, rule.visibility, CONCAT, retired_ms=rule.retired_ms)
    rows = [row for found, selection in windows for row in columns_to_rows(take_rows(found, selection.rows))]
    return [row for row in rows if passes(row)]


@settings(max_examples=examples(1000))
@given(st.integers(0, 2**32))
def test_a_scan_shows_the_same_with_and_without_skipping(seed: int) -> None:
    choose = Chooser(seed)
    table, visibility, conditions = random_table(choose), random_visibility(choose), random_filters(choose)
    hides_expired = not (visibility.include_expired or visibility.all_versions)
    rule = SkipRule(visibility, choose.one([None, RETIRED_MS]) if hides_expired else None)
    if conditions:
        rule = replace(rule, may_pass=lambda known: all(one.may_pass(known) for one in conditions))
    files = Files({})
    newest: list[list[Row]] = []
    layers = [Layer(f"run {-at}", tuple(map(files.add, parts))) for at, parts in enumerate(table.layers)]
    if table.newest_in_memory:
        newest, layers = [files.of(layers[0])], layers[1:]
        rule = replace(rule, newest_may_fold=True)
    known = {
        sst_id: properties_of(rows) for sst_id, rows in files.rows.items() if choose.one([True, True, True, False])
    }

    def passes(row: Row) -> bool:
        return all(one.passes(row) for one in conditions)

    kept = skip_files(layers, known, rule)
    assert [layer for layer in kept if not layer.slices] == []
    with_skipping = shown([*newest, *map(files.of, kept)], rule, passes)
    assert with_skipping == shown([*newest, *map(files.of, layers)], rule, passes)
