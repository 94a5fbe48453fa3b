from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slatespark.format.ulid import make_ulid
from slatespark.storage import ObjectMeta
from slatespark.table.gc.plan import KeptVersion, Needs, Reason, judge_ssts, judge_wal
from tests.unit.table.gc.test_plan import MINUTE_MS, NOW_MS


@given(st.data())
def test_verdicts_on_ssts_and_wal(data: st.DataObject) -> None:
    """A referenced file always stays; a deleted one is old by its name and by its store."""
    made = data.draw(st.lists(st.integers(0, 100), max_size=8))
    stored = data.draw(st.lists(st.integers(0, 100), min_size=len(made), max_size=len(made)))
    ulids = [make_ulid(NOW_MS - age * MINUTE_MS, number) for number, age in enumerate(made)]
    metas = [
        ObjectMeta(f"compacted/{ulid}.sst", 1, NOW_MS - age * MINUTE_MS)
        for ulid, age in zip(ulids, stored, strict=True)
    ]
    named = frozenset(ulid for ulid in ulids if data.draw(st.booleans()))
    min_age = data.draw(st.integers(0, 100))
    after, last = sorted((data.draw(st.integers(0, 9)), data.draw(st.integers(0, 9))))
    replay = data.draw(st.integers(0, 9))
    version = KeptVersion(3, Reason("kept"), after, last)
    needs = Needs(
        now_ms=NOW_MS,
        min_age_ms=min_age * MINUTE_MS,
        replay_after=replay,
        versions=(version,),
        shown_by=dict.fromkeys(named, version),
    )
    for ulid, age, put, verdict in zip(ulids, made, stored, judge_ssts(metas, needs), strict=True):
        assert verdict.goes == (ulid not in named and min(age, put) >= min_age)
    files = [ObjectMeta(f"wal/{number:020d}.sst", number % 2, NOW_MS - 50 * MINUTE_MS) for number in range(10)]
    for number, verdict in enumerate(judge_wal(files, needs)):
        is_needed = number >= replay or after < number <= last
        assert verdict.goes == (not is_needed and min_age <= 50 and number % 2 == 1)
