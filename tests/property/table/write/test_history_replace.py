"""Replacements of an interval of a history table: reads as of any time before or after stay exact."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark import SlateStore
from tests.support.effort import examples
from tests.support.fake_clock import FakeClock
from tests.unit.table.write.test_history_replace import NAMES, SCHEMA, State, replace, rows, state

KEYS = st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 5))

CHANGES = st.tuples(
    st.sampled_from(["write", "replace", "replace", "deleteRange"]),
    st.dictionaries(KEYS, st.integers(0, 9), max_size=6),
    st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 5), st.integers(0, 5)),
)


@settings(max_examples=examples(8))
@given(st.lists(CHANGES, min_size=1, max_size=6))
def test_every_past_state_stays(changes: list[tuple[str, State, tuple[str, int, int]]]) -> None:
    clock = FakeClock(1_700_000_000_000)
    store = SlateStore.create(next(NAMES), schema=SCHEMA, keyColumns=["tenant", "id"], history=True, clock=clock)
    expected: State = {("c", 0): 0}
    store.write(rows(expected))
    past: list[tuple[int, State]] = []
    for kind, new, (tenant, one, two) in changes:
        clock.advance(1000)
        low, high = sorted((one, two))
        where = f"tenant = '{tenant}' AND id BETWEEN {low} AND {high}"

        def inside(key: tuple[str, int], tenant: str = tenant, low: int = low, high: int = high) -> bool:
            return key[0] == tenant and low <= key[1] <= high

        if kind == "write":
            store.write(rows(new))
            expected = {**expected, **new}
        else:
            kept = {key: n for key, n in expected.items() if not inside(key)}
            new = {key: n for key, n in new.items() if inside(key)} if kind == "replace" else {}
            if kind == "replace":
                replace(store, new, where)
            else:
                store.deleteRange(where)
            expected = {**kept, **new}
        past.append((clock.now_ms(), dict(expected)))
    clock.advance(1000)
    assert state(store) == expected
    for at_ms, then in past:
        assert state(store, timestampAsOf=at_ms) == then
