"""Jobs that are submitted to a client."""

from __future__ import annotations

from typing import Any

import pytest

from slatespark import CommitConflictError
from slatespark.format.compactions import TieredSpec
from slatespark.table.cooperation.job_list import JobList
from slatespark.table.cooperation.submission import Submitter
from slatespark.table.log.compactions import fetch_compactions
from tests.support.fake_clock import FakeClock
from tests.unit.table.cooperation.lists import database, manifest, view_ids

SPEC = TieredSpec(view_ids(1, 2), (), 5)


@pytest.mark.parametrize(("lost", "is_submitted"), [(3, True), (10**6, False)])
def test_a_list_that_others_change_all_the_time(
    lost: int, *, is_submitted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores, clock = database(f"submission/{lost}", manifest(l0=2)), FakeClock()
    submitter, edit = Submitter(stores, clock, timeout_ms=5000), JobList.edit
    calls: list[Any] = []

    def contested(*given: Any, **named: Any) -> Any:
        calls.append(given)
        if len(calls) <= lost:
            raise CommitConflictError("Others were faster.")
        return edit(*given, **named)

    monkeypatch.setattr(JobList, "edit", contested)
    began_ms = clock.now_ms()
    if is_submitted:
        assert submitter._submit(lambda *_: [SPEC], submitter._new_turn()) is not None
        assert [job.spec for job in fetch_compactions(stores).value.jobs] == [SPEC]
    else:
        with pytest.raises(CommitConflictError):
            submitter._submit(lambda *_: [SPEC], submitter._new_turn())
        assert 5000 <= clock.now_ms() - began_ms < 10_000
