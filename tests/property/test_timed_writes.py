"""Writes of random versions with times, by several tasks, in little memory: what is stored is what a model stores."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark import CommitConflictError, SlateStore
from slatespark.table.stores import open_stores
from tests.support.effort import examples
from tests.support.fake_clock import FakeClock
from tests.support.timed_rows import SCHEMA, Timed, VersionModel, stored_versions, write_tasks

NOW_MS = 1_700_000_000_000

_numbers = count()

rows = st.builds(
    Timed,
    id=st.integers(0, 5),
    at=st.one_of(st.integers(-3, 40), st.just(NOW_MS)),
    name=st.one_of(st.none(), st.text("xyz", max_size=12)),
    ttl=st.one_of(st.none(), st.integers(0, 50)),
)
tasks = st.lists(st.lists(rows, max_size=25), min_size=1, max_size=4)
shapes = st.fixed_dictionaries(
    {
        "writeBuffer": st.sampled_from([1, 400, 2000, 1 << 20]),
        "sstSize": st.sampled_from([600, 1 << 20]),
        "batch_rows": st.sampled_from([1, 4, 1000]),
        "bloomBitsPerKey": st.sampled_from([0, 10]),
    }
)


@settings(max_examples=examples(8))
@given(st.lists(st.tuples(tasks, shapes), min_size=1, max_size=3))
def test_all_versions_are_stored_in_their_order(writes: list[tuple[list[list[Timed]], dict[str, int]]]) -> None:
    url, clock, model = f"memory://timed-writes-{next(_numbers)}", FakeClock(NOW_MS), VersionModel()
    store = SlateStore.create(url, SCHEMA, "id", history=True, clock=clock)
    stores = open_stores(url, storage={})
    for work, shape in writes:
        options = {name: value for name, value in shape.items() if name != "batch_rows"}
        before = stored_versions(store)
        if model.write(row for task in work for row in task):
            write_tasks(stores, clock, work, batch_rows=shape["batch_rows"], **options)
        else:
            with pytest.raises(CommitConflictError, match="newest"):
                write_tasks(stores, clock, work, batch_rows=shape["batch_rows"], **options)
            assert stored_versions(store) == before
    assert stored_versions(store) == stored_versions(store, splitSize=1, readBuffer=1) == model.stored()
    check_numbers(store, model)
    assert not store.verify().has_damage


def check_numbers(store: SlateStore, model: VersionModel) -> None:
    """The newest version of each key is what a look-up and a scan show; numbers are dense."""
    live = {key: versions[-1] for key, versions in model.keys.items()}
    shown = {row["id"]: row["name"] for row in store.scan(includeExpired=True).read_all().to_pylist()}
    assert shown == {key: name for key, (_, name, _) in live.items() if name is not None}
    for key in range(6):
        row = store.get(key, includeExpired=True)
        assert (None if row is None else row["name"]) == shown.get(key)
    used = [row["_seq"] for row in store.scan(readVersions="all").read_all().to_pylist()]
    assert max(used, default=0) == model.last_seq
