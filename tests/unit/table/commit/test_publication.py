"""Plans as text: `tests/data/table/*.txt`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from slatespark.format.info import SstInfo
from slatespark.format.invariants import check_manifest
from slatespark.format.manifest import Manifest, Segment
from slatespark.format.manifest_codec import decode_manifest, encode_manifest
from slatespark.format.properties import SstProperties
from slatespark.format.references import SortedRun, SstHandle, SstMap, SstView
from slatespark.format.segments import WHOLE, KeySegments, SegmentExtractor
from slatespark.format.sequence_tracker import SequenceTracker
from slatespark.format.ulid import Ulid
from slatespark.ranges import KeyRange, key_after
from slatespark.table.commit.job import LAST_SEQ
from slatespark.table.commit.publication import CommitChange, last_seq_of, next_manifest, stack_outputs
from slatespark.table.commit.tree_edit import DROP_TREES, KEEP_TREES, CutViews, TreeEdit
from slatespark.table.read.planning.plan import CutPoint, FileSlice, Layer, SstFile, plan_splits
from slatespark.table.rows.sst_upload import NewFile
from slatespark.table.stores import OWN_ROOT
from tests.support.golden import DATA, Case, run_golden

SLASH = KeySegments((), SegmentExtractor("slash", delimiter=b"/"))
FILES = sorted((DATA / "table").glob("*.txt"))


def info(first: str, last: str, size: int) -> SstInfo:
    return SstInfo(first.encode(), last.encode(), index_offset=size, index_len=5, filter_offset=size, filter_len=0)


# --- splits ---------------------------------------------------------------------------------------------------------


def print_splits(case: Case) -> str:
    layers = [parse_layer(number, line) for number, line in enumerate(case.lines)]
    start, _, end = case.arguments.get("keys", "..").partition("..")
    keys = KeyRange(start.encode(), end.encode() or None)
    splits = plan_splits(layers, keys, target_bytes=int(case.arguments["target"]), sample=sample_evenly)
    return "\n".join(
        f"{shown_keys(split.keys)}: {' | '.join(map(shown_layer, split.layers))}".rstrip() for split in splits
    )


def parse_layer(number: int, line: str) -> Layer:
    name, _, files = line.partition(": ")
    slices = []
    for place, text in enumerate(files.split(", ")):
        first, last, size = text.split()
        file = SstFile(OWN_ROOT, Ulid(100 * number + place), info(first, last, int(size)), 2)
        slices.append(FileSlice(file, file.info.key_range()))
    return Layer(name, tuple(slices))


def sample_evenly(files: Sequence[SstFile], spacing_bytes: int) -> list[list[CutPoint]]:
    return [sample_file_evenly(file, spacing_bytes) for file in files]


def sample_file_evenly(file: SstFile, spacing_bytes: int) -> list[CutPoint]:
    """Cut points as given by an index of small blocks; keys are letters."""
    first, last = ord(file.info.first_entry or b"a"), ord(file.info.last_entry or b"z")
    count = -(-file.data_bytes // spacing_bytes)
    places = range(0, file.data_bytes, spacing_bytes)
    keys = [bytes([first + (last - first) * number // count]) for number in range(count)]
    return [CutPoint(key, min(spacing_bytes, file.data_bytes - place)) for key, place in zip(keys, places, strict=True)]


def shown_keys(keys: KeyRange) -> str:
    return f"[{keys.start.decode()}, {'' if keys.end is None else keys.end.decode()})"


def shown_layer(layer: Layer) -> str:
    return f"{layer.name} {', '.join(shown_slice(part) for part in layer.slices)}"


def shown_slice(part: FileSlice) -> str:
    end = "" if part.keys.end is None else part.keys.end.removesuffix(b"\0").decode()
    return f"{part.keys.start.decode()}-{end} {part.file.data_bytes}"


# --- outputs --------------------------------------------------------------------------------------------------------


def print_stack(case: Case) -> str:
    outputs = [parse_task(number, line) for number, line in enumerate(case.lines)]
    levels = stack_outputs(outputs)
    return "\n".join(
        f"run +{number}: {', '.join(shown_file(file) for file in level)}" for number, level in enumerate(levels)
    )


def parse_task(number: int, line: str) -> tuple[NewFile, ...]:
    _, _, files = line.partition(":")
    return tuple(
        new_file(100 * number + place, *text.strip().split("-"))
        for place, text in enumerate(files.split(","))
        if text.strip()
    )


def new_file(number: int, first: str, last: str) -> NewFile:
    properties = SstProperties(
        created_ms=0,
        min_create_ts=None,
        max_create_ts=None,
        min_expire_ts=None,
        max_expire_ts=None,
        min_seq=number,
        max_seq=number,
        puts=1,
        deletes=0,
        merges=0,
        any_flags=0,
        all_flags=0,
        all_versions=False,
    )
    return NewFile(SstHandle(Ulid(number), info(first, last, 10)), properties, 20)


def shown_file(file: NewFile) -> str:
    end = (file.keys.end or b"").removesuffix(b"\0").decode()
    return f"{file.keys.start.decode()}-{end} of task {file.properties.min_seq // 100}"


@pytest.mark.parametrize("width", [1, 100])
def test_a_task_is_not_compared_with_all_others(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """It was: a load of 10,000 tasks, or a transaction of a few hundred small writes, took minutes."""
    count, looks = 1_000, 0
    overlaps = KeyRange.overlaps

    def counted(one: KeyRange, other: KeyRange) -> bool:
        nonlocal looks
        looks += 1
        return overlaps(one, other)

    monkeypatch.setattr(KeyRange, "overlaps", counted)
    starts = [number * 7 % count for number in range(count)]
    tasks = [(new_file(at, f"{start:04}", f"{start + width - 1:04}"),) for at, start in enumerate(starts)]
    assert sum(map(len, stack_outputs(tasks))) == count
    assert looks < 20 * count


@pytest.mark.parametrize(
    ("tasks", "last"),
    [
        ([], 0),
        (["5 a-f"], 5),
        (["5 a-f", "6 d-k"], 6),
        (["5 a-f", "6 p-z"], 6),
        (["5 a-f", "6 d-k", "7 p-z"], 8),
        (["5 a-f", "6 d-k", "7 j-z"], 7),
        ([f"{LAST_SEQ - 2} a-f", f"{LAST_SEQ - 1} d-k", f"{LAST_SEQ} p-z"], LAST_SEQ),
        (["5 x/a-x/f", "6 x/d-x/k", "7 y/p-y/z"], 7),
        (["5 x/a-x/f", "6 x/d-x/k", "7 x/p-x/z, 8 y/p-y/z"], 8),
    ],
)
def test_no_row_below_a_newest_run_has_the_last_number(tasks: list[str], last: int) -> None:
    """A load beside a client gets it, and would tie with such a row."""
    segments = SLASH if any("/" in task for task in tasks) else WHOLE
    assert last_seq_of([parse_files(task) for task in tasks], segments) == last


# --- manifests ------------------------------------------------------------------------------------------------------


def print_manifest(case: Case) -> str:
    given = {name: int(value) for name, value in case.arguments.items() if value.isdigit()}
    base, changed = parse_base(case.lines, given), parse_change(case.lines, given, case.arguments)
    is_new = base == Manifest()
    manifest = next_manifest(base, changed, now_ms=1000 * given["at"], nonce=1)
    check_manifest(manifest, None if is_new else base, new_id=5, now_ms=None)
    assert decode_manifest(encode_manifest(manifest)) == manifest
    assert not any(tree.l0 for tree in manifest.trees())
    runs = [line.rstrip() for tree in manifest.trees() for line in shown_runs(manifest, tree)]
    return "\n".join([*runs, shown_facts(manifest)])


def shown_runs(manifest: Manifest, tree: Segment) -> Iterator[str]:
    name, marker = tree.prefix.decode(), tree.last_compacted_l0_sst_view_id
    for run in tree.compacted:
        yield f"{name} run {run.id}: ".lstrip() + ", ".join(shown_view(manifest, view) for view in run.views)
    if name and marker is not None:
        yield f"{name} marker {marker.value}"


def parse_base(lines: Sequence[str], given: Mapping[str, int]) -> Manifest:
    handles: list[SstHandle] = []
    trees: dict[str, Segment] = {}
    for line in lines:
        name, _, text = line.partition(":")
        prefix, _, layer = f" {name}".rpartition(" run ") if " run " in f" {name}" else f" {name}".rpartition(" L")
        if layer.isdigit():
            files = parse_files(text)
            handles += [file.handle for file in files]
            views = tuple(SstView(file.handle.id, file.handle.id) for file in files)
            tree = trees.get(prefix.strip(), Segment(prefix.strip().encode(), None, (), ()))
            if "run" in name:
                tree = replace(tree, compacted=(*tree.compacted, SortedRun(int(layer), views)))
            trees[prefix.strip()] = tree if "run" in name else replace(tree, l0=views)
    if "seq" not in given:
        return Manifest()
    points = ((given["seq"], given["tracked"]),) if "tracked" in given else ()
    marker = Ulid(given["marker"]) if "marker" in given else None
    root = replace(trees.pop("", Segment(b"", None, (), ())), last_compacted_l0_sst_view_id=marker)
    return Manifest(
        ssts=SstMap(handles),
        segment_extractor_name="slash" if trees else None,
        last_l0_seq=given["seq"],
        recent_snapshot_min_seq=given["seq"],
        last_l0_clock_tick=given["tick"],
        replay_after_wal_id=given["wal"],
        wal_id_last_seen=given["wal"],
        sequence_tracker=SequenceTracker(points),
    ).with_trees([root, *trees.values()])


def parse_change(lines: Sequence[str], given: Mapping[str, int], arguments: Mapping[str, str]) -> CommitChange:
    parts = dict(line.partition(":")[::2] for line in lines)
    return CommitChange(
        outputs=tuple(parse_files(text) for name, text in parts.items() if name.startswith("task")),
        drained=() if "overwrite" in arguments else parse_files(parts.get("drained", "")),
        last_seq=given["new_seq"],
        tick_ms=given["new_tick"],
        fence_id=given["fence"],
        edit=DROP_TREES if "overwrite" in arguments else cut_of(arguments),
        segments=SLASH if "segmented" in arguments else WHOLE,
    )


def cut_of(arguments: Mapping[str, str]) -> TreeEdit:
    start, _, end = arguments.get("cut", "").partition("..")
    return CutViews((KeyRange(start.encode(), end.encode()),), seed=7) if start else KEEP_TREES


def parse_files(text: str) -> tuple[NewFile, ...]:
    """`21 a-c, 22 d-f`: number and keys of each file."""
    files = []
    for part in filter(None, text.strip().split(", ")):
        number, keys = part.split()
        files.append(new_file(int(number), *keys.split("-")))
    return tuple(files)


def shown_view(manifest: Manifest, view: SstView) -> str:
    keys = view.key_range(manifest.ssts[view.sst_id])
    return f"{view.id.value} {keys.start.decode()}-{(keys.end or b'').removesuffix(bytes(1)).decode()}"


def shown_facts(manifest: Manifest) -> str:
    marker = manifest.last_compacted_l0_sst_view_id
    return ", ".join(
        [
            f"marker {'none' if marker is None else marker.value}",
            f"seq {manifest.last_l0_seq}",
            f"snapshots from {manifest.recent_snapshot_min_seq}",
            f"tick {manifest.last_l0_clock_tick}",
            f"WAL {manifest.replay_after_wal_id}/{manifest.wal_id_last_seen}",
            f"tracker {' '.join(map(str, manifest.sequence_tracker.points))}",
        ]
    )


def test_ends_are_inclusive_in_the_text() -> None:
    file = new_file(3, "a", "c")
    assert file.keys == KeyRange(b"a", key_after(b"c"))
    assert shown_file(file) == "a-c of task 0"


COMMANDS = {"plan_splits": print_splits, "stack_outputs": print_stack, "next_manifest": print_manifest}


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_golden(path: Path, rewrite: bool) -> None:
    run_golden(path, COMMANDS, rewrite=rewrite)
