"""The table of pairs in the docs says what happens: each cell is tried with keys that meet, and with others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from slatespark import ConflictError
from slatespark.storage.memory_store import MemoryStore
from tests.faults.actions import (
    ACTIONS,
    Action,
    Objects,
    append_operand,
    copied,
    count_up,
    delete_range,
    delete_some,
    make_table,
    replace_range,
    upsert,
)
from tests.support.cluster import REPOSITORY
from tests.support.failing_store import FailingStore

PAGE: Final = REPOSITORY / "docs" / "explanation" / "concurrent-writers.md"
CLAIM: Final = "slatespark/claims/[0-9]*"  # noted right before the claim: what comes then came while the job ran


def compact(start: bytes, end: bytes) -> Action:
    return Action("", lambda table, **options: table.compact(startKey=start, endKey=end, **options), is_blind=False)


# Of each kind some that touch k05, and some that touch what is beyond y.
KINDS: Final[dict[str, tuple[list[Action], list[Action]]]] = {
    "upsert, ingest": (
        [upsert("", k05="x"), append_operand("", b"k05", operand=b"*"), ACTIONS["ingest"], ACTIONS["delete keys"]],
        [upsert("", y5="x"), append_operand("", b"y5", operand=b"*")],
    ),
    "replace, deleteRange": (
        [replace_range("", b"k05", b"k06", k05="r"), delete_range("", b"k04", b"k07"), ACTIONS["overwrite"]],
        [replace_range("", b"y5", b"y6", y5="r"), delete_range("", b"y4", b"y7")],
    ),
    "delete, merge, transaction": (
        [count_up("", b"k05", b"t"), delete_some("", b"k04", b"k08", b"b")],
        [count_up("", b"y5", b"t"), delete_some("", b"y4", b"y8", b"b")],
    ),
    "restore, trim": ([ACTIONS["restore"]], []),
    "compact": ([compact(b"k03", b"k07")], [compact(b"y0", b"z")]),
    "reap": ([ACTIONS["reap"]], []),
    "checkpoint, vacuum, properties": ([ACTIONS[name] for name in ("checkpoint", "vacuum", "set properties")], []),
}
# They work on all keys, and so meet the deletions below that look through all of them.
WHOLE_TABLE: Final = [ACTIONS["delete by condition"]]


def cells() -> Iterator[tuple[str, str, str]]:
    """Yield what commits last, what was committed meanwhile, and what the page says of them."""
    lines = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("|")]
    head = next(at for at, line in enumerate(lines) if "reap" in line)
    columns = lines[head]
    for row in lines[head + 2 : head + 2 + len(columns)]:
        yield from ((row[0], column, cell) for column, cell in zip(columns, row[1:], strict=True))


CELLS: Final = list(cells())


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Objects:
    """The table of all the pairs, and rows beyond y in files of their own."""
    return make_table(tmp_path_factory.mktemp("base") / "db", {b"y4": b"a", b"y5": b"b"})


def is_refused(base: Objects, last: Action, meanwhile: Action) -> bool:
    with copied(base) as inner:
        store = FailingStore(inner).run(lambda: _run(inner, meanwhile), "put", CLAIM)
        try:
            last.on(1)(store)
        except ConflictError:
            return True
        return False


def _run(inner: MemoryStore, action: Action) -> None:
    action.on(2)(inner)


def test_the_page_has_a_row_and_a_column_for_every_kind() -> None:
    assert {(row, column) for row, column, _ in CELLS} == {(row, column) for row in KINDS for column in KINDS}
    assert {cell for *_, cell in CELLS} == {"both", "keys", "no", "files"}


@pytest.mark.parametrize(("last", "meanwhile", "cell"), CELLS)
def test_a_cell_says_what_happens(base: Objects, last: str, meanwhile: str, cell: str) -> None:
    near, far = KINDS[last]
    met, unmet = KINDS[meanwhile]
    if cell == "keys" and meanwhile == "reap":
        near = WHOLE_TABLE
    for other in met:
        assert is_refused(base, near[0], other) == (cell in ("keys", "no"))
    for other in unmet:
        assert is_refused(base, near[0], other) == (cell == "no")
    for each in far:
        assert is_refused(base, each, met[0]) == (cell == "no")
