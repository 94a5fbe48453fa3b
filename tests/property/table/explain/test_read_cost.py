"""What is explained of a read is what happens: requests lie within the estimate, and its rows are those of a scan."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark import SlateStore
from slatespark.slate_store.explanation import Explanation
from tests.support.effort import examples
from tests.support.fake_clock import FakeClock
from tests.unit.table.explain.tables import forget, new_place, new_table, rows

KEYS = 3000


@st.composite
def writes(draw: st.DrawFn) -> list[tuple[int, int, dict[str, Any]]]:
    """First key, number of rows, and options of some writes."""
    options = st.sampled_from(
        [
            {},
            {"ttl": "1ms"},
            {"ttl": "1h"},
            {"operation": "delete"},
            {"sstSize": "20k"},
            {"blockSize": "1k"},
            {"bloomBitsPerKey": 0},
        ]
    )
    return draw(st.lists(st.tuples(st.integers(0, KEYS), st.integers(1, KEYS), options), max_size=5))


def filters() -> st.SearchStrategy[str | None]:
    key = st.integers(-5, 2 * KEYS)
    return st.one_of(
        st.none(),
        st.lists(key, min_size=1, max_size=20).map(lambda keys: f"id IN ({', '.join(map(str, keys))})"),
        st.tuples(key, key).map(lambda pair: f"id BETWEEN {min(pair)} AND {max(pair)}"),
        key.map(lambda number: f"id >= {number}"),
        st.integers(0, 5).map(lambda number: f"_seq > {number}"),
        st.just("v < '1'"),
    )


@given(
    made=writes(),
    condition=filters(),
    split=st.sampled_from(["8k", "64k", "32m"]),
    buffer=st.sampled_from(["64k", "64m"]),
    versions=st.sampled_from(["latest", "all"]),
    merged=st.sampled_from(["no", "in part", "with copies"]),
    columns=st.sampled_from([None, "id"]),
)
@settings(max_examples=examples(30), deadline=None)
def test_measured_requests_are_within_the_estimate(
    made: list[tuple[int, int, dict[str, Any]]],
    condition: str | None,
    split: str,
    buffer: str,
    versions: str,
    merged: str,
    columns: str | None,
) -> None:
    clock = FakeClock()
    store = new_table(new_place(), clock)
    for first, count, options in made:
        store.write(rows(first, count), **options)
        clock.advance(1000)
    if merged == "in part":
        store.compact(where="id < 1500")
    elif merged == "with copies":
        store.compact(full=True, columnar=True, sstSize="40k")
        store.write(rows(KEYS - 5, 10))
    read: dict[str, Any] = {
        **({} if columns is None else {"columns": columns}),
        "filter": condition,
        "splitSize": split,
        "readBuffer": buffer,
        "readVersions": versions,
        "useCopies": True,
    }
    forget()
    cold = store.explain(analyze=True, **read)
    warm = store.explain(analyze=True, **read)
    wanted = store.scan(**read).read_all()
    for found in (cold, warm):
        check(found, wanted)
    assert warm.estimated.is_exact
    assert warm.estimated.low <= cold.estimated.high


def check(found: Explanation, wanted: pa.Table) -> None:
    assert found.measured is not None
    assert found.measured in found.estimated, (found.estimated, found.measured)
    assert found.rows == wanted.num_rows
    assert found.files == sum(found.skipped.values()) + len(used_files(found))


def used_files(found: Explanation) -> list[int]:
    """One entry for each file that is used; no layer of these tables shares a file with another one."""
    return [number for layer in found.layers for number in range(layer.used)]


@given(made=writes())
@settings(max_examples=examples(5), deadline=None)
def test_to_explain_changes_no_answer(made: list[tuple[int, int, dict[str, Any]]]) -> None:
    clock = FakeClock()
    store = new_table(new_place(), clock)
    for first, count, options in made:
        store.write(rows(first, count), **options)
    before, version = store.scan().read_all(), store.resolve().version
    for operation in ("read", "compact", "vacuum", "reap"):
        store.explain(operation)
    assert (store.scan().read_all(), store.resolve().version) == (before, version)
    for operation, options in (("compact", {"full": True}), ("vacuum", {"minAge": "0s", "force": True}), ("reap", {})):
        found = store.explain(operation, analyze=True, **options)
        assert found.measured is not None
        assert found.measured in found.estimated, (operation, found.estimated, found.measured)
        assert store.scan().read_all() == before
    assert SlateStore.open(store.url, clock=clock).scan().read_all() == before
