"""Which layers a compaction merges. A layer is given as the size of its file and its keys; runs count down to 0."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from slatespark.errors import OptionError
from slatespark.format.codecs import Compression
from slatespark.format.compactions import DrainSpec, TieredSpec
from slatespark.format.info import SstInfo
from slatespark.format.manifest import Manifest
from slatespark.format.references import SortedRun, SstHandle, SstMap, SstView
from slatespark.format.ulid import Ulid, make_ulid
from slatespark.ranges import KeyRange
from slatespark.table.compaction.plan import (
    CompactionPlan,
    SizeTiers,
    Tree,
    plan_due,
    plan_full,
    plan_interval,
    plan_l0,
    plan_size_tiered,
    trees_of,
)
from slatespark.table.read.planning.plan import plan_layers, range_size


@dataclass(frozen=True)
class File:
    """A file of a layer."""

    size: int
    first: bytes = b"a"
    last: bytes = b"z"


def tree(*runs: File | list[File], l0: tuple[File, ...] = ()) -> Tree:
    """A tree of L0 views and runs, newest first; files are numbered in this order, from 1."""
    handles: list[SstHandle] = []

    def show(file: File) -> SstView:
        info = SstInfo(
            first_entry=file.first,
            last_entry=file.last,
            index_offset=file.size,
            index_len=0,
            filter_offset=file.size,
            filter_len=0,
            compression=Compression.NONE,
        )
        handles.append(SstHandle(make_ulid(1, len(handles) + 1), info))
        return SstView(handles[-1].id, handles[-1].id)

    views = tuple(show(file) for file in l0)
    compacted = tuple(
        SortedRun(len(runs) - 1 - at, tuple(show(file) for file in (run if isinstance(run, list) else [run])))
        for at, run in enumerate(runs)
    )
    manifest = Manifest(ssts=SstMap(handles), l0=views, compacted=compacted)
    found = trees_of(7, manifest, plan_layers(manifest, {}))
    return found[0] if found else Tree(7, (), len(runs))


def numbers(plan: CompactionPlan | None) -> list[int]:
    return [] if plan is None else [file.id.low for file in plan.files]


def sized(*sizes: int, l0: int = 0) -> Tree:
    return tree(*(File(size) for size in sizes), l0=(File(1),) * l0)


# --- size tiers: the client's own choices are in tests/interop --------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "chosen"),
    [
        pytest.param(sized(), [], id="an empty table"),
        pytest.param(sized(1, 1, 1), [], id="three runs"),
        pytest.param(sized(1, 1, 1, 1), [1, 2, 3, 4], id="four runs"),
        pytest.param(sized(1, 4, 4, 4), [1, 2, 3, 4], id="four times as large"),
        pytest.param(sized(1, 5, 5, 5), [], id="more than four times as large"),
        pytest.param(sized(9, 1, 1, 1, 1), [1, 2, 3, 4, 5], id="a large one above"),
        pytest.param(sized(1, 9, 9, 9, 9), [2, 3, 4, 5], id="a small one above"),
        pytest.param(sized(*[1] * 10), [3, 4, 5, 6, 7, 8, 9, 10], id="the oldest eight of ten"),
        pytest.param(sized(l0=3), [], id="three L0 views"),
        pytest.param(sized(l0=4), [1, 2, 3, 4], id="four L0 views"),
        pytest.param(sized(1, 1, l0=10), [3, 4, 5, 6, 7, 8, 9, 10], id="the oldest eight L0 views"),
        pytest.param(sized(*[8] * 8, l0=4), [5, 6, 7, 8, 9, 10, 11, 12], id="eight runs wait below L0"),
    ],
)
def test_size_tiered_choice(found: Tree, chosen: list[int]) -> None:
    assert numbers(plan_size_tiered(found, SizeTiers())) == chosen


@pytest.mark.parametrize(
    ("found", "busy", "chosen"),
    [
        pytest.param(sized(*[1] * 9), {4}, [6, 7, 8, 9], id="the newer ones wait for all below"),
        pytest.param(sized(1, 1, 1, 1, 5), {0}, [1, 2, 3, 4], id="a run ends the series"),
        pytest.param(sized(*[1] * 9), {6}, [4, 5, 6, 7, 8, 9], id="the next series"),
        pytest.param(sized(*[1] * 7), {3}, [], id="two short ones"),
        pytest.param(sized(l0=5), {make_ulid(1, 2)}, [], id="an L0 view"),
        pytest.param(sized(1, 1, 1, 1, l0=2), {make_ulid(1, 1)}, [3, 4, 5, 6], id="an L0 view above runs"),
        pytest.param(sized(*[1] * 5), {make_ulid(1, 5)}, [1, 2, 3, 4], id="a view that was in L0"),
    ],
)
def test_size_tiered_choice_with_busy_layers(found: Tree, busy: set[int | Ulid], chosen: list[int]) -> None:
    assert numbers(plan_size_tiered(replace(found, busy=frozenset(busy)), SizeTiers())) == chosen


def test_sources_of_other_compactions_are_busy() -> None:
    view_id = make_ulid(1, 7)
    found = sized(1, 1).with_busy([TieredSpec((view_id,), (5, 4), 4), TieredSpec((), (), 9), DrainSpec(b"s", (), (3,))])
    assert found.busy == {view_id, 5, 4, 3}
    assert found.next_run_id == 10, "outputs have distinct numbers"


def test_size_tier_parameters() -> None:
    assert numbers(plan_size_tiered(sized(1, 1, 9), SizeTiers(2, 2, 1.0))) == [1, 2]
    assert numbers(plan_size_tiered(sized(1, 9), SizeTiers(2, 8, 9.0))) == [1, 2]
    assert SizeTiers.parse("2", 9, 1.5) == SizeTiers(2, 9, 1.5)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((1, 8, 4), "minCompactionSources"),
        ((4, 3, 4), "minCompactionSources"),
        ((4, 8, 0.5), "includeSizeThreshold"),
        ((4, 8, float("nan")), "includeSizeThreshold"),
        ((4, 8, float("inf")), "includeSizeThreshold"),
        ((4, 8, "many"), "includeSizeThreshold"),
    ],
)
def test_invalid_size_tier_parameters(given: tuple[object, object, object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        SizeTiers.parse(*given)


# --- the others -------------------------------------------------------------------------------------------------------

LAYERS = tree(File(5, b"a", b"f"), [File(6, b"a", b"g"), File(7, b"h", b"z")], l0=(File(3, b"x", b"z"), File(4)))


def test_full_plan() -> None:
    plan = plan_full(LAYERS)
    assert plan is not None
    assert numbers(plan) == [1, 2, 3, 4, 5]
    assert (plan.destination, plan.is_lowest, plan.above) == (0, True, frozenset())
    assert (plan.spec.sorted_runs, len(plan.spec.l0_view_ids), plan.spec.destination) == ((1, 0), 2, 0)
    assert plan_full(tree()) is None
    assert plan_full(tree([])) is None, "a run without a view"


def test_interval_plan() -> None:
    plan = plan_interval(LAYERS, [KeyRange(b"h", b"k")])
    assert plan is not None
    assert numbers(plan) == [2, 5]
    assert [part.keys for layer in plan.layers for part in layer.slices] == [KeyRange(b"h", b"k")] * 2
    assert plan.is_lowest
    assert plan.spec.sorted_runs == (0,)
    assert plan_interval(LAYERS, [KeyRange(b"zz", None)]) is None
    several = plan_interval(LAYERS, [KeyRange(b"a", b"b"), KeyRange(b"y", None)])
    assert numbers(several) == [1, 2, 3, 4, 5]


def test_l0_plan() -> None:
    plan = plan_l0(LAYERS)
    assert plan is not None
    assert numbers(plan) == [1, 2]
    assert (plan.destination, plan.is_lowest) == (2, False), "a new run"
    assert plan_l0(sized(1)) is None


def test_due_files_stay_in_their_layer() -> None:
    due = {make_ulid(1, number) for number in (4, 5)}
    plan = plan_due(LAYERS, due)
    assert plan is not None
    assert (numbers(plan), plan.is_lowest) == ([4, 5], True)
    assert plan.keys == (KeyRange(b"a", b"g\0"), KeyRange(b"h", b"z\0"))
    assert {each.low for each in plan.above} == {1, 2, 3}
    newest = plan_due(LAYERS, {make_ulid(1, 2), *due})
    assert newest is not None
    assert (numbers(newest), newest.is_lowest) == ([2], False), "layer by layer, the newest one first"
    assert plan_due(LAYERS, set()) is None


def test_due_files_that_share_a_key() -> None:
    found = tree([File(1, b"a", b"k"), File(1, b"k", b"z"), File(1, b"zz", b"zzz")])
    plan = plan_due(found, {make_ulid(1, 1)})
    assert plan is not None
    assert numbers(plan) == [1, 2], "the older versions of its last key are in the next one"
    both = plan_due(found, {make_ulid(1, 1), make_ulid(1, 2)})
    assert both is not None
    assert both.keys == (KeyRange(b"a", b"z\0"),)


def test_a_layer_in_between_without_the_keys() -> None:
    found = tree(File(1, b"a", b"c"), File(1, b"x", b"z"), File(1, b"a", b"c"))
    plan = plan_interval(found, [KeyRange(b"a", b"d")])
    assert plan is not None
    assert plan.spec.sorted_runs == (2, 0)
    assert replace(plan, kind="other").stored_bytes == 2


@pytest.mark.parametrize(
    ("stored", "parallelism", "expected"),
    [
        (1000, 1, 250),  # four ranges of maximum size
        (1001, 1, 201),  # five similar ones, not four and a rest
        (1001, 2, 167),  # in three rounds
        (200, 2, 100),  # one would do, but two are merged at a time
        (200, 8, 67),  # no smaller than a file
        (90, 8, 90),
        (0, 8, 1),
    ],
)
def test_ranges_are_similar_and_fill_the_workers(stored: int, parallelism: int, expected: int) -> None:
    assert range_size(stored, most_bytes=250, least_bytes=60, parallelism=parallelism) == expected
