"""Parts of a file that are intact by their checksums and yet do not fit its rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from slatespark.format.block_group import unpack_blocks
from slatespark.format.filter import FilterSet, NamedFilter, decode_filter_section
from slatespark.format.index import SstIndex, decode_index_section
from slatespark.format.info import Footer
from slatespark.format.properties import decode_properties, gap_range
from slatespark.format.row import Row, RowKind, rows_to_columns
from slatespark.format.sst import SstBuilder
from slatespark.format.stats import decode_stats_section
from slatespark.kernels import build_bloom, decode_blocks
from slatespark.table.verify.rows import Claims, RowCheck, RowTotals

ROWS = [
    row
    for number in range(40)
    for row in (
        Row(b"k%03d" % number, 200 - number, RowKind.PUT, b"value", 10 + number, 100 + number),
        Row(b"k%03d" % number, 100 - number, RowKind.DELETE if number % 3 else RowKind.MERGE, b"", 5),
    )
]


def build(rows: list[Row] = ROWS) -> tuple[bytes, Claims]:
    """A file, and what its own parts say of it."""
    builder = SstBuilder(block_size=128, min_filter_keys=1)
    builder.add([rows_to_columns(rows)], np.arange(len(rows), dtype=np.int64))
    built = builder.finish()
    data, info = b"".join(built.parts), built.info
    assert info.filter_range is not None
    assert info.stats_range is not None
    footer = Footer(int.from_bytes(data[-10:-2], "big"), 2)
    gap = gap_range(info, footer)
    index = decode_index_section(data[info.index_range.start : info.index_range.end], info)
    return data, Claims(
        info=info,
        index=index,
        filters=decode_filter_section(data[info.filter_range.start : info.filter_range.end], info),
        stats=decode_stats_section(data[info.stats_range.start : info.stats_range.end], info),
        properties=decode_properties(data[gap.start : gap.end]),
    )


def check(data: bytes, claims: Claims, *, window: int = 3) -> tuple[list[tuple[str, str]], RowTotals]:
    """Sections and facts of the faults found."""
    faults: list[tuple[str, str]] = []
    rows = RowCheck(claims, lambda section, offset, what: faults.append((section, what)))
    edges = claims.index.block_edges(claims.info)
    octets = np.frombuffer(data, np.uint8)
    for first in range(0, len(edges) - 1, window):
        opened = unpack_blocks(octets, edges[first : first + window + 1], claims.info.compression, limit_bytes=1 << 20)
        rows.add(decode_blocks(opened.data, opened.starts, opened.ends, version=2), opened.starts, first)
    return faults, rows.finish()


def with_key(index: SstIndex, block: int, key: bytes) -> SstIndex:
    """The index with another key for one block."""
    keys = [index.first_key(number) for number in range(len(index))]
    keys[block] = key
    octets = np.frombuffer(b"".join(keys), np.uint8)
    return SstIndex(index.block_offsets, octets, np.cumsum([0, *map(len, keys)], dtype=np.int64))


def test_a_sound_file_has_no_faults_whatever_the_window() -> None:
    data, claims = build()
    for window in (1, 2, 7, 100):
        faults, totals = check(data, claims, window=window)
        assert faults == []
        assert totals == RowTotals(80, 200, 61, 200)


def test_versions_of_a_key_may_go_on_from_block_to_block() -> None:
    data, claims = build([Row(b"same", 500 - number, RowKind.PUT, b"x" * 30) for number in range(50)])
    assert check(data, claims)[0] == []


def test_index_keys_must_part_the_blocks() -> None:
    data, claims = build()
    good = claims.index.first_key(4)
    for key in (b"k000", good[:1], good + b"\xff"):
        faults, _ = check(data, replace(claims, index=with_key(claims.index, 4, key)))
        assert [section for section, _ in faults] == ["index"], key
        assert "Block 4" in faults[0][1]


def test_a_filter_that_denies_keys_is_one_fault() -> None:
    data, claims = build()
    other = FilterSet((NamedFilter("_bf", build_bloom(np.arange(80, dtype=np.uint64), 10)),))
    [(section, what)], _ = check(data, replace(claims, filters=other))
    assert section == "filter"
    assert "of 80 keys" in what


def test_a_filter_of_a_kind_we_do_not_know_is_left_alone() -> None:
    data, claims = build()
    assert check(data, replace(claims, filters=FilterSet((NamedFilter("other", b""),))))[0] == []


def test_every_wrong_sum_is_a_fault() -> None:
    data, claims = build()
    assert claims.stats is not None
    counts = claims.stats.block_counts.copy()
    counts[2, 0] += 1
    wrong = replace(claims.stats, num_puts=41, num_deletes=0, raw_key_size=1, raw_val_size=2, block_counts=counts)
    faults, _ = check(data, replace(claims, stats=wrong))
    assert [section for section, _ in faults] == ["stats"] * 5
    faults, _ = check(data, replace(claims, stats=replace(claims.stats, block_counts=counts[1:])))
    assert "blocks" in faults[0][1]


def test_sums_mean_nothing_where_a_block_was_skipped() -> None:
    data, claims = build()
    faults: list[str] = []
    rows = RowCheck(claims, lambda section, offset, what: faults.append(what))
    edges = claims.index.block_edges(claims.info)
    for first in (0, 2):
        opened = unpack_blocks(
            np.frombuffer(data, np.uint8), edges[first : first + 2], claims.info.compression, limit_bytes=1 << 20
        )
        rows.add(decode_blocks(opened.data, opened.starts, opened.ends, version=2), opened.starts, first)
        rows.skip()
    rows.finish()
    assert faults == []


def test_properties_must_be_those_of_the_rows() -> None:
    data, claims = build()
    assert claims.properties is not None
    stated, bounds = claims.properties
    faults, _ = check(data, replace(claims, properties=(replace(stated, max_seq=7, min_expire_ts=None), bounds)))
    assert [what.split()[0] for _, what in faults] == ["min_expire_ts", "max_seq"]
    flags = bounds.any_flags.copy()
    flags[0] ^= 1
    [(section, _)], _ = check(data, replace(claims, properties=(stated, replace(bounds, any_flags=flags))))
    assert section == "properties"


def test_keys_outside_the_stated_ends() -> None:
    data, claims = build()
    faults, _ = check(data, replace(claims, info=replace(claims.info, first_entry=b"k001", last_entry=b"k038")))
    assert ["below" in what or "above" in what for _, what in faults] == [True, True]


def test_blocks_in_the_wrong_order() -> None:
    data, claims = build()
    faults: list[tuple[str, str]] = []
    rows = RowCheck(replace(claims, stats=None, properties=None), lambda *fault: faults.append((fault[0], fault[2])))
    edges = claims.index.block_edges(claims.info)
    for first in (1, 0):
        opened = unpack_blocks(
            np.frombuffer(data, np.uint8), edges[first : first + 2], claims.info.compression, limit_bytes=1 << 20
        )
        rows.add(decode_blocks(opened.data, opened.starts, opened.ends, version=2), opened.starts, first)
    rows.finish()
    assert any(section == "block 0" and "not behind" in what for section, what in faults)
