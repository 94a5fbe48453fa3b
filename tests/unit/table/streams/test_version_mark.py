"""Marks of versions: equal for one version, and different for any two that hold different rows."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from slatespark.format.manifest import Checkpoint, Manifest, Segment
from slatespark.format.references import SortedRun, SstView
from slatespark.format.ulid import Ulid
from slatespark.table.log.versioned_object import Version
from slatespark.table.streams.version_mark import VersionMark, mark_of


def view(number: int) -> SstView:
    return SstView(Ulid(number), Ulid(1000 + number))


def test_a_version_of_ours_is_marked_with_its_nonce() -> None:
    assert mark_of(Version(5, Manifest(nonce=0xC0FFEE))) == VersionMark(5, "0000000000c0ffee")
    assert mark_of(Version(5, Manifest(nonce=0xC0FFEE, l0=(view(1),)))) == VersionMark(5, "0000000000c0ffee")


def test_a_version_of_a_client_is_marked_with_what_it_drew() -> None:
    before = Manifest(writer_epoch=2, last_l0_seq=7, l0=(view(1),), compacted=(SortedRun(3, (view(2),)),))
    others = [
        replace(before, l0=(view(3), view(1))),
        replace(before, l0=(), last_compacted_l0_sst_view_id=Ulid(1)),
        replace(before, l0=(), last_compacted_l0_sst_view_id=Ulid(4)),
        replace(before, compacted=(SortedRun(3, (view(5),)),)),
        replace(before, compacted=(SortedRun(4, ()), *before.compacted)),
        replace(before, segments=(Segment(b"a", None, (view(6),), ()),)),
        replace(before, segments=(Segment(b"a", None, (view(7),), ()),)),
        replace(before, checkpoints=(Checkpoint(UUID(int=8), 1, 0, 0),)),
        replace(before, writer_epoch=3),
        replace(before, last_l0_seq=8),
        replace(before, last_l0_clock_tick=9),
    ]
    marks = {mark_of(Version(5, each)) for each in (before, *others)}
    assert len(marks) == len(others) + 1
    assert mark_of(Version(5, before)) == VersionMark(5, "c1716a913f49fb74"), "offsets hold it: it must not change"
