"""Which files of several tasks share keys. Files are pairs of letters, first and last key."""

from __future__ import annotations

import sys

import pytest

from slatespark.table.rows.overlaps import find_overlapping
from slatespark.table.rows.sst_upload import NewFile
from tests.unit.table.commit.test_publication import new_file


def task(number: int, *files: str) -> tuple[NewFile, ...]:
    return tuple(new_file(100 * number + place, *text.split("-")) for place, text in enumerate(files))


def shown(file: NewFile) -> str:
    info = file.handle.info
    return f"{(info.first_entry or b'').decode()}-{(info.last_entry or b'').decode()}"


@pytest.mark.parametrize(
    ("tasks", "shared"),
    [
        pytest.param([], [], id="no tasks"),
        pytest.param([["a-c"]], [[]], id="one task"),
        pytest.param([["a-c"], ["d-f"]], [[], []], id="apart"),
        pytest.param([["a-c"], ["c-f"]], [["a-c"], ["c-f"]], id="the last key is the first of the other"),
        pytest.param([["a-z"], ["m-m"]], [["a-z"], ["m-m"]], id="one within the other"),
        pytest.param([["a-c", "c-f"]], [[]], id="a key that continues in the next file of its task"),
        pytest.param(
            [["a-c", "c-f", "h-k"], [], ["d-e"]], [["c-f"], [], ["d-e"]], id="only the files that share, in place"
        ),
        pytest.param(
            [["a-z"], ["b-c", "x-y"], ["e-f"]],
            [["a-z"], ["b-c", "x-y"], ["e-f"]],
            id="a long file meets those that begin late",
        ),
        pytest.param([["a-d"], ["a-d"], ["a-d"]], [["a-d"], ["a-d"], ["a-d"]], id="the same keys"),
        pytest.param([["a-d"], ["e-h"], ["d-e"]], [["a-d"], ["e-h"], ["d-e"]], id="a bridge between two"),
    ],
)
def test_files_that_share_keys_with_another_task(tasks: list[list[str]], shared: list[list[str]]) -> None:
    outputs = [task(number, *files) for number, files in enumerate(tasks)]
    assert [[shown(file) for file in files] for files in find_overlapping(outputs)] == shared


def test_tasks_that_all_share_keys_are_not_paired_with_each_other() -> None:
    """They were: for 10,000 unsorted tasks that took most of a minute."""
    count, calls = 1_000, 0

    def counted(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    outputs = [task(number, f"{number:04}-{9999 - number % 7}") for number in range(count)]
    sys.setprofile(counted)
    try:
        shared = find_overlapping(outputs)
    finally:
        sys.setprofile(None)
    assert [len(files) for files in shared] == [1] * count
    assert calls < 100 * count
