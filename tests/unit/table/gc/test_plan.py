from __future__ import annotations

from slatespark.format.paths import wal_path
from slatespark.storage import ObjectMeta
from slatespark.table.gc.plan import KeptVersion, Needs, Reason, judge_wal, pinned_reason, plan_versions

MINUTE_MS = 60_000
NOW_MS = 1_800_000_000_000


def kept(ages_min: dict[int, int], *, min_age_min: int, **options: object) -> list[int]:
    """The kept versions; `ages_min` are their ages in minutes."""
    listed = {number: NOW_MS - age * MINUTE_MS for number, age in ages_min.items()}
    planned = plan_versions(
        listed,
        max(listed),
        {},
        now_ms=NOW_MS,
        min_age_ms=min_age_min * MINUTE_MS,
        **options,  # type: ignore[arg-type]  # of the test
    )
    return sorted(planned.kept)


def test_a_version_is_as_old_as_its_successor() -> None:
    ages = {1: 100, 2: 90, 3: 80, 4: 30, 5: 10}
    assert kept(ages, min_age_min=0) == [5]
    assert kept(ages, min_age_min=10) == [5], "at exactly that age it is deleted"
    assert kept(ages, min_age_min=11) == [4, 5]
    assert kept(ages, min_age_min=31) == [3, 4, 5]
    assert kept(ages, min_age_min=1000) == [1, 2, 3, 4, 5]


def test_the_newest_version_is_kept_at_any_age() -> None:
    assert kept({7: 10**6}, min_age_min=1) == [7]
    assert kept({6: 10**7, 7: 10**6}, min_age_min=1) == [7]


def test_a_version_says_until_when_it_is_kept() -> None:
    ages = {1: 100, 2: 90, 3: 80, 4: 30, 5: 10}
    listed = {number: NOW_MS - age * MINUTE_MS for number, age in ages.items()}
    pins = {1: pinned_reason("mine", NOW_MS + 7), 2: pinned_reason("for ever", None)}
    planned = plan_versions(
        listed,
        5,
        pins,
        now_ms=NOW_MS,
        min_age_ms=11 * MINUTE_MS,
        busy_ms=NOW_MS - 70 * MINUTE_MS,
        busy_until_ms=NOW_MS + 9,
    )
    until = {number: why.until_ms for number, why in planned.kept.items()}
    assert until == {1: NOW_MS + 7, 2: None, 3: NOW_MS + 9, 4: NOW_MS + MINUTE_MS, 5: None}


def test_no_age_counts_without_a_minimum() -> None:
    """The clock of the store may be ahead of ours."""
    assert kept({1: -1, 2: -2, 3: -3}, min_age_min=0) == [3]


def test_decreasing_times_keep_more_versions() -> None:
    assert kept({1: 100, 2: 5, 3: 90, 4: 80}, min_age_min=10) == [1, 2, 3, 4]


def test_versions_that_a_running_job_may_have_committed_are_kept() -> None:
    ages = {1: 100, 2: 40, 3: 30, 4: 20}
    assert kept(ages, min_age_min=0, busy_ms=NOW_MS - 25 * MINUTE_MS) == [3, 4], "with ten minutes of clock skew"
    assert kept(ages, min_age_min=0, proof=2) == [2, 3, 4]


def test_versions_that_tell_what_became_of_a_load_are_kept() -> None:
    assert kept({1: 100, 2: 40, 3: 30, 4: 20}, min_age_min=0, handed=2) == [3, 4]


class Compared(int):
    """A number that counts how often it is compared with a later one."""

    count = 0

    def __lt__(self, other: int) -> bool:
        Compared.count += 1
        return super().__lt__(other)


def test_old_fences_are_not_looked_for_in_every_version() -> None:
    """A commit leaves a fence and a version, and a vacuum keeps all fences unless it is told otherwise."""
    versions = tuple(
        KeptVersion(number, Reason(f"why {number}", number), Compared(number), number if number < 590 else 600)
        for number in range(100, 600)
    )
    needs = Needs(now_ms=NOW_MS, min_age_ms=1, replay_after=600, versions=versions, takes_fences=True)
    listed = [ObjectMeta(wal_path(number), 0, 0) for number in range(1, 601)]
    verdicts = list(judge_wal(listed, needs))
    assert [verdict.goes for verdict in verdicts] == [True] * 590 + [False] * 10
    assert verdicts[594].reason == "version 594 needs it: why 594", "the one that lasts longest"
    assert Compared.count < 2000
