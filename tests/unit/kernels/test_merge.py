from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slatespark.errors import InternalError
from slatespark.kernels.columns import GROUP_HEAD, GROUP_REST, PLAIN, ROW_BITS, RowColumns, Visibility
from tests.unit.kernels.rows import Version, columns, delete, operand, packed, put

NOW_MS = 100
LATEST = 2**64 - 1


def whole(sources: list[RowColumns]) -> tuple[Any, Any]:
    return np.zeros(len(sources), np.int64), np.array([len(rows) for rows in sources], np.int64)


def shown(kernels: Any, *sources: list[Version], max_seq: int = LATEST, **choices: Any) -> list[tuple[str, int]]:
    """Return the visible rows as key, seq and mark."""
    rows = [columns(*source) for source in sources]
    selection = kernels.merge_visible(rows, *whole(rows), Visibility(max_seq, NOW_MS, **choices))
    named = [(rows[number >> ROW_BITS], number & ((1 << ROW_BITS) - 1)) for number in selection.rows.tolist()]
    texts = [f"{source.key(row).decode()}{source.seqs[row]}" for source, row in named]
    return list(zip(texts, selection.marks.tolist(), strict=True))


def plain(*texts: str) -> list[tuple[str, int]]:
    return [(text, PLAIN) for text in texts]


def test_the_newest_version_of_each_key(kernels: Any) -> None:
    newer = [put(b"a", 9), put(b"c", 8)]
    older = [put(b"a", 7), put(b"a", 6), put(b"b", 5), put(b"c", 4), put(b"d", 3)]
    assert shown(kernels, newer, older) == plain("a9", "b5", "c8", "d3")
    assert shown(kernels, older, newer) == plain("a9", "b5", "c8", "d3")


def test_keys_of_one_source_that_end_alike(kernels: Any) -> None:
    keys = [b"", b"12345678", b"a", b"a12345678", b"a12345679", b"b12345678", b"b12345678", b"c12345678", b"ca2345678"]
    rows = columns(*(put(key, 20 - number) for number, key in enumerate(keys)))
    selection = kernels.merge_visible([rows], *whole([rows]), Visibility(LATEST, NOW_MS))
    assert selection.rows.tolist() == packed(0, 0, 1, 2, 3, 4, 5, 7, 8)


def test_equal_seqs_of_a_key_go_to_the_lower_source(kernels: Any) -> None:
    rows = [columns(put(b"a", 1)), columns(put(b"a", 1)), columns(put(b"a", 1))]
    assert kernels.merge_visible(rows, *whole(rows), Visibility(LATEST, NOW_MS)).rows.tolist() == packed(0, 0)
    assert kernels.merge_all(rows, *whole(rows)).tolist() == [*packed(0, 0), *packed(1, 0), *packed(2, 0)]


def test_versions_above_the_read_point_are_invisible(kernels: Any) -> None:
    rows = [put(b"a", 9), delete(b"a", 7), put(b"a", 5), put(b"b", 8)]
    assert shown(kernels, rows, max_seq=9) == plain("a9", "b8")
    assert shown(kernels, rows, max_seq=8) == plain("b8")
    assert shown(kernels, rows, max_seq=5) == plain("a5")
    assert shown(kernels, rows, max_seq=4) == []


def test_versions_created_after_the_read_point_are_invisible(kernels: Any) -> None:
    rows = [
        put(b"a", 9, create_ts=50),
        delete(b"a", 7, create_ts=40),
        put(b"a", 5, create_ts=-3),
        put(b"b", 8, create_ts=41),
    ]
    assert shown(kernels, rows, max_create_ts_ms=50) == plain("a9", "b8")
    assert shown(kernels, rows, max_create_ts_ms=49) == plain("b8")
    assert shown(kernels, rows, max_create_ts_ms=40) == []
    assert shown(kernels, rows, max_create_ts_ms=40, include_deleted=True) == plain("a7")
    assert shown(kernels, rows, max_create_ts_ms=0) == plain("a5")
    assert shown(kernels, rows, max_create_ts_ms=-4) == []
    assert shown(kernels, rows, max_create_ts_ms=49, max_seq=7) == []
    assert shown(kernels, rows, max_create_ts_ms=49, all_versions=True) == plain("a7", "a5", "b8")


def test_versions_without_a_time_are_always_visible(kernels: Any) -> None:
    rows = [put(b"a", 9, create_ts=50), put(b"a", 8), operand(b"b", 4, create_ts=3), operand(b"b", 3), put(b"b", 2)]
    assert shown(kernels, rows, max_create_ts_ms=-1) == [("a8", PLAIN), ("b3", GROUP_HEAD), ("b2", GROUP_REST)]
    assert shown(kernels, rows, max_create_ts_ms=-1, all_versions=True) == plain("a8", "b3", "b2")


def test_seqs_are_unsigned(kernels: Any) -> None:
    rows = [put(b"a", 2**64 - 1), put(b"a", 2**63), put(b"a", 2**63 - 1)]
    assert shown(kernels, rows, [put(b"a", 1)]) == plain(f"a{2**64 - 1}")
    assert shown(kernels, [put(b"a", 1)], rows, max_seq=2**63) == plain(f"a{2**63}")
    assert shown(kernels, rows, max_seq=2**63 - 1) == plain(f"a{2**63 - 1}")


def test_a_tombstone_hides_older_versions(kernels: Any) -> None:
    assert shown(kernels, [delete(b"a", 9)], [put(b"a", 8), put(b"b", 1)]) == plain("b1")
    assert shown(kernels, [delete(b"a", 9)], [put(b"a", 8)], include_deleted=True) == plain("a9")
    assert shown(kernels, [put(b"a", 9)], [delete(b"a", 8)], include_deleted=True) == plain("a9")


def test_an_expired_put_hides_older_versions(kernels: Any) -> None:
    rows = [put(b"a", 9, expire_ts=NOW_MS), put(b"a", 8), put(b"b", 9, expire_ts=NOW_MS + 1), put(b"b", 8)]
    assert shown(kernels, rows) == plain("b9")
    assert shown(kernels, rows, include_deleted=True) == plain("b9")
    assert shown(kernels, rows, include_expired=True) == plain("a9", "b9")


def test_a_time_without_its_flag_is_ignored(kernels: Any) -> None:
    assert shown(kernels, [Version(b"a", 1, expire_ts=NOW_MS)]) == plain("a1")


def test_operands_form_a_group_with_the_put_below(kernels: Any) -> None:
    rows = [operand(b"a", 9), operand(b"a", 8), put(b"a", 7), operand(b"a", 6), put(b"b", 1)]
    group = [("a9", GROUP_HEAD), ("a8", GROUP_REST), ("a7", GROUP_REST)]
    assert shown(kernels, rows) == [*group, *plain("b1")]
    assert shown(kernels, rows[::2], rows[1::2]) == [*group, *plain("b1")]


@pytest.mark.parametrize("base", [[], [delete(b"a", 7)], [put(b"a", 7, expire_ts=NOW_MS), put(b"a", 6)]])
def test_operands_without_a_base(kernels: Any, base: list[Version]) -> None:
    group = [("a9", GROUP_HEAD), ("a8", GROUP_REST)]
    assert shown(kernels, [operand(b"a", 9)], [operand(b"a", 8), *base]) == group
    assert shown(kernels, [operand(b"a", 9)], [operand(b"a", 8), *base], include_deleted=True) == group


def test_expired_operands_are_skipped(kernels: Any) -> None:
    rows = [operand(b"a", 9, expire_ts=NOW_MS), operand(b"a", 8), operand(b"a", 7, expire_ts=NOW_MS), put(b"a", 6)]
    assert shown(kernels, rows) == [("a8", GROUP_HEAD), ("a6", GROUP_REST)]
    assert shown(kernels, [rows[0], rows[3]]) == plain("a6")
    assert shown(kernels, [rows[0]]) == []
    assert shown(kernels, [rows[0], delete(b"a", 5)], include_deleted=True) == plain("a5")
    assert [mark for _, mark in shown(kernels, rows, include_expired=True)] == [GROUP_HEAD, *[GROUP_REST] * 3]


def test_all_versions(kernels: Any) -> None:
    rows = [operand(b"a", 9), delete(b"a", 8), put(b"a", 7, expire_ts=1), put(b"b", 9)]
    assert shown(kernels, rows, max_seq=8, all_versions=True) == plain("a8", "a7")
    assert shown(kernels, rows, all_versions=True) == plain("a9", "a8", "a7", "b9")


KEYS = [b"", b"\0", b"\0\0", b"a", b"a\0", b"a\0\0\0\0\0\0\0\0", b"a\0\0\0\0\0\0\0\1", b"ab", b"\xff" * 8, b"\xff" * 9]


@pytest.mark.parametrize("prefix", [b"", b"shared"])
def test_keys_sort_as_unsigned_bytes_shorter_first(kernels: Any, prefix: bytes) -> None:
    for sources in ([KEYS[::2], KEYS[1::2]], [KEYS, KEYS], [[key] for key in KEYS], [KEYS[:5], KEYS[5:]]):
        rows = [columns(*(put(prefix + key, 1) for key in source)) for source in sources]
        merged = kernels.merge_all(rows, *whole(rows)).tolist()
        found = [(rows[number >> ROW_BITS].key(number & 0xFFFF), number >> ROW_BITS) for number in merged]
        assert found == sorted(found)
        assert len(found) == sum(map(len, sources))


def test_only_rows_in_the_given_ranges(kernels: Any) -> None:
    rows = [columns(*(put(b"%d" % i, 2) for i in range(5))), columns(*(put(b"%d" % i, 1) for i in range(5)))]
    merged = kernels.merge_all(rows, np.array([1, 2]), np.array([3, 2]))
    assert merged.tolist() == packed(0, 1, 2)
    assert kernels.merge_all(rows, np.array([4, 0]), np.array([5, 1])).tolist() == [*packed(1, 0), *packed(0, 4)]


def test_nothing_to_merge(kernels: Any) -> None:
    none = np.zeros(0, np.int64)
    assert len(kernels.merge_all([], none, none)) == 0
    selection = kernels.merge_visible([columns()], np.zeros(1, np.int64), np.zeros(1, np.int64), Visibility(1, 1))
    assert selection.rows.dtype == np.int64
    assert selection.marks.dtype == np.uint8


def test_row_ranges_outside_a_source(kernels: Any) -> None:
    rows = [columns(put(b"a", 1))]
    for low, high in ((-1, 1), (1, 0), (0, 2)):
        with pytest.raises(InternalError, match=f"Row range \\[{low}, {high}\\)"):
            kernels.merge_all(rows, np.array([low]), np.array([high]))
    with pytest.raises(InternalError, match="source"):
        kernels.merge_all(rows, np.zeros(0, np.int64), np.zeros(0, np.int64))


# --- keys that share much -------------------------------------------------------------------------------------------

# Where codes of 7 bytes each end, where they end altogether, and zeros that look like padding.
PREFIXES = [b"", b"\xff" * 7, *(b"x" * size for size in (6, 7, 8, 14, 21, 253 * 7, 254 * 7 - 1, 254 * 7, 254 * 7 + 9))]
SUFFIXES = [b"", b"\0", b"\0\0", b"\0" * 8, b"\0" * 9 + b"a", b"a", b"b" * 7, b"b" * 7 + b"a", b"\xff", b"\xff" * 14]


@pytest.mark.parametrize("seed", range(60))
def test_keys_that_share_long_prefixes(kernels: Any, seed: int) -> None:
    drawn = np.random.default_rng(seed)
    keys = [prefix + suffix for prefix in drawn.permutation(np.array(PREFIXES, object))[:4] for suffix in SUFFIXES]
    some = [keys[number] for number in drawn.choice(len(keys), 12)]
    sources = [
        sorted(
            {(some[drawn.integers(12)], -int(drawn.integers(1, 6))) for _ in range(drawn.integers(0, 15))},
        )
        for _ in range(drawn.integers(1, 9))
    ]
    rows = [columns(*(put(key, -seq) for key, seq in source)) for source in sources]
    entries = sorted(
        (key, seq, number, at) for number, source in enumerate(sources) for at, (key, seq) in enumerate(source)
    )
    expected = [number << ROW_BITS | at for _, _, number, at in entries]
    assert kernels.merge_all(rows, *whole(rows)).tolist() == expected

    max_seq = int(drawn.integers(0, 6))
    newest: dict[bytes, int] = {}
    for key, seq, number, at in entries:
        if -seq <= max_seq:
            newest.setdefault(key, number << ROW_BITS | at)
    assert kernels.merge_visible(rows, *whole(rows), Visibility(max_seq, NOW_MS)).rows.tolist() == list(newest.values())
