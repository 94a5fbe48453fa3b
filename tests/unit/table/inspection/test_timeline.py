"""The timeline along the keys: which files are visible where, which overshadowed, and since which version."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from slatespark import OptionError, SlateStore
from slatespark.display.timeline_picture import LaneSpan, Mark, picture_timeline
from slatespark.display.timeline_text import timeline_text
from slatespark.format.paths import MANIFEST_DIR, manifest_path
from slatespark.ranges import KeyRange
from slatespark.table.inspection.timeline import KeyTimeline
from slatespark.table.inspection.timeline_intervals import without
from slatespark.table.read.planning.key_prefixes import decode_prefixes

SCHEMA = pa.schema([("minute", pa.int32()), ("value", pa.string())])
BASE, ONE, TWO, GONE = 3, 5, 7, 9  # versions: a claim, then the commit

Told = list[tuple[int, int, list[tuple[int | None, int | None]]]]


def rows(start: int, end: int, value: str) -> pa.Table:
    return pa.table({"minute": pa.array(range(start, end), pa.int32()), "value": [value] * (end - start)})


@pytest.fixture
def store(request: pytest.FixtureRequest) -> SlateStore:
    """The worked example: a base hour, an overlay, a later overlay, and a deleted interval above both."""
    store = SlateStore.create(f"memory://{request.node.name}", schema=SCHEMA, keyColumns="minute")
    assert store.write(rows(0, 60, "base")) == BASE
    replace(store, 10, 30, "one", ONE)
    replace(store, 20, 40, "two", TWO)
    assert store.deleteRange("minute >= 15 AND minute < 35") == GONE
    return store


def replace(store: SlateStore, start: int, end: int, value: str, version: int) -> None:
    where = f"minute >= {start} AND minute < {end}"
    assert store.write(rows(start, end, value), mode="overwrite", replaceWhere=where) == version


def told(timeline: KeyTimeline) -> Told:
    """First and last minute of each interval, and the versions of its files, with those that overshadowed them."""
    found = []
    for interval in timeline.intervals:
        first, last = _minute(timeline, interval.start), _minute(timeline, interval.end)
        stack = [(file.added, file.since) for file in interval.files]
        assert [file.is_visible for file in interval.files] == [since is None for _, since in stack]
        found.append((first, last, stack))
    return found


def _minute(timeline: KeyTimeline, bound: bytes | None) -> int:
    """The minute of a bound; the next one if the bound lies behind the minute."""
    assert bound is not None
    behind = bound.endswith((b"\xff", b"\0"))
    ((_, columns),) = decode_prefixes(timeline.codec, [bound[:-1] if behind else bound])
    minute: int = columns["minute"][0].as_py()
    return minute + behind


def test_the_worked_example_as_data(store: SlateStore) -> None:
    timeline = store.timeline()
    assert told(timeline) == [
        (0, 10, [(BASE, None)]),
        (10, 15, [(ONE, None), (BASE, ONE)]),
        (15, 20, [(ONE, GONE), (BASE, ONE)]),
        (20, 30, [(TWO, GONE), (ONE, TWO), (BASE, ONE)]),
        (30, 35, [(TWO, GONE), (BASE, TWO)]),
        (35, 40, [(TWO, None), (BASE, TWO)]),
        (40, 60, [(BASE, None)]),
    ]
    assert [interval.replaced for interval in timeline.intervals] == [None, ONE, GONE, GONE, GONE, TWO, None]
    kinds = [(item.version, item.operation, item.rows) for item in timeline.replacements]
    assert kinds == [(GONE, "deleteRange", 0), (TWO, "replace", 20), (ONE, "replace", 20)]
    assert all(file.is_listed for interval in timeline.intervals for file in interval.files)


def test_the_worked_example_at_an_earlier_version(store: SlateStore) -> None:
    assert told(store.timeline(ONE)) == [
        (0, 10, [(BASE, None)]),
        (10, 30, [(ONE, None), (BASE, ONE)]),
        (30, 60, [(BASE, None)]),
    ]
    assert told(store.timeline(BASE)) == [(0, 60, [(BASE, None)])]


def test_visible_intervals_are_what_a_read_shows(store: SlateStore) -> None:
    visible = [
        minute
        for first, last, stack in told(store.timeline())
        for minute in range(first, last)
        if any(since is None for _, since in stack)
    ]
    assert store.scan(columns="minute").read_all().column("minute").to_pylist() == visible


def test_files_reveal_replaced_intervals_without_older_versions(store: SlateStore) -> None:
    before = told(store.timeline())
    objects: Any = store._stores.main
    for number in range(1, GONE):
        objects.delete(manifest_path(number))
    assert len(objects.list(MANIFEST_DIR)) == 1
    assert told(store.timeline()) == before


def test_a_wholly_overshadowed_file_is_no_longer_listed(store: SlateStore) -> None:
    replace(store, 5, 50, "three", GONE + 2)
    inside = [interval for interval in store.timeline().intervals if interval.replaced == GONE + 2]
    assert told(store.timeline())[1:-1] == [
        (5, 10, [(GONE + 2, None), (BASE, GONE + 2)]),
        (10, 15, [(GONE + 2, None), (ONE, GONE + 2), (BASE, ONE)]),
        (15, 20, [(GONE + 2, None), (ONE, GONE), (BASE, ONE)]),
        (20, 30, [(GONE + 2, None), (TWO, GONE), (ONE, TWO), (BASE, ONE)]),
        (30, 35, [(GONE + 2, None), (TWO, GONE), (BASE, TWO)]),
        (35, 40, [(GONE + 2, None), (TWO, GONE + 2), (BASE, TWO)]),
        (40, 50, [(GONE + 2, None), (BASE, GONE + 2)]),
    ]
    listed = {file.added: file.is_listed for interval in inside for file in interval.files}
    assert listed == {BASE: True, ONE: False, TWO: False, GONE + 2: True}


def test_a_whole_overwrite_overshadows_everything(store: SlateStore) -> None:
    store.write(rows(0, 5, "anew"), mode="overwrite")
    intervals = told(store.timeline())
    assert intervals[0] == (0, 5, [(GONE + 2, None), (BASE, GONE + 2)])
    assert {stack[-1] for _, _, stack in intervals[1:]} == {(BASE, GONE + 2), (BASE, ONE), (BASE, TWO)}


def test_undone_replacements_are_not_listed(store: SlateStore) -> None:
    store.restoreToVersion(BASE)
    assert [(first, last) for first, last, _ in told(store.timeline())] == [(0, 60)]
    assert store.timeline().replacements == ()


def test_an_empty_table_has_no_intervals() -> None:
    store = SlateStore.create("memory://without-rows")
    timeline = store.timeline()
    assert not timeline.intervals
    assert not timeline.replacements
    assert timeline_text(timeline, as_text=True) == "memory://without-rows, version 1: there are no files."
    assert picture_timeline(timeline).lanes == ()


def test_the_axis_names_a_key_that_reads_like_a_bound() -> None:
    store = SlateStore.create("memory://below-a-key")
    store.write(pa.table({"key": [b"below 10", b"below 20"], "value": [b"1", b"2"]}))
    assert [tick.name for tick in picture_timeline(store.timeline()).ticks] == ["below 10", "below 20"]


def test_damaged_records_are_ignored(store: SlateStore) -> None:
    objects: Any = store._stores.main
    path = f"slatespark/commits/{GONE:020d}.json"
    content = json.loads(bytes(objects.get(path)))
    content["replaced"][0][0] = "no hex"
    del content["checksum"]  # as those of old releases, so that it is read at all
    objects.put(path, [json.dumps(content).encode()])
    assert [item.version for item in store.timeline().replacements] == [TWO, ONE]


def test_the_worked_example_as_a_picture(store: SlateStore) -> None:
    picture = picture_timeline(store.timeline())
    assert [(lane.name, lane.text) for lane in picture.lanes] == [
        ("version 9", "deleteRange, no rows"),
        ("version 7", "replace, 1 file"),
        ("version 5", "replace, 1 file"),
        ("version 3", "1 file"),
    ]
    gone, two, one, base = picture.lanes
    places = sorted({place for lane in picture.lanes for part in lane.spans for place in (part.left, part.right)})
    at = dict(zip((0, 10, 15, 20, 30, 35, 40, 60), places, strict=True))
    assert (places[0], places[-1]) == (0.0, 1.0)
    assert (gone.spans, gone.marks) == ((), (Mark(at[15], at[35]),))
    assert two.spans == (LaneSpan(at[20], at[35], False), LaneSpan(at[35], at[40], True))
    assert two.marks == (Mark(at[20], at[40]),)
    assert one.spans == (LaneSpan(at[10], at[15], True), LaneSpan(at[15], at[30], False))
    assert base.spans == (
        LaneSpan(at[0], at[10], True),
        LaneSpan(at[10], at[40], False),
        LaneSpan(at[40], at[60], True),
    )
    assert (picture.ticks[0].name, picture.ticks[-1].name) == ("minute=0", "minute=59")


def test_the_worked_example_as_a_figure(store: SlateStore) -> None:
    figure = store.plotTimeline()
    assert figure.axes[0].get_title() == f"{store.url}, version 9"
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == [
        "version 9",
        "version 7",
        "version 5",
        "version 3",
    ]
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_the_worked_example_as_text(store: SlateStore) -> None:
    lines = [line.split("  ") for line in timeline_text(store.timeline(), as_text=True).splitlines()]
    told = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    assert told[0] == [f"{store.url}, version 9"]
    assert told[3][:2] == ["minute=0", "below minute=10"]
    assert told[6] == ["minute=15", "below minute=20", "no data since version 9"]
    assert told[7][1:4] == ["run 1", "version 5", "overshadowed since version 9"]
    assert told[-1][2:] == ["replace", "minute=10", "below minute=30", "20"]


@pytest.mark.parametrize(
    ("taken", "left"),
    [
        ([], [(b"b", b"y")]),
        ([(b"", None)], []),
        ([(b"p", None), (b"", b"c")], [(b"c", b"p")]),
        ([(b"d", b"h"), (b"c", b"f"), (b"h", b"k")], [(b"b", b"c"), (b"k", b"y")]),
        ([(b"b", b"y")], []),
    ],
)
def test_without(taken: list[tuple[bytes, bytes | None]], left: list[tuple[bytes, bytes]]) -> None:
    found = without(KeyRange(b"b", b"y"), [KeyRange(*bounds) for bounds in taken])
    assert [(keys.start, keys.end) for keys in found] == left


@pytest.mark.parametrize("name", ["versionAsOf", "version_as_of"])
def test_any_way_to_choose_a_version(store: SlateStore, name: str) -> None:
    options: dict[str, Any] = {name: ONE}
    assert store.timeline(**options).intervals == store.timeline(ONE).intervals != store.timeline().intervals
    assert store.timeline(None, **{name: None}).intervals == store.timeline().intervals
    with pytest.raises(OptionError, match="both"):
        store.timeline(ONE, **options)
