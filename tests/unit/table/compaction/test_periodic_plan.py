"""Which files are due for a periodic compaction."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from slatespark.format.info import SstInfo
from slatespark.format.properties import SstProperties
from slatespark.format.ulid import Ulid, make_ulid
from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE
from slatespark.table.compaction import periodic_plan
from slatespark.table.compaction.periodic_plan import due_ms, find_due_files
from slatespark.table.read.planning.plan import SstFile

DAY = 86_400_000
NOW = 100 * DAY


def file(days_old: float, *, drawn: int = 0, size: int = 1000) -> SstFile:
    sst_id = make_ulid(NOW - int(days_old * DAY), drawn)
    info = SstInfo(b"a", b"z", index_offset=size, index_len=0, filter_offset=size, filter_len=0)
    return SstFile("", sst_id, info, 2)


def properties(of: SstFile, *, expires: int | None = 0, created: int | None = None) -> SstProperties:
    return SstProperties(
        created_ms=of.id.timestamp_ms if created is None else created,
        min_create_ts=0,
        max_create_ts=0,
        min_expire_ts=expires,
        max_expire_ts=expires,
        min_seq=1,
        max_seq=1,
        puts=1,
        deletes=0,
        merges=0,
        any_flags=HAS_CREATE | (0 if expires is None else HAS_EXPIRE),
        all_flags=HAS_CREATE,
        all_versions=True,
    )


def due(files: Iterable[SstFile], *known: SstProperties | None) -> set[Ulid]:
    listed = list(files)
    about = {each.id: found for each, found in zip(listed, known, strict=False) if found is not None}
    return set(find_due_files(listed, about, 30 * DAY, present_ms=NOW, expired_ms=NOW))


def test_a_file_is_due_when_it_is_older_than_the_interval() -> None:
    young, old = file(29.9), file(30)
    assert due([young, old], properties(young), properties(old)) == {old.id}


def test_a_file_without_expired_rows_is_never_due() -> None:
    plain, later, gone, unknown = file(50), file(51), file(52), file(53)
    known = properties(plain, expires=None), properties(later, expires=NOW + 1), properties(gone, expires=NOW)
    assert due([plain, later, gone, unknown], *known) == {gone.id, unknown.id}


def test_age_is_that_of_the_rows_not_of_the_file_id() -> None:
    renamed = file(1)
    assert due([renamed], properties(renamed, created=NOW - 40 * DAY)) == {renamed.id}


def test_files_created_together_become_due_one_by_one() -> None:
    made = NOW - 40 * DAY
    instants = [due_ms(make_ulid(made, drawn), made, 30 * DAY) for drawn in (0, 1 << 14, 1 << 15, (1 << 16) - 1)]
    assert instants == sorted(instants)
    assert instants[0] == made + 30 * DAY
    assert made + 32 * DAY < instants[-1] < made + 33 * DAY


@pytest.mark.parametrize(("limit", "most", "count"), [("MAX_FILES", 2, 2), ("MAX_BYTES", 2500, 2), ("MAX_BYTES", 1, 1)])
def test_a_round_is_bounded_and_starts_with_the_oldest(
    limit: str, most: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(periodic_plan, limit, most)
    files = [file(40 + age) for age in range(5)]
    assert due(files) == {each.id for each in files[5 - count :]}


@pytest.mark.parametrize(("interval", "expired"), [(None, NOW), (DAY, None)])
def test_nothing_is_due_without_an_interval_or_droppable_rows(interval: int | None, expired: int | None) -> None:
    assert not find_due_files([file(90)], {}, interval, present_ms=NOW, expired_ms=expired)
