"""Parts of a file with valid checksums that do not match its rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from slatespark.format.block_group import UnpackedBlocks, unpack_blocks
from slatespark.format.filter import FilterSet, NamedFilter, decode_filter_section
from slatespark.format.index import SstIndex, decode_index_section
from slatespark.format.info import Footer
from slatespark.format.properties import decode_properties, gap_range
from slatespark.format.row import Row, RowKind, rows_to_columns
from slatespark.format.sst import SstBuilder
from slatespark.format.stats import decode_stats_section
from slatespark.kernels import build_bloom, decode_blocks
from slatespark.table.verify.rows import RowCheck, RowTotals, StatedParts

ROWS = [
    row
    for number in range(40)
    for row in (
        Row(b"k%03d" % number, 200 - number, RowKind.PUT, b"value", 10 + number, 100 + number),
        Row(b"k%03d" % number, 100 - number, RowKind.DELETE if number % 3 else RowKind.MERGE, b"", 5),
    )
]


def build(rows: list[Row] = ROWS) -> tuple[bytes, StatedParts]:
    """A file, and its parts."""
    builder = SstBuilder(block_size=128, min_filter_keys=1)
    builder.add([rows_to_columns(rows)], np.arange(len(rows), dtype=np.int64))
    built = builder.finish()
    data, info = b"".join(built.parts), built.info
    assert info.filter_range is not None
    assert info.stats_range is not None
    footer = Footer(int.from_bytes(data[-10:-2], "big"), 2)
    gap = gap_range(info, footer)
    index = decode_index_section(data[info.index_range.start : info.index_range.end], info)
    return data, StatedParts(
        info=info,
        index=index,
        filters=decode_filter_section(data[info.filter_range.start : info.filter_range.end], info),
        stats=decode_stats_section(data[info.stats_range.start : info.stats_range.end], info),
        properties=decode_properties(data[gap.start : gap.end]),
    )


def unpack(octets: NDArray[np.uint8], parts: StatedParts, first: int, count: int) -> UnpackedBlocks:
    edges = parts.index.block_edges(parts.info)[first : first + count + 1]
    encoded = parts.index.encoded_bytes[first : first + count]
    return unpack_blocks(octets, edges, encoded, parts.info.compression, limit_bytes=1 << 20)


def check(data: bytes, parts: StatedParts, *, window: int = 3) -> tuple[list[tuple[str, str]], RowTotals]:
    """Sections and facts of the faults found."""
    faults: list[tuple[str, str]] = []
    rows = RowCheck(parts, lambda section, offset, what: faults.append((section, what)))
    octets = np.frombuffer(data, np.uint8)
    for first in range(0, len(parts.index), window):
        opened = unpack(octets, parts, first, window)
        rows.add(decode_blocks(opened.data, opened.starts, opened.ends, version=2), opened.starts, first)
    return faults, rows.finish()


def with_key(index: SstIndex, block: int, key: bytes) -> SstIndex:
    """The index with another key for one block."""
    keys = [index.first_key(number) for number in range(len(index))]
    keys[block] = key
    octets = np.frombuffer(b"".join(keys), np.uint8)
    return replace(index, key_bytes=octets, key_offsets=np.cumsum([0, *map(len, keys)], dtype=np.int64))


def test_a_sound_file_has_no_faults_whatever_the_window() -> None:
    data, parts = build()
    for window in (1, 2, 7, 100):
        faults, totals = check(data, parts, window=window)
        assert faults == []
        assert totals == RowTotals(80, 200, 61, 200, 61)


def test_versions_of_a_key_may_span_blocks() -> None:
    data, parts = build([Row(b"same", 500 - number, RowKind.PUT, b"x" * 30) for number in range(50)])
    assert check(data, parts)[0] == []


def test_index_keys_must_separate_the_blocks() -> None:
    data, parts = build()
    opened = unpack(np.frombuffer(data, np.uint8), parts, 3, 2)
    rows = decode_blocks(opened.data, opened.starts, opened.ends, version=2)
    first = int(np.searchsorted(rows.value_starts, opened.starts[1]))
    good, before, key_of_first = parts.index.first_key(4), rows.key(first - 1), rows.key(first)
    assert before < good <= key_of_first
    for window in (1, 2, 3, 100):
        for key in (b"k000", good[:1], good + b"\xff", before):
            faults, _ = check(data, replace(parts, index=with_key(parts.index, 4, key)), window=window)
            assert [section for section, _ in faults] == ["index"], key
            assert "Block 4" in faults[0][1]
        assert check(data, replace(parts, index=with_key(parts.index, 4, key_of_first)), window=window)[0] == []


def test_a_filter_that_denies_keys_is_one_fault() -> None:
    data, parts = build()
    other = FilterSet((NamedFilter("_bf", build_bloom(np.arange(80, dtype=np.uint64), 10)),))
    [(section, what)], _ = check(data, replace(parts, filters=other))
    assert section == "filter"
    assert "of 80" in what


def test_an_unknown_filter_is_ignored() -> None:
    data, parts = build()
    assert check(data, replace(parts, filters=FilterSet((NamedFilter("other", b""),))))[0] == []


def test_every_wrong_sum_is_a_fault() -> None:
    data, parts = build()
    assert parts.stats is not None
    counts = parts.stats.block_counts.copy()
    counts[2, 0] += 1
    wrong = replace(parts.stats, num_puts=41, num_deletes=0, raw_key_size=1, raw_val_size=2, block_counts=counts)
    faults, _ = check(data, replace(parts, stats=wrong))
    assert [section for section, _ in faults] == ["stats"] * 5
    faults, _ = check(data, replace(parts, stats=replace(parts.stats, block_counts=counts[1:])))
    assert "blocks" in faults[0][1]


def test_sums_are_not_compared_after_a_skipped_block() -> None:
    data, parts = build()
    faults: list[str] = []
    rows = RowCheck(parts, lambda section, offset, what: faults.append(what))
    for first in (0, 2):
        opened = unpack(np.frombuffer(data, np.uint8), parts, first, 1)
        rows.add(decode_blocks(opened.data, opened.starts, opened.ends, version=2), opened.starts, first)
        rows.skip()
    rows.finish()
    assert faults == []


def test_properties_must_match_the_rows() -> None:
    data, parts = build()
    assert parts.properties is not None
    stated, bounds = parts.properties
    faults, _ = check(data, replace(parts, properties=(replace(stated, max_seq=7, min_expire_ts=None), bounds)))
    assert [what.split()[0] for _, what in faults] == ["min_expire_ts", "max_seq"]
    flags = bounds.any_flags.copy()
    flags[0] ^= 1
    [(section, _)], _ = check(data, replace(parts, properties=(stated, replace(bounds, any_flags=flags))))
    assert section == "properties"


def test_keys_outside_the_stated_ends() -> None:
    data, parts = build()
    faults, _ = check(data, replace(parts, info=replace(parts.info, first_entry=b"k001", last_entry=b"k038")))
    assert ["below" in what or "above" in what for _, what in faults] == [True, True]


def test_blocks_in_the_wrong_order() -> None:
    data, parts = build()
    faults: list[tuple[str, str]] = []
    rows = RowCheck(replace(parts, stats=None, properties=None), lambda *fault: faults.append((fault[0], fault[2])))
    for first in (1, 0):
        opened = unpack(np.frombuffer(data, np.uint8), parts, first, 1)
        rows.add(decode_blocks(opened.data, opened.starts, opened.ends, version=2), opened.starts, first)
    rows.finish()
    assert any(section == "block 0" and "not after" in what for section, what in faults)
