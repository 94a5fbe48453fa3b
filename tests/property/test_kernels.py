"""The compiled kernels give what their plain twins give, errors included, and what is encoded decodes to itself."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from slatespark.errors import CorruptDataError
from slatespark.kernels import damage
from slatespark.kernels.columns import (
    HAS_CREATE,
    HAS_EXPIRE,
    MERGE,
    TOMBSTONE,
    RowColumns,
    Visibility,
)
from tests.support.effort import examples
from tests.unit.kernels.implementations import COMPILED, REFERENCE
from tests.unit.kernels.rows import Version, all_rows, block, columns, same, v1_entry, versions

MAX_SEQ = 2**64 - 1

# Few letters, so that keys share prefixes and differ by zero bytes; some longer than one or two words.
keys = st.one_of(
    st.text("\0ab\xff", max_size=3).map(lambda text: text.encode("latin-1")),
    st.builds(lambda stem, tail: b"0123456789abcdef"[:stem] + tail, st.integers(0, 16), st.binary(max_size=9)),
)
seqs = st.one_of(st.integers(0, 20), st.integers(MAX_SEQ - 3, MAX_SEQ))
times = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 20)


@st.composite
def row_versions(draw: st.DrawFn) -> Version:
    flags = draw(st.sampled_from([0, TOMBSTONE, MERGE])) | draw(st.sampled_from([0, HAS_CREATE, HAS_EXPIRE, 6]))
    if flags & TOMBSTONE:
        flags &= ~HAS_EXPIRE
    create_ts = draw(times) if flags & HAS_CREATE else 0
    expire_ts = draw(times) if flags & HAS_EXPIRE else 0
    value = b"" if flags & TOMBSTONE else draw(st.binary(max_size=40))
    return Version(draw(keys), draw(seqs), value, flags, create_ts, expire_ts)


def in_order(rows: list[Version]) -> RowColumns:
    unique = {(row.key, row.seq): row for row in rows}
    return columns(*sorted(unique.values(), key=lambda row: (row.key, -row.seq)))


sorted_rows = st.lists(row_versions(), max_size=40).map(in_order)
visibilities = st.builds(
    Visibility,
    seqs,
    st.integers(0, 20),
    st.booleans(),
    include_deleted=st.booleans(),
    all_versions=st.booleans(),
    max_create_ts_ms=st.none() | times,
)


@given(st.lists(sorted_rows, max_size=6), visibilities, st.data())
def test_merging(sources: list[RowColumns], visibility: Visibility, data: st.DataObject) -> None:
    lows = np.array([data.draw(st.integers(0, len(rows))) for rows in sources], np.int64)
    highs = np.array(
        [data.draw(st.integers(low, len(rows))) for low, rows in zip(lows.tolist(), sources, strict=True)], np.int64
    )
    for low, high in ((lows, highs), (np.zeros_like(lows), np.array([len(rows) for rows in sources], np.int64))):
        assert same(COMPILED.merge_all(sources, low, high), REFERENCE.merge_all(sources, low, high))
        compiled = COMPILED.merge_visible(sources, low, high, visibility)
        assert same(compiled, REFERENCE.merge_visible(sources, low, high, visibility))


@given(
    st.lists(sorted_rows, min_size=1, max_size=3), st.integers(1, 200) | st.just(65536), st.integers(1, 20), st.data()
)
def test_all_that_takes_named_rows(sources: list[RowColumns], size: int, interval: int, data: st.DataObject) -> None:
    order = data.draw(st.permutations(all_rows(sources).tolist()))
    rows = np.array(order + order[: len(order) // 2], np.int64)
    for name in ("gather_keys", "gather_values", "gather_fields", "take_rows", "new_key_mask", "hash_keys"):
        assert same(getattr(COMPILED, name)(sources, rows), getattr(REFERENCE, name)(sources, rows)), name
    options = {"block_size": size, "restart_interval": interval}
    encoded = COMPILED.encode_blocks(sources, rows, **options)
    assert same(encoded, REFERENCE.encode_blocks(sources, rows, **options))
    decoded = COMPILED.decode_blocks(encoded.data, encoded.starts, encoded.ends, version=2, ordered=False)
    assert versions(decoded) == versions(REFERENCE.take_rows(sources, rows))
    if len(rows):
        summaries = [kernels.summarise_blocks(sources, rows, encoded.first_rows) for kernels in (COMPILED, REFERENCE)]
        assert same(*summaries)
    separators = COMPILED.separator_keys(sources, rows, encoded.first_rows)
    assert same(separators, REFERENCE.separator_keys(sources, rows, encoded.first_rows))


@given(st.lists(row_versions(), max_size=200))
def test_sorting(rows: list[Version]) -> None:
    given_rows = columns(*rows)
    assert same(COMPILED.sort_rows(given_rows), REFERENCE.sort_rows(given_rows))


def wanted_keys(wanted: list[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    return np.frombuffer(b"".join(wanted), np.uint8), np.cumsum([0, *map(len, wanted)], dtype=np.int64)


@given(sorted_rows, st.lists(keys, max_size=40), st.data())
def test_matching_keys(rows: RowColumns, others: list[bytes], data: st.DataObject) -> None:
    present = data.draw(st.lists(st.sampled_from(range(len(rows))), max_size=9)) if len(rows) else []
    sought = [*others, *(rows.key(row) for row in present)]
    low = data.draw(st.integers(0, len(rows)))
    high = data.draw(st.integers(low, len(rows)))
    wanted = wanted_keys(sorted(set(sought)))
    assert same(COMPILED.match_keys(rows, low, high, *wanted), REFERENCE.match_keys(rows, low, high, *wanted))
    for key in sought:
        assert COMPILED.lower_bound(rows, key, low, high) == REFERENCE.lower_bound(rows, key, low, high)
        twice = [rows, rows], key, np.array([low, 0]), np.array([high, len(rows)])
        assert same(COMPILED.lower_bound_in_each(*twice), REFERENCE.lower_bound_in_each(*twice))
    for order in (sought, sorted(sought)):
        arguments = (rows.key_bytes, rows.key_offsets, *wanted_keys(order))
        assert same(COMPILED.lower_bounds(*arguments), REFERENCE.lower_bounds(*arguments))


@given(
    st.lists(st.integers(0, MAX_SEQ), max_size=50), st.integers(1, 120), st.lists(st.integers(0, MAX_SEQ), max_size=9)
)
def test_bloom_filters(present: list[int], bits_per_key: int, others: list[int]) -> None:
    hashes = np.array(present, np.uint64)
    bloom = COMPILED.build_bloom(hashes, bits_per_key)
    assert bloom == REFERENCE.build_bloom(hashes, bits_per_key)
    assert COMPILED.probe_bloom(bloom, hashes).all()
    asked = np.array(others, np.uint64)
    assert same(COMPILED.probe_bloom(bloom, asked), REFERENCE.probe_bloom(bloom, asked))


def outcome(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Return the result as it prints, or the error with its place."""
    try:
        result = function(*arguments, **options)
    except CorruptDataError as error:
        return str(error), error.offset
    return versions(result) if isinstance(result, RowColumns) else [part.tolist() for part in result]


def v1_blocks(rows: list[Version]) -> bytes:
    """Return one block V1 that shares what its keys have in common with the first one."""
    entries = [v1_entry(row, _shared(rows[0].key, row.key) if number else 0) for number, row in enumerate(rows)]
    return block(b"".join(entries), *(sum(map(len, entries[:number])) for number in range(len(entries))))


def _shared(left: bytes, right: bytes) -> int:
    return next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))


# What to do to a byte: set it, flip a bit, or move it by one.
edits = st.lists(
    st.tuples(st.integers(0, 1 << 16), st.sampled_from("=^+"), st.integers(0, 255) | st.sampled_from([0, 1, 127, 128])),
    min_size=1,
    max_size=4,
)


def edited(data: bytes, changes: list[tuple[int, str, int]]) -> bytes:
    changed = bytearray(data)
    for at, kind, number in changes:
        at %= len(changed)
        changed[at] = {"=": number, "^": changed[at] ^ 1 << number % 8, "+": (changed[at] + number - 128) % 256}[kind]
    return bytes(changed)


def cuts(size: int, moves: list[int], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the ends of the blocks, some of them moved a little."""
    moved = ends.copy()
    for number, move in enumerate(moves[: len(ends)]):
        moved[number] += move
    return np.minimum(moved, size)


@settings(max_examples=examples(150))
@given(
    rows=sorted_rows.filter(lambda rows: len(rows) > 0),
    version=st.sampled_from([1, 2]),
    changes=edits,
    moves=st.lists(st.integers(-2, 2), max_size=2),
    ordered=st.booleans(),
    size=st.sampled_from([40, 150, 4096]),
)
def test_damaged_blocks(
    rows: RowColumns, version: int, changes: list[tuple[int, str, int]], moves: list[int], *, ordered: bool, size: int
) -> None:
    encoded = COMPILED.encode_blocks([rows], all_rows([rows]), block_size=size, restart_interval=3)
    data, starts, ends = encoded.data.tobytes(), encoded.starts, encoded.ends
    if version == 1:
        named = versions(rows)
        parts = [v1_blocks(named[start:end]) for start, end in pairwise([*encoded.first_rows.tolist(), len(named)])]
        data = b"".join(parts)
        ends = np.cumsum([len(part) for part in parts])
        starts = ends - [len(part) for part in parts]
    broken = np.frombuffer(edited(data, changes), np.uint8)
    arguments = (broken, starts, cuts(len(data), moves, ends))
    with pytest.MonkeyPatch.context() as patch:
        if size == 40:  # small enough to be reached
            patch.setattr(damage, "KEY_BYTES_FLOOR", 0)
            patch.setattr(damage, "KEY_BYTES_PER_BLOCK_BYTE", 1)
        compiled = outcome(COMPILED.decode_blocks, *arguments, version=version, ordered=ordered)
        assert compiled == outcome(REFERENCE.decode_blocks, *arguments, version=version, ordered=ordered)


@settings(max_examples=examples(150))
@given(st.lists(st.lists(keys, max_size=8), min_size=1, max_size=3), edits, st.lists(st.integers(-9, 9), max_size=6))
def test_damaged_indexes(first_keys: list[list[bytes]], changes: list[tuple[int, str, int]], moves: list[int]) -> None:
    indexes = [sorted(each) for each in first_keys]
    sections = []
    for ordered in indexes:
        key_offsets = np.cumsum([0, *map(len, ordered)], dtype=np.int64)
        index = (np.arange(len(ordered)) * 100, np.frombuffer(b"".join(ordered), np.uint8), key_offsets)
        sections.append(COMPILED.encode_index(*index))
        assert sections[-1] == REFERENCE.encode_index(*index)
    data, every = b"".join(sections), [key for ordered in indexes for key in ordered]
    ends = np.cumsum([len(each) for each in sections], dtype=np.int64)
    starts = np.append(np.int64(0), ends[:-1])
    assert outcome(COMPILED.decode_indexes, np.frombuffer(data, np.uint8), starts, ends) == [
        [len(ordered) for ordered in indexes],
        [100 * number for ordered in indexes for number in range(len(ordered))],
        list(b"".join(every)),
        np.cumsum([0, *map(len, every)]).tolist(),
        [0] * len(every),
    ]
    broken = np.frombuffer(edited(data, changes), np.uint8)
    spans = np.minimum(starts, len(broken)), cuts(len(broken), moves, ends)
    compiled, plain = (
        outcome(COMPILED.decode_indexes, broken, *spans),
        outcome(REFERENCE.decode_indexes, broken, *spans),
    )
    # Whole arrays are checked step by step, the twin goes entry by entry: they may name different faults.
    assert isinstance(compiled, tuple) == isinstance(plain, tuple)
    if isinstance(plain, list):
        assert compiled == plain
