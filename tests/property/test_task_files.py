"""Files of tasks: the runs they go into, and which of them share keys with another task."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from slatespark.ranges import KeyRange, pair_overlapping
from slatespark.table.commit.publication import stack_outputs
from slatespark.table.rows.overlaps import find_overlapping
from slatespark.table.rows.sst_upload import NewFile
from tests.unit.table.commit.test_publication import new_file

letters = st.text("abcdef", min_size=1, max_size=2)


@st.composite
def tasks_of_files(draw: st.DrawFn) -> list[tuple[NewFile, ...]]:
    tasks = []
    for number in range(draw(st.integers(0, 12))):
        ends = sorted(draw(st.sets(letters, max_size=6)))
        pairs = pairwise(ends) if draw(st.booleans()) else zip(ends[::2], ends[1::2], strict=False)
        tasks.append(tuple(new_file(100 * number + place, *pair) for place, pair in enumerate(pairs)))
    return tasks


@given(tasks_of_files())
def test_a_task_goes_just_above_every_earlier_one_that_it_overlaps(tasks: list[tuple[NewFile, ...]]) -> None:
    expected: list[list[NewFile]] = []
    placed: list[tuple[KeyRange, int]] = []
    for files in filter(None, tasks):
        extent = KeyRange(files[0].keys.start, files[-1].keys.end)
        level = max((1 + below for other, below in placed if extent.overlaps(other)), default=0)
        expected += [[]] * (level == len(expected))
        expected[level] = [*expected[level], *files]
        placed.append((extent, level))
    assert stack_outputs(tasks) == expected


@given(tasks_of_files())
def test_all_files_that_meet_one_of_another_task_are_found(tasks: list[tuple[NewFile, ...]]) -> None:
    spans = ((file.keys, (task, file)) for task, files in enumerate(tasks) for file in files)
    shared = {one for pair in pair_overlapping(spans) if pair[0][0] != pair[1][0] for one in pair}
    expected = tuple(tuple(file for file in files if (task, file) in shared) for task, files in enumerate(tasks))
    assert find_overlapping(tasks) == expected
