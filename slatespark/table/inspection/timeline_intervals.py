"""Key intervals with their files, visible or overshadowed by a replacement. Pure.

A `FileSpan` is a file in one key range. All spans together are cut into intervals within which the files are the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from slatespark.encoding.least_key import can_hold_keys
from slatespark.encoding.row_codec import RowCodec
from slatespark.ranges import KeyRange, complement_ranges, merge_ranges, parts_within
from slatespark.table.read.planning.plan import Layer, SstFile
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.records.json_objects import range_of_hex
from slatespark.table.stores import OWN_ROOT


@dataclass(frozen=True, slots=True)
class FileVersion:
    """The role of a file in a key interval.

    Attributes
    ----------
    id : the id of the file
    root : URL of the database that owns it; None for this one
    layer : `L0` or `run 7`, where it is or was visible; None if unknown
    is_visible : False if it is overshadowed
    since : the version since which it is overshadowed; None if it is visible, or if unknown
    added : the version that added it; None if unknown
    is_listed : the version still references the file
    stored_bytes : the stored bytes of the whole file
    created_ms : the creation time of the file
    """

    id: str
    root: str | None
    layer: str | None
    is_visible: bool
    since: int | None
    added: int | None
    is_listed: bool
    stored_bytes: int
    created_ms: int


@dataclass(frozen=True, slots=True)
class TimelineInterval:
    """Keys `[start, end)` with the same files; `end=None` is open.

    Attributes
    ----------
    files : visible ones, newest first, then overshadowed ones, latest first
    replaced : the newest version that replaced the interval; None if none is known
    """

    start: bytes
    end: bytes | None
    files: tuple[FileVersion, ...]
    replaced: int | None


@dataclass(frozen=True, slots=True)
class Replacement:
    """A version that replaced an interval of keys.

    Attributes
    ----------
    operation : `replace`, `deleteRange`, `overwrite`, ...
    rows : number of rows that it wrote there
    """

    version: int
    committed_ms: int
    operation: str
    start: bytes
    end: bytes | None
    rows: int


@dataclass(frozen=True, slots=True)
class FileSpan:
    """A file in one key range; `order` sorts the files of an interval, newest first."""

    keys: KeyRange
    file: FileVersion
    order: tuple[int, int]


@dataclass(frozen=True, slots=True)
class VersionPast:
    """The known past of a version.

    Attributes
    ----------
    replacing : records of the commits that replaced intervals, newest first
    before : the layers just before each of these commits, by its version; None if gone
    added : the version that added a file, by file id
    """

    replacing: Sequence[CommitRecord]
    before: Mapping[int, tuple[Layer, ...] | None]
    added: Mapping[str, int]


def replaced_keys(record: CommitRecord) -> list[KeyRange]:
    """Return the intervals that a commit replaced."""
    return [range_of_hex(*bounds) for bounds in record.replaced]


def plan_spans(layers: Sequence[Layer], past: VersionPast) -> list[FileSpan]:
    """Return the visible and the overshadowed spans of a version.

    Parameters
    ----------
    layers : the layers of the version, newest first
    """
    listed = {part.file for layer in layers for part in layer.slices}
    shown = [
        FileSpan(part.keys, _version_of(part.file, past, layer=layer.name), (0, number))
        for number, layer in enumerate(layers)
        for part in layer.slices
    ]
    replaced = list(_replaced_spans(listed, past))
    taken: defaultdict[str, list[KeyRange]] = defaultdict(list)
    for span in (*shown, *replaced):
        taken[span.file.id].append(span.keys)
    hidden = (
        span
        for file in sorted(listed, key=lambda each: each.id)
        for keys in without(file.info.key_range(), taken[str(file.id)])
        for span in _hidden_spans(file, keys, past)
    )
    return [*shown, *replaced, *hidden]


def _version_of(
    file: SstFile,
    past: VersionPast,
    *,
    layer: str | None,
    since: int | None = None,
    is_visible: bool = True,
    is_listed: bool = True,
) -> FileVersion:
    return FileVersion(
        id=str(file.id),
        root=None if file.root == OWN_ROOT else file.root,
        layer=layer,
        is_visible=is_visible,
        since=since,
        added=past.added.get(str(file.id)),
        is_listed=is_listed,
        stored_bytes=file.info.sections_end,
        created_ms=file.id.timestamp_ms,
    )


def _replaced_spans(listed: set[SstFile], past: VersionPast) -> Iterator[FileSpan]:
    """Yield the spans that were visible in replaced intervals just before the replacement."""
    for index, record in enumerate(past.replacing, 1):
        intervals = replaced_keys(record)
        for number, layer in enumerate(past.before[record.manifest_id] or ()):
            for part in layer.slices:
                pieces = [part.keys.intersect(keys) for keys in intervals if part.keys.overlaps(keys)]
                if pieces:
                    file = _version_of(
                        part.file,
                        past,
                        layer=layer.name,
                        since=record.manifest_id,
                        is_visible=False,
                        is_listed=part.file in listed,
                    )
                    yield from (FileSpan(piece, file, (index, number)) for piece in pieces)


def _hidden_spans(file: SstFile, keys: KeyRange, past: VersionPast) -> Iterator[FileSpan]:
    """Yield the hidden parts of a file, each with the first version that replaced it since the file was added."""
    left = [keys]
    for index, record in reversed(list(enumerate(past.replacing, 1))):
        if not _was_there(file, record, past):
            continue
        hidden = _version_of(file, past, layer=None, since=record.manifest_id, is_visible=False)
        for interval in replaced_keys(record):
            yield from (
                FileSpan(piece.intersect(interval), hidden, (index, 0)) for piece in left if piece.overlaps(interval)
            )
            left = [rest for piece in left for rest in without(piece, [interval])]
    unknown = _version_of(file, past, layer=None, is_visible=False)
    yield from (FileSpan(piece, unknown, (len(past.replacing) + 1, 0)) for piece in left)


def _was_there(file: SstFile, record: CommitRecord, past: VersionPast) -> bool:
    added = past.added.get(str(file.id))
    return file.id.timestamp_ms <= record.committed_ms if added is None else added < record.manifest_id


def without(keys: KeyRange, taken: Iterable[KeyRange]) -> list[KeyRange]:
    """Return the parts of `keys` outside `taken`, which may be in any order and overlap."""
    return parts_within(complement_ranges(merge_ranges(taken)), keys)


# --- intervals ------------------------------------------------------------------------------------------------------


def cut_intervals(spans: Sequence[FileSpan], replacements: Sequence[Replacement]) -> list[TimelineInterval]:
    """Return the intervals with the same files, ascending; those without files or replacement are left out."""
    intervals: list[TimelineInterval] = []
    for interval in _elementary(spans, replacements):
        last = intervals[-1] if intervals else None
        if last is not None and (last.end, last.files, last.replaced) == (
            interval.start,
            interval.files,
            interval.replaced,
        ):
            intervals[-1] = replace(last, end=interval.end)
        elif interval.files or interval.replaced is not None:
            intervals.append(interval)
    return intervals


def without_slivers(intervals: Iterable[TimelineInterval], codec: RowCodec) -> list[TimelineInterval]:
    """Return intervals without those in which no key of the table can lie.

    A file ends at its last key, but a condition ends at the next possible one.
    """
    kept: list[TimelineInterval] = []
    for interval in intervals:
        if can_hold_keys(KeyRange(interval.start, interval.end), codec):
            kept.append(interval)
        elif kept and kept[-1].end == interval.start:
            kept[-1] = replace(kept[-1], end=interval.end)
    return kept


def _elementary(spans: Sequence[FileSpan], replacements: Sequence[Replacement]) -> Iterator[TimelineInterval]:
    """Yield the intervals between adjacent bounds; an open replacement ends where everything else does."""
    bounds = {bound for item in replacements for bound in (item.start, item.end) if bound}
    bounds |= {bound for span in spans for bound in (span.keys.start, span.keys.end) if bound is not None}
    edges: list[bytes | None] = [*sorted(bounds)]
    if any(span.keys.end is None for span in spans):
        edges.append(None)
    starting, ending = _by_bound((span.keys.start, span.keys.end, number) for number, span in enumerate(spans))
    begun, ended = _by_bound((item.start, item.end, item.version) for item in replacements)
    active: set[int] = set()
    in_force = set() if b"" in bounds else set(begun[b""])
    for start, end in pairwise(edges):
        assert start is not None  # only the last edge is open
        active = (active - set(ending[start])) | set(starting[start])
        in_force = (in_force - set(ended[start])) | set(begun[start])
        files = [spans[number] for number in active]
        files.sort(key=lambda span: (span.order, span.file.id))
        yield TimelineInterval(start, end, tuple(span.file for span in files), max(in_force, default=None))


def _by_bound(
    items: Iterable[tuple[bytes, bytes | None, int]],
) -> tuple[Mapping[bytes, list[int]], Mapping[bytes, list[int]]]:
    """Return numbers by the start, and by the end, of their range."""
    starts: defaultdict[bytes, list[int]] = defaultdict(list)
    ends: defaultdict[bytes, list[int]] = defaultdict(list)
    for start, end, number in items:
        starts[start].append(number)
        if end is not None:
            ends[end].append(number)
    return starts, ends
