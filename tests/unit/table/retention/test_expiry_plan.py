"""Plans of the expiry report as text: `tests/data/maintenance/expiry.txt`; and cases that text shows badly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slatespark.format.index import SstIndex
from slatespark.format.info import SstInfo
from slatespark.format.properties import SstProperties, bounds_of
from slatespark.format.row import Row, RowKind, rows_to_columns
from slatespark.format.ulid import Ulid
from slatespark.kernels import gather_fields
from slatespark.ranges import KeyRange
from slatespark.table.read.planning.plan import FileSlice, SstFile
from slatespark.table.retention.expiry_plan import (
    PERIODS,
    ExpirySlots,
    FileOutline,
    choose_period,
    find_file_slot,
    plan_blocks,
)
from slatespark.table.retention.expiry_tally import ExpiryTally, count_rows, list_parts
from slatespark.table.stores import OWN_ROOT
from slatespark.units import HOUR_MS
from tests.support.golden import DATA, Case, run_golden

BLOCK_BYTES = 100
DAY_MS = PERIODS["day"]


def ms_of(text: str) -> int:
    """Ms of `hours:minutes`; hours may exceed 24."""
    hours, _, minutes = text.partition(":")
    return int(hours) * HOUR_MS + int(minutes) * 60_000


def text_of(ms: int) -> str:
    return f"{ms // HOUR_MS:02}:{ms % HOUR_MS // 60_000:02}"


def row_of(word: str) -> Row:
    if word == "del":
        return Row(b"k", 1, RowKind.DELETE)
    return Row(b"k", 1, expire_ts_ms=None if word == "-" else ms_of(word))


def slots_of(case: Case) -> ExpirySlots:
    return ExpirySlots(ms_of(case.arguments["now"]), PERIODS[case.arguments["per"]])


def slot_name(slots: ExpirySlots, slot: int) -> str:
    return {0: "expired", slots.never: "never"}.get(slot) or text_of(slots.start_ms(slot))


def print_blocks(case: Case) -> str:
    lines = [line.partition(":") for line in case.lines]
    separators = [separator.encode() for separator, _, _ in lines]
    blocks = [[row_of(word) for word in times.split()] for _, _, times in lines]
    counts = np.array([len(block) for block in blocks], np.int64)
    columns = rows_to_columns([row for block in blocks for row in block])
    fields = gather_fields([columns], np.arange(len(columns), dtype=np.int64))
    index = SstIndex(
        block_offsets=np.arange(len(blocks), dtype=np.int64) * BLOCK_BYTES,
        key_bytes=np.frombuffer(b"".join(separators), np.uint8),
        key_offsets=np.cumsum([0, *map(len, separators)], dtype=np.int64),
        encoded_bytes=np.zeros(len(blocks), np.int64),
    )
    first, last = (key.encode() for key in case.arguments["file"].split("-"))
    size = BLOCK_BYTES * len(blocks)
    info = SstInfo(first, last, index_offset=size, index_len=1, filter_offset=size, filter_len=0)
    start, end = (key.encode() for key in case.arguments["keys"].split("-"))
    part = FileSlice(SstFile(OWN_ROOT, Ulid(1), info, 2), KeyRange(start, end or None))
    outline = FileOutline(index, index.block_edges(info))
    if "client" not in case.arguments:
        outline = FileOutline(index, outline.edges, None, bounds_of(fields, np.cumsum(counts) - counts), counts)
    slots = slots_of(case)
    plan = plan_blocks(part, outline, slots)
    to_read = {block for low, high in plan.reads for block in range(low, high)}
    settled = [block for block in range(*index.blocks_for(part.keys)) if block not in to_read]
    shown = {low: f"read {low}-{high - 1}" for low, high in plan.reads}
    for block, slot, rows, stored in zip(settled, plan.slots, plan.rows, plan.stored_bytes, strict=True):
        assert stored == BLOCK_BYTES
        shown[block] = f"{block}: {slot_name(slots, int(slot))}, {rows} row{'s' if rows > 1 else ''}"
    assert plan.blocks == len(settled) + len(to_read)
    return "\n".join(shown[block] for block in sorted(shown))


def print_parts(case: Case) -> str:
    slots = slots_of(case)
    tally, none = ExpiryTally.of_slots(slots), ExpiryTally.of_slots(slots)
    rows = rows_to_columns([row_of(word) for word in case.lines[0].split()])
    count_rows(tally, slots.of_rows(rows), rows, np.zeros(1, np.int64), np.array([100], np.int64))
    lines = []
    for part in list_parts(slots, tally, none):
        name = part.state
        if part.start_ms is not None:
            name = f"[{text_of(part.start_ms)}, {'' if part.end_ms is None else text_of(part.end_ms)})"
        lines.append(f"{name}: {part.rows}")
    return "\n".join(lines)


def test_golden(rewrite: bool) -> None:
    commands = {"blocks": print_blocks, "parts": print_parts}
    run_golden(DATA / "maintenance" / "expiry.txt", commands, rewrite=rewrite)


# --- slots ----------------------------------------------------------------------------------------------------------


def test_a_block_with_a_huge_stated_size_does_not_overflow() -> None:
    slots = ExpirySlots(0, HOUR_MS)
    columns = rows_to_columns([Row(b"k", 1, expire_ts_ms=at) for at in (0, HOUR_MS, 2 * HOUR_MS)])
    columns.value_lengths[:] = 1 << 60
    tally = ExpiryTally.of_slots(slots)
    count_rows(tally, slots.of_rows(columns), columns, np.zeros(1, np.int64), np.array([1 << 62], np.int64))
    assert tally.stored_bytes.sum() == 1 << 62
    assert (tally.stored_bytes >= 0).all()


def test_the_default_periods() -> None:
    hours = ExpirySlots(5 * DAY_MS + 1, HOUR_MS)
    three_days = 5 * 24 + 72 + 1 - 5 * 24
    assert [choose_period(hours, last) for last in (0, 1, three_days, three_days + 1, hours.later)] == [
        *("hour", "hour", "hour", "day", "day")
    ]


PROPERTIES = SstProperties(
    created_ms=0,
    min_create_ts=0,
    max_create_ts=0,
    min_expire_ts=HOUR_MS,
    max_expire_ts=2 * HOUR_MS - 1,
    min_seq=1,
    max_seq=1,
    puts=3,
    deletes=0,
    merges=0,
    any_flags=6,
    all_flags=6,
    all_versions=True,
)


@pytest.mark.parametrize(
    ("change", "slot"),
    [
        ({}, 2),
        ({"max_expire_ts": 2 * HOUR_MS}, None),
        ({"all_flags": 4}, None),
        ({"any_flags": 4, "all_flags": 4, "min_expire_ts": None, "max_expire_ts": None}, -1),
        ({"min_expire_ts": -(10**30), "max_expire_ts": 0}, 0),
        ({"min_expire_ts": None}, None),
    ],
)
def test_whole_files(change: dict[str, int | None], slot: int | None) -> None:
    slots = ExpirySlots(0, HOUR_MS)
    assert find_file_slot(replace(PROPERTIES, **change), slots) == (slots.never if slot == -1 else slot)  # type: ignore[arg-type]
