"""Reap plans as text: `tests/data/maintenance/retention.txt`; and cases that text shows badly."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from hypothesis import strategies as st

from slatespark.format.index import SstIndex
from slatespark.format.info import SstInfo
from slatespark.format.properties import BlockBounds, SstProperties
from slatespark.format.references import SstView
from slatespark.format.ulid import Ulid
from slatespark.kernels.columns import HAS_CREATE, MERGE, TOMBSTONE
from slatespark.ranges import ALL_KEYS, KeyRange, key_after, point_range
from slatespark.table.read.planning.plan import FileSlice, SstFile
from slatespark.table.retention.expiry_plan import FileOutline
from slatespark.table.retention.plan import (
    MAX_SWEEPS,
    DueView,
    StoredView,
    Treatment,
    choose_treatment,
    is_past,
    may_hold_due_rows,
    next_deadline,
    plan_due_blocks,
    plan_files,
)
from slatespark.table.stores import OWN_ROOT
from tests.support.golden import DATA, Case, run_golden

LINE = re.compile(
    r"(?P<first>\w)-(?P<last>\w) (?:(?P<low>\d+)\.\.(?P<high>\d+)(?P<lacking>!)?|\?)(?: (?P<kind>\+op|del))?"
)


def file_of(number: int, first: str = "a", last: str = "z") -> SstFile:
    info = SstInfo(
        first_entry=first.encode(),
        last_entry=last.encode(),
        index_offset=1000,
        index_len=1,
        filter_offset=0,
        filter_len=0,
    )
    return SstFile(OWN_ROOT, Ulid(number), info, 2)


def view_of(number: int, line: str) -> StoredView:
    found = LINE.fullmatch(line)
    assert found is not None, line
    keys = KeyRange(found["first"].encode(), key_after(found["last"].encode()))
    part = FileSlice(file_of(number, found["first"], found["last"]), keys)
    properties = None
    if found["low"] is not None:
        flags = {"+op": MERGE, "del": TOMBSTONE, None: 0}[found["kind"]]
        properties = properties_of(
            min_create_ts=int(found["low"]),
            max_create_ts=int(found["high"]),
            puts=0 if flags else 5,
            merges=5 if flags == MERGE else 0,
            deletes=5 if flags == TOMBSTONE else 0,
            any_flags=flags | HAS_CREATE,
            all_flags=flags | (0 if found["lacking"] else HAS_CREATE),
        )
    return StoredView(SstView(Ulid(number), Ulid(number)), part, properties)


def properties_of(**known: int | None) -> SstProperties:
    values: dict[str, int | None] = {
        "min_create_ts": 1,
        "max_create_ts": 9,
        "min_expire_ts": None,
        "max_expire_ts": None,
        "puts": 5,
        "deletes": 0,
        "merges": 0,
        "any_flags": HAS_CREATE,
        "all_flags": HAS_CREATE,
        **known,
    }
    return SstProperties(created_ms=0, min_seq=1, max_seq=1, all_versions=False, **values)  # type: ignore[arg-type]


def text_of(ranges: tuple[KeyRange, ...]) -> str:
    def end(keys: KeyRange) -> str:
        assert keys.end is not None
        return keys.end.rstrip(b"\0").decode()

    return ", ".join(
        keys.start.decode() if keys == point_range(keys.start) else f"{keys.start.decode()}-{end(keys)}"
        for keys in ranges
    )


def show_files(case: Case) -> str:
    views = [view_of(number, line) for number, line in enumerate(case.lines)]
    operands = [point_range(key.encode()) for key in case.arguments.get("operands", "")]
    wal = [point_range(key.encode()) for key in case.arguments.get("wal", "")] + operands
    plan = plan_files(views, wal, operands, int(case.arguments["retired"]))
    fates = dict.fromkeys(plan.drops, "goes") | {due.stored: fate_of(due) for due in plan.due}
    assert [*fates] == [*plan.drops, *(due.stored for due in plan.due)]
    width = max(map(len, case.lines))
    return "\n".join(
        f"{line:{width}}  {fates.get(stored, 'stays')}" for line, stored in zip(case.lines, views, strict=True)
    )


def fate_of(due: DueView) -> str:
    facts = [
        "due",
        *([f"over {text_of(due.older)}"] if due.older else []),
        *([f"under {text_of(due.newer)}"] if due.newer else []),
        *(["operands"] if due.is_under_operands else []),
        *(["perhaps operands"] if due.stored.may_hold_operands else []),
    ]
    return ", ".join(facts)


def test_golden(rewrite: bool) -> None:
    run_golden(DATA / "maintenance" / "retention.txt", {"files": show_files}, rewrite=rewrite)


def test_a_chain_that_is_longer_than_the_search_stays_whole() -> None:
    """The oldest row is young; the operands over it fold the base above them, which is due, and so on."""
    lines, below = ["a-a 8..9"], "a"
    for first, last in zip("bdfhjlnprtvx", "cegikmoqsuwy", strict=True):
        lines += [f"{first}-{last} 1..2", f"{below}-{first} 1..2 +op"]
        below = last
    views = [view_of(number, line) for number, line in enumerate(reversed(lines))]
    assert len(views) > 2 * MAX_SWEEPS
    drops = set(plan_files(views, (), (), 5).drops)
    for newer, older in itertools.combinations(views, 2):
        if newer.part.keys.overlaps(older.part.keys):
            assert older in drops or newer not in drops, "it would bring an older row back"
            assert newer in drops or older not in drops or not newer.may_hold_operands, "operands would lose their base"


# --- properties -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "past", "due"),
    [
        ({}, False, True),
        ({"max_create_ts": 5}, True, True),
        ({"max_create_ts": 5, "all_flags": 0}, False, True),
        ({"max_create_ts": 5, "puts": 0, "deletes": 5}, True, False),
        ({"min_create_ts": 6}, False, False),
        ({"min_create_ts": None, "max_create_ts": None, "any_flags": 0, "all_flags": 0}, False, False),
        ({"min_create_ts": None, "max_create_ts": None}, False, False),
    ],
)
def test_decisions_from_properties(known: dict[str, int | None], past: bool, due: bool) -> None:
    properties = properties_of(**known)
    assert is_past(properties, 5) is past
    assert may_hold_due_rows(properties, 5) is due


def test_an_unknown_file_may_hold_anything() -> None:
    assert not is_past(None, 2**63 - 1)
    assert may_hold_due_rows(None, -(2**63))


def test_the_next_deadline_is_that_of_the_oldest_remaining_row() -> None:
    part = FileSlice(file_of(1), ALL_KEYS)

    def deadline(*known: dict[str, int | None] | None, youngest: int | None = None, latest: int = 50) -> int:
        views = [
            StoredView(SstView(Ulid(1), Ulid(1)), part, None if facts is None else properties_of(**facts))
            for facts in known
        ]
        return next_deadline(views, {} if youngest is None else {part: youngest}, latest, 5, 100)

    assert deadline() == 150, "nothing is left"
    assert deadline({"min_create_ts": 6}, {"min_create_ts": 7}) == 106
    assert deadline({"min_create_ts": 5}) == 150, "the remaining rows are unknown"
    assert deadline({"min_create_ts": 5}, youngest=9) == 109
    assert deadline({"min_create_ts": None, "max_create_ts": None}) == deadline(None) == 150
    assert deadline(latest=2**63 - 5) == 2**63 - 1


# --- blocks ---------------------------------------------------------------------------------------------------------


def outline_of(*blocks: tuple[int, int, int, int, bool]) -> FileOutline:
    """An outline of blocks: smallest and largest create_ts, rows, tombstones, whether all rows have create_ts."""
    count = len(blocks)
    low, high, rows, deletes = (np.array([block[at] for block in blocks], np.int64) for at in range(4))
    ends = np.arange(count + 1)
    index = SstIndex(ends[:-1] * 100, np.arange(count, dtype=np.uint8), ends, np.zeros(count, np.int64))
    none = np.zeros(count, np.int64)
    all_flags = np.array([HAS_CREATE * block[4] for block in blocks], np.uint8)
    bounds = BlockBounds(low, high, none, none, np.full(count, HAS_CREATE, np.uint8), all_flags)
    edges = np.arange(count + 1) * 100
    return FileOutline(index, edges, properties_of(), bounds, rows, deletes)


def test_blocks_are_read_if_a_live_row_may_be_due() -> None:
    outline = outline_of(
        (10, 100, 10, 0, True),
        (100, 101, 10, 4, True),
        (101, 200, 10, 0, True),
        (5, 9, 10, 10, True),
        (5, 9, 9, 0, False),
    )
    found = plan_due_blocks(FileSlice(file_of(1), ALL_KEYS), outline, 100)
    assert found.reads == ((0, 2), (4, 5))
    assert (found.certain, found.possible, found.rows, found.stored_bytes) == (10, 25, 49, 300)
    assert found.youngest_ms == 101


@pytest.mark.parametrize(
    ("certain", "possible", "treatment"),
    [
        (6, 6, Treatment.REWRITE),
        (5, 6, Treatment.COUNT),
        (0, 5, Treatment.TOMBSTONES),
        (5, 5, Treatment.TOMBSTONES),
    ],
)
def test_a_file_is_rewritten_if_more_than_half_of_its_rows_are_due(
    certain: int, possible: int, treatment: Treatment
) -> None:
    outline = outline_of((1, 5, certain, 0, True), (1, 9, possible - certain, 0, True), (9, 9, 10 - possible, 0, True))
    blocks = plan_due_blocks(FileSlice(file_of(1), ALL_KEYS), outline, 5)
    puts = StoredView(SstView(Ulid(1), Ulid(1)), FileSlice(file_of(1), ALL_KEYS), properties_of())
    operands = StoredView(puts.view, puts.part, properties_of(merges=1))
    older = (point_range(b"k"),)
    for view in (DueView(puts), DueView(puts, older, older), DueView(operands), DueView(operands, (), older)):
        assert choose_treatment(view, blocks) is treatment
    for view in (DueView(puts, is_under_operands=True), DueView(operands, older)):
        assert choose_treatment(view, blocks) is Treatment.TOMBSTONES


# --- covers ---------------------------------------------------------------------------------------------------------

ends = st.sampled_from([b"", b"a", b"b", b"c", b"d", b"e", b"f"])
ranges = st.builds(KeyRange, ends, st.one_of(st.none(), ends))
