"""The keys that metadata names: bounds of views, first and last keys of files, prefixes of segments. Pure.

A name is a copy of the key without its row.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from slatespark.format.compactions import Compactions
from slatespark.format.manifest import Manifest
from slatespark.format.references import BytesRange, SstHandle, SstView
from slatespark.ranges import KeyRange, point_range


@dataclass(frozen=True, slots=True)
class NamedKey:
    """A key that metadata names.

    Attributes
    ----------
    is_bound : whether it bounds an interval, so it may be the end of one that holds another key; else the file had the
        key
    """

    key: bytes
    is_bound: bool = True

    def within(self, ranges: Sequence[KeyRange]) -> bytes | None:
        """Return the key that it names in one of some ranges, or the end of one; None if it names neither.

        Requires: ranges ascending, not overlapping.
        """
        at = bisect_right(ranges, self.key, key=lambda keys: keys.start) - 1
        if at < 0 or not self.key:  # no key is empty
            return None
        keys = ranges[at]
        if keys.contains(self.key):
            return self.key
        if not self.is_bound or keys.end != self.key:
            return None
        return keys.start if keys == point_range(keys.start) else self.key


def first_named(names: Iterable[NamedKey], ranges: Sequence[KeyRange]) -> bytes | None:
    """Return the smallest key that some names have within ranges; None if they have none."""
    return min((key for name in names if (key := name.within(ranges)) is not None), default=None)


def names_in_manifest(manifest: Manifest) -> Iterator[NamedKey]:
    """Yield what a version names: bounds of its views, first and last keys of its files, prefixes of its segments."""
    yield from (NamedKey(segment.prefix, is_bound=False) for segment in manifest.segments)
    for view in manifest.views():
        yield from names_in_view(view)
    yield from _of_files(manifest.ssts.values())


def names_in_view(view: SstView) -> Iterator[NamedKey]:
    """Yield the bounds of a view that does not show its whole file."""
    if view.visible_range is not None:
        yield from _of_range(view.visible_range)


def names_in_compactions(compactions: Compactions) -> Iterator[NamedKey]:
    """Yield what the state of the compactor names: segments, ends of outputs, and bounds of parts of running jobs."""
    for job in compactions.jobs:
        yield NamedKey(job.spec.segment, is_bound=False)
        yield from _of_files(job.output_ssts)
        for part in () if job.context is None else job.context.subcompactions:
            yield from _of_range(part.keys)
            yield from _of_files(part.output_ssts)


def _of_files(handles: Iterable[SstHandle]) -> Iterator[NamedKey]:
    for handle in handles:
        for key in (handle.info.first_entry, handle.info.last_entry):
            if key is not None:
                yield NamedKey(key, is_bound=False)


def _of_range(keys: BytesRange) -> Iterator[NamedKey]:
    for bound in (keys.start, keys.end):
        if bound.key is not None:
            yield NamedKey(bound.key)
