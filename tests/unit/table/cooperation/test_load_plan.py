"""Which files of a load and of the layers that it replaces are merged. A file is its first and its last letter."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slatespark.format.compactions import Compactions, TieredSpec
from slatespark.format.manifest import Manifest, Segment
from slatespark.format.references import BytesRange, SortedRun, SstMap, SstView
from slatespark.ranges import KeyRange, key_after
from slatespark.table.cooperation.load_plan import (
    CopiedFile,
    KeptFile,
    LoadSources,
    MergedKeys,
    Piece,
    plan_pieces,
    plan_sources,
    plan_specs,
)
from slatespark.table.read.planning.plan import plan_layers
from slatespark.table.rows.sst_upload import NewFile
from slatespark.table.stores import SCRATCH_ROOT
from tests.unit.table.commit.test_publication import new_file

SEQ = 50  # of the manifest


def load_of(*files: str) -> list[NewFile]:
    return [new_file(number, *text.split("-")) for number, text in enumerate(files, 1)]


def tree(l0: list[str], *runs: list[str], cut: str | None = None) -> Manifest:
    """L0 views, newest first, and runs, newest first; `cut` is a range to which every view is cut."""
    handles = [
        new_file(100 * layer + place, *text.split("-")).handle
        for layer, files in enumerate([l0, *runs], 1)
        for place, text in enumerate(files)
    ]
    visible = None
    if cut is not None:
        start, end = cut.encode().split(b"-")
        visible = BytesRange.of(KeyRange(start, key_after(end)))
    views = [SstView(handle.id, handle.id, visible) for handle in handles]
    compacted = []
    at = len(l0)
    for number, files in zip(range(len(runs), 0, -1), runs, strict=True):
        compacted.append(SortedRun(number, tuple(views[at : at + len(files)])))
        at += len(files)
    return Manifest(ssts=SstMap(handles), l0=tuple(views[: len(l0)]), compacted=tuple(compacted), last_l0_seq=SEQ)


def sources_of(
    manifest: Manifest, limit_bytes: int = 1000, *, share_keys: bool = False, with_runs: tuple[int, ...] = ()
) -> LoadSources | None:
    layers = plan_layers(manifest, {})
    found = plan_sources(manifest, layers, [b""], limit_bytes=limit_bytes, share_keys=share_keys, with_runs=with_runs)
    return found[0] if found else None


def pieces(load: list[NewFile], manifest: Manifest, *, moves: bool = False, small_bytes: int = 0) -> list[str]:
    sources = sources_of(manifest)
    assert sources is not None
    return [shown(piece) for piece in plan_pieces([load], sources, moves=moves, small_bytes=small_bytes)]


def shown(piece: Piece) -> str:
    match piece:
        case KeptFile(file):
            return f"kept {letters(file.keys)}"
        case CopiedFile(part):
            return f"copied {letters(part.keys)}"
        case MergedKeys(keys, layers):
            return f"merged {letters(keys)} of {len(layers)}"


def letters(keys: KeyRange) -> str:
    return f"{keys.start.decode()}-{(keys.end or b'').removesuffix(bytes(1)).decode()}"


# --- sources --------------------------------------------------------------------------------------------------------


def test_all_l0_views_are_replaced() -> None:
    found = sources_of(tree(["a-c", "b-d"], ["a-z"]))
    assert found is not None
    assert (found.l0_views, len(found.layers), found.seq, found.is_lowest) == (2, 2, SEQ, False)


def test_without_l0_the_newest_run_is_replaced() -> None:
    manifest = tree([], ["a-c", "d-f"], ["a-z"])
    found = sources_of(manifest)
    assert found is not None
    assert (found.l0_views, found.runs, found.is_lowest) == (0, manifest.compacted[:1], False)


def test_a_run_may_have_to_be_replaced_too() -> None:
    """That of a commit which the job depends on."""
    manifest = tree(["a-b"], ["c-d"], ["d-e"])
    found = sources_of(manifest, with_runs=(2, 7))
    assert found is not None
    assert found.spec(manifest, Compactions(1)) == TieredSpec((manifest.l0[0].id,), (2,), 2)
    assert sources_of(manifest, limit_bytes=0, with_runs=(2,)) is None
    assert sources_of(tree([], ["c-d"], ["d-e"]), with_runs=(1,)) is not None
    several = sources_of(tree(["a-b"], ["c-d"], ["d-e"], ["f-g"]), with_runs=(3, 2))
    assert several is not None
    assert [run.id for run in several.runs] == [3, 2]


def test_sources_may_have_to_share_keys() -> None:
    """Of L0 views that do not the newest run that does is replaced too."""
    manifest = tree(["a-b", "e-f"], ["c-d"], ["d-e"], ["a-z"])
    found = sources_of(manifest, share_keys=True)
    assert found is not None
    assert (found.l0_views, found.runs, found.is_lowest) == (2, manifest.compacted[:2], False)
    spec = TieredSpec(tuple(view.id for view in manifest.l0), (3, 2), 2)
    assert found.spec(manifest, Compactions(1)) == spec
    flushed = replace(manifest, l0=(manifest.compacted[2].views[0], *manifest.l0))
    assert found.spec(flushed, Compactions(1)) == spec, "a newer view stays"
    assert found.spec(replace(manifest, compacted=manifest.compacted[1:]), Compactions(1)) is None
    assert sources_of(manifest, share_keys=True, limit_bytes=1) is None
    assert sources_of(tree(["a-b", "c-d"], ["e-f"]), share_keys=True) is None


def test_a_large_run_is_not_replaced() -> None:
    manifest = tree([], ["a-c", "d-f"])
    assert sources_of(manifest, limit_bytes=20) is not None
    assert sources_of(manifest, limit_bytes=19) is None
    assert sources_of(tree(["a-b"], ["a-c", "d-f"]), limit_bytes=0) is not None


def test_an_empty_tree_has_no_sources() -> None:
    assert sources_of(tree([])) is None


@pytest.mark.parametrize(
    ("manifest", "lowest"),
    [(tree(["a-c"]), True), (tree(["a-c"], ["a-c"]), False), (tree([], ["a-c"]), True), (tree(["a-c"], []), True)],
)
def test_tombstones_go_where_nothing_lies_below(manifest: Manifest, lowest: bool) -> None:
    found = sources_of(manifest)
    assert found is not None
    assert found.is_lowest is lowest


def test_a_job_on_a_later_version() -> None:
    """Newer L0 views stay above; sources that were merged or moved are gone."""
    before = tree(["b-c", "d-e"], ["a-z"])
    sources = sources_of(before)
    assert sources is not None
    newer = SstView(new_file(900, "a", "b").handle.id, new_file(900, "a", "b").handle.id)
    spec = sources.spec(replace(before, l0=(newer, *before.l0)), Compactions(0))
    assert spec is not None
    assert (spec.l0_view_ids, spec.sorted_runs) == (tuple(view.id for view in before.l0), ())
    assert spec.destination > before.compacted[0].id
    assert sources.spec(replace(before, l0=before.l0[:1]), Compactions(0)) is None
    assert sources.spec(replace(before, l0=(newer,)), Compactions(0)) is None
    assert sources.spec(replace(before, l0=()), Compactions(0)) is None


def test_a_job_on_a_run_that_was_rewritten() -> None:
    before = tree([], ["a-c"], ["a-z"])
    sources = sources_of(before)
    assert sources is not None
    spec = sources.spec(before, Compactions(0))
    assert spec is not None
    assert (spec.sorted_runs, spec.destination) == ((2,), 2)
    rewritten = SortedRun(2, before.compacted[1].views)
    assert sources.spec(replace(before, compacted=(rewritten, before.compacted[1])), Compactions(0)) is None
    above = SortedRun(3, before.compacted[1].views)
    assert sources.spec(replace(before, compacted=(above, *before.compacted)), Compactions(0)) is None


def segmented(manifest: Manifest, *prefixes: bytes) -> Manifest:
    """Segments, all of them with the files of one tree."""
    trees = [Segment(prefix, None, manifest.l0, manifest.compacted) for prefix in prefixes]
    return replace(manifest, l0=(), compacted=(), segments=tuple(trees), segment_extractor_name="any")


def test_each_segment_of_the_load_has_its_own_sources() -> None:
    manifest = segmented(tree(["b-c"], ["a-z"]), b"a", b"b", b"c")
    found = plan_sources(manifest, plan_layers(manifest, {}), [b"a", b"c", b"d"], limit_bytes=1000)
    assert [(each.tree.prefix, each.l0_views, len(each.layers)) for each in found] == [(b"a", 1, 1), (b"c", 1, 1)]
    specs = plan_specs(found, manifest, Compactions(0))
    assert specs is not None
    assert [spec.segment for spec in specs] == [b"a", b"c"]
    assert len({spec.destination for spec in specs}) == 2
    drained = replace(manifest, segments=(manifest.segments[0], replace(manifest.segments[2], l0=())))
    assert plan_specs(found, drained, Compactions(0)) is None
    assert plan_specs(found, replace(manifest, segments=manifest.segments[:2]), Compactions(0)) is None


# --- files ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("load", "l0", "found"),
    [
        pytest.param(["a-c"], ["d-f"], ["kept a-c", "copied d-f"], id="apart"),
        pytest.param(["d-f"], ["a-c"], ["copied a-c", "kept d-f"], id="in key order"),
        pytest.param(["a-c"], ["c-f"], ["merged a-f of 2"], id="they meet in a key"),
        pytest.param(["a-c"], ["c\0-f"], ["kept a-c", "copied c\0-f"], id="no key lies between"),
        pytest.param(["a-c"], ["d-f", "e-g"], ["kept a-c", "merged d-g of 2"], id="L0 files that meet each other"),
        pytest.param(
            ["a-c", "d-f", "h-k"], ["e-e", "g-g"], ["kept a-c", "merged d-f of 2", "copied g-g", "kept h-k"], id="some"
        ),
        pytest.param(["a-c", "f-h"], ["b-g"], ["merged a-h of 2"], id="one that meets two"),
        pytest.param(["a-c", "d-f"], ["b-b", "e-e"], ["merged a-f of 3"], id="neighbours are merged together"),
    ],
)
def test_files_are_merged_only_where_they_meet(load: list[str], l0: list[str], found: list[str]) -> None:
    assert pieces(load_of(*load), tree(l0, ["a-z"])) == found


def test_files_of_several_tasks_are_merged_where_they_meet() -> None:
    sources = sources_of(tree(["g-h"]))
    assert sources is not None
    one, other = [new_file(1, "a", "b"), new_file(2, "d", "e")], [new_file(3, "e", "f"), new_file(4, "k", "l")]
    found = plan_pieces([other, one], sources, moves=False, small_bytes=0)
    assert [shown(piece) for piece in found] == ["kept a-b", "merged d-f of 2", "copied g-h", "kept k-l"]
    [merged] = [piece for piece in found if isinstance(piece, MergedKeys)]
    assert [letters(layer.slices[0].keys) for layer in merged.layers] == ["e-f", "d-e"], "the newer task first"


def test_files_on_local_disk_are_written_to_the_table() -> None:
    sources = sources_of(tree(["d-f"]))
    assert sources is not None
    near = [replace(file, root=SCRATCH_ROOT) for file in load_of("a-c")]
    found = plan_pieces([near], sources, moves=False, small_bytes=0)
    assert [shown(piece) for piece in found] == ["merged a-c of 1", "copied d-f"]


def test_files_whose_rows_move_are_written_anew() -> None:
    assert pieces(load_of("a-c"), tree(["d-f"]), moves=True) == ["merged a-c of 1", "copied d-f"]


def test_a_view_that_is_cut_is_written_anew() -> None:
    assert pieces(load_of("a-b"), tree(["c-f"], cut="d-e")) == ["kept a-b", "merged d-e of 1"]


def test_the_files_of_a_run_may_share_a_key() -> None:
    manifest = tree([], ["b-d", "d-f"])
    assert pieces(load_of("a-a", "g-g"), manifest) == ["kept a-a", "copied b-d", "copied d-f", "kept g-g"]


def test_small_files_are_merged_with_their_neighbours() -> None:
    manifest = tree(["c-d"])
    assert pieces(load_of("a-b"), manifest, small_bytes=10) == ["kept a-b", "copied c-d"]
    assert pieces(load_of("a-b"), manifest, small_bytes=11) == ["merged a-d of 2"]


def test_a_small_file_is_merged_with_what_is_merged_next_to_it() -> None:
    assert pieces(load_of("a-c", "e-f"), tree(["b-d"]), small_bytes=11) == ["merged a-f of 2"]


def test_small_files_beside_a_large_one_stay() -> None:
    """Two files that share a key are one, and those at both ends are no neighbours."""
    manifest = tree([], ["b-d", "d-f"])
    found = ["kept a-a", "copied b-d", "copied d-f", "kept g-g"]
    assert pieces(load_of("a-a", "g-g"), manifest, small_bytes=11) == found


def test_a_file_whose_last_key_is_not_known_meets_all_behind_it() -> None:
    manifest = tree(["c-d"])
    (handle,) = manifest.ssts.values()
    unbounded = replace(handle, info=replace(handle.info, last_entry=None))
    manifest = replace(manifest, ssts=SstMap([unbounded]))
    assert pieces(load_of("a-b", "m-n", "x-z"), manifest) == ["kept a-b", "merged c- of 2"]


spans = st.lists(st.text("abcdefghij", min_size=1, max_size=1), min_size=2, max_size=8, unique=True).map(sorted)


@given(load=spans, l0=st.lists(spans, min_size=1, max_size=3), small_bytes=st.sampled_from([0, 11]))
def test_every_file_is_in_one_piece_and_pieces_do_not_overlap(
    load: list[str], l0: list[list[str]], small_bytes: int
) -> None:
    files = [f"{first}-{last}" for first, last in zip(load[::2], load[1::2], strict=False)]
    views = [f"{span[0]}-{span[-1]}" for span in l0]
    sources = sources_of(tree(views))
    assert sources is not None
    planned = plan_pieces([load_of(*files)], sources, moves=False, small_bytes=small_bytes)
    assert sorted(text for piece in planned for text in members(piece)) == sorted([*files, *views])
    spans = [extent(piece) for piece in planned]
    assert all(one.end is not None and one.end <= other.start for one, other in pairwise(spans))


def members(piece: Piece) -> list[str]:
    match piece:
        case KeptFile(file):
            return [letters(file.keys)]
        case CopiedFile(part):
            return [letters(part.keys)]
        case MergedKeys(_, layers):
            return [letters(part.keys) for layer in layers for part in layer.slices]


def extent(piece: Piece) -> KeyRange:
    match piece:
        case KeptFile(file):
            return file.keys
        case CopiedFile(part):
            return part.keys
        case MergedKeys(keys):
            return keys
