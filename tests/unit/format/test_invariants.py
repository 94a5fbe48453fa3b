"""Each rule with a change that breaks only that rule, and the changes of typical commits."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from slatespark.errors import InternalError
from slatespark.format.info import SstInfo
from slatespark.format.invariants import RULES, RUN_ID_END, check_manifest, l0_watermark_ms
from slatespark.format.manifest import Checkpoint, Manifest, Segment
from slatespark.format.references import Bound, BoundType, BytesRange, SortedRun, SstHandle, SstMap, SstView
from slatespark.format.sequence_tracker import SequenceTracker
from slatespark.format.ulid import Ulid, make_ulid
from slatespark.ranges import KeyRange

NOW_MS = 1_000_000


def ulid(number: int, at_ms: int = 1000) -> Ulid:
    return make_ulid(at_ms, number)


def handle(number: int, first: bytes = b"a", last: bytes | None = b"m", at_ms: int = 1000) -> SstHandle:
    return SstHandle(ulid(number, at_ms), SstInfo(first, last, 100, 20, 100, 0))


def view(sst: Ulid, view_id: Ulid | None = None, keys: KeyRange | None = None) -> SstView:
    return SstView(view_id or sst, sst, None if keys is None else BytesRange.of(keys))


OLD, LOW, HIGH, NEW = handle(1), handle(2, b"a", b"f"), handle(3, b"f", b"m"), handle(4, at_ms=2000)
CURRENT = Manifest(
    writer_epoch=3,
    compactor_epoch=4,
    replay_after_wal_id=5,
    wal_id_last_seen=6,
    last_compacted_l0_sst_view_id=ulid(99, 500),
    ssts=SstMap([OLD, LOW, HIGH]),
    l0=(view(OLD.id),),
    compacted=(SortedRun(8, (view(LOW.id), view(HIGH.id))), SortedRun(2, ())),
    last_l0_clock_tick=900_000,
    checkpoints=(Checkpoint(UUID(int=1), 10, 0, 5),),
    last_l0_seq=50,
    recent_snapshot_min_seq=50,
    sequence_tracker=SequenceTracker(((40, 800),)),
)


def check(new: Manifest, current: Manifest | None = CURRENT) -> None:
    check_manifest(new, current, new_id=11, now_ms=NOW_MS)


def add(*handles: SstHandle) -> SstMap:
    return CURRENT.ssts.adding(handles)


def test_an_unchanged_manifest_passes() -> None:
    check(CURRENT)
    check(CURRENT, None)
    check(Manifest(), None)


def test_a_typical_commit_passes() -> None:
    run = SortedRun(10, (view(NEW.id),))
    moved = SortedRun(9, CURRENT.l0)
    check(
        replace(
            CURRENT,
            writer_epoch=4,
            compactor_epoch=5,
            replay_after_wal_id=7,
            wal_id_last_seen=7,
            last_compacted_l0_sst_view_id=OLD.id,
            ssts=add(NEW),
            l0=(),
            compacted=(run, moved, *CURRENT.compacted),
            last_l0_clock_tick=NOW_MS,
            checkpoints=(*CURRENT.checkpoints, Checkpoint(UUID(int=2), 11, 9, 9, "x")),
            last_l0_seq=60,
            recent_snapshot_min_seq=60,
            sequence_tracker=CURRENT.sequence_tracker.record(60, 900),
        )
    )


def segmented(
    prefix: bytes, root: tuple[SstView, ...] = (), file: SstHandle = OLD, extractor: str | None = "x"
) -> Manifest:
    return replace(
        CURRENT,
        ssts=SstMap([file]),
        l0=root,
        compacted=(),
        segments=(Segment(prefix, None, (view(file.id, ulid(50)),), ()),),
        segment_extractor_name=extractor,
    )


LATER = handle(5, at_ms=NOW_MS + 1)
OLDER = handle(6, at_ms=999)
BREAKS: dict[str, list[Manifest]] = {
    "is_readable": [
        replace(CURRENT, ssts=SstMap([LOW, HIGH])),
        replace(CURRENT, compacted=CURRENT.compacted[::-1]),
        replace(
            CURRENT,
            l0=(SstView(OLD.id, OLD.id, BytesRange(Bound(BoundType.EXCLUDED, b"b"), Bound(BoundType.UNBOUNDED))),),
        ),
        replace(CURRENT, l0=(view(OLD.id, keys=KeyRange(b"n", None)),)),
    ],
    "every_sst_is_referenced": [replace(CURRENT, ssts=add(NEW))],
    "every_sst_has_a_first_key": [
        replace(CURRENT, ssts=SstMap([replace(OLD, info=replace(OLD.info, first_entry=None)), LOW, HIGH]))
    ],
    "l0_view_ids_are_unique": [replace(CURRENT, l0=(view(OLD.id), view(OLD.id, keys=KeyRange(b"a", b"b"))))],
    "no_view_id_is_repeated": [replace(CURRENT, ssts=add(NEW), l0=(view(NEW.id, LOW.id), *CURRENT.l0))],
    "marker_is_not_in_l0": [replace(CURRENT, last_compacted_l0_sst_view_id=OLD.id)],
    "run_ids_leave_room": [replace(CURRENT, compacted=(SortedRun(RUN_ID_END, ()), *CURRENT.compacted))],
    "views_in_a_run_ascend": [
        replace(CURRENT, compacted=(SortedRun(8, (view(HIGH.id), view(LOW.id))),)),
        replace(CURRENT, l0=(), compacted=(SortedRun(8, (view(OLD.id), view(HIGH.id), view(LOW.id))),)),
        replace(CURRENT, ssts=SstMap([OLD, handle(2, b"a", None), HIGH]), l0=(view(OLD.id),)),
    ],
    "segment_keys_match_its_prefix": [
        segmented(b"b"),
        segmented(b"a"),
        segmented(b"b", file=handle(1, b"a", None)),
        segmented(b"a", (view(OLD.id),)),
        segmented(b"a", file=handle(1, b"a1", b"a2"), extractor=None),
    ],
    "checkpoints_reference_existing_manifests": [
        replace(CURRENT, checkpoints=(Checkpoint(UUID(int=1), 12, 0, 5),)),
        replace(CURRENT, checkpoints=(Checkpoint(UUID(int=1), 0, 0, 5),)),
    ],
    "checkpoint_ids_are_unique": [replace(CURRENT, checkpoints=CURRENT.checkpoints * 2)],
    "replay_position_is_not_past_the_wal": [replace(CURRENT, replay_after_wal_id=7)],
    "epochs_do_not_decrease": [replace(CURRENT, writer_epoch=2), replace(CURRENT, compactor_epoch=3)],
    "seq_does_not_decrease": [replace(CURRENT, last_l0_seq=49, recent_snapshot_min_seq=0)],
    "tick_does_not_decrease": [replace(CURRENT, last_l0_clock_tick=899_999)],
    "wal_ids_do_not_decrease": [replace(CURRENT, replay_after_wal_id=4), replace(CURRENT, wal_id_last_seen=5)],
    "tracker_does_not_decrease": [
        replace(CURRENT, sequence_tracker=SequenceTracker()),
        replace(CURRENT, sequence_tracker=SequenceTracker(((39, 800),))),
        replace(CURRENT, sequence_tracker=SequenceTracker(((40, 799),))),
    ],
    "extractor_is_unchanged": [replace(CURRENT, segment_extractor_name="x")],
    "new_l0_is_not_older_than_the_watermark": [replace(CURRENT, ssts=add(OLDER), l0=(view(OLDER.id), *CURRENT.l0))],
    "tick_is_not_in_the_future": [replace(CURRENT, last_l0_clock_tick=NOW_MS + 1)],
    "new_ssts_are_not_in_the_future": [replace(CURRENT, ssts=add(LATER), l0=(view(LATER.id), *CURRENT.l0))],
}


@pytest.mark.parametrize("name", [rule.__name__ for rule in RULES])
def test_each_rule_has_a_change_that_breaks_it(name: str) -> None:
    for broken in BREAKS[name]:
        with pytest.raises(InternalError, match=name):
            check(broken)


def test_neighbours_in_a_run_may_share_a_key() -> None:
    middle = handle(7, b"f", b"f")
    run = SortedRun(8, (view(LOW.id), view(middle.id), view(HIGH.id)))
    check(replace(CURRENT, ssts=add(middle), compacted=(run, SortedRun(2, ()))))


def test_a_segment_may_have_files_without_a_last_key() -> None:
    for last in (b"a2", None):
        new = segmented(b"a", file=handle(1, b"a1", last))
        check(new, replace(CURRENT, segment_extractor_name="x"))


def test_two_parts_of_one_file_may_be_in_a_run() -> None:
    left, right = view(OLD.id, keys=KeyRange(b"a", b"c")), view(OLD.id, ulid(70), KeyRange(b"d", None))
    check(replace(CURRENT, ssts=SstMap([OLD]), l0=(), compacted=(SortedRun(9, (left, right)),)))


def test_rules_broken_by_the_client_are_tolerated() -> None:
    repeated = replace(CURRENT, compacted=(SortedRun(8, (view(LOW.id), view(HIGH.id, LOW.id))),))
    check(repeated, repeated)
    in_l0 = replace(CURRENT, l0=(view(OLD.id, keys=KeyRange(b"a", b"b")), view(OLD.id, keys=KeyRange(b"b", None))))
    check(in_l0, in_l0)
    with pytest.raises(InternalError, match="l0_view_ids_are_unique"):
        check(replace(in_l0, ssts=add(NEW), l0=(view(NEW.id), view(NEW.id, LOW.id), view(NEW.id), *in_l0.l0)), in_l0)
    ahead = replace(CURRENT, last_l0_clock_tick=NOW_MS + 500)
    check(ahead, ahead)


def test_without_a_clock_nothing_is_in_the_future() -> None:
    check_manifest(replace(CURRENT, last_l0_clock_tick=1 << 62), CURRENT, new_id=11, now_ms=None)


def test_the_watermark_is_that_of_the_newest_l0_or_marker() -> None:
    assert l0_watermark_ms(Manifest()) is None
    assert l0_watermark_ms(CURRENT) == 1000
    assert l0_watermark_ms(replace(CURRENT, l0=())) == 500
    assert l0_watermark_ms(replace(CURRENT, l0=(), segments=(Segment(b"s", ulid(1, 700), (), ()),))) == 700
