from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark.format.row import Row
from slatespark.ranges import KeyRange
from tests.support.effort import examples
from tests.unit.table.retention.test_past_retention import GROUPS, found, keys, left


@given(st.lists(st.sampled_from(GROUPS), max_size=5), st.data())
def test_windows_may_end_between_any_versions(chosen: list[tuple[list[Row], bool]], data: st.DataObject) -> None:
    """A key that spans windows has them to itself."""
    keys = [b"%d" % number for number in range(len(chosen))]
    groups = [
        [Row(key, each.seq, each.kind, each.value, each.create_ts_ms, each.expire_ts_ms) for each in group]
        for key, (group, _) in zip(keys, chosen, strict=True)
    ]
    pieces: list[list[Row]] = [[]]
    for group in groups:
        if data.draw(st.booleans()):
            pieces[-1].extend(group)
        else:
            pieces.extend([[version] for version in group])
            pieces.append([])
    retired = [key for key, (_, is_retired) in zip(keys, chosen, strict=True) if is_retired]
    assert [each.key for each in found(pieces)] == retired


@settings(max_examples=examples(30))
@given(st.lists(st.tuples(keys, st.sampled_from(GROUPS)), unique_by=lambda item: item[0]), st.lists(keys, max_size=2))
def test_keys_are_independent(chosen: list[tuple[bytes, tuple[list[Row], bool]]], ends: list[bytes]) -> None:
    older = [KeyRange(min(ends), max(ends))] if len(set(ends)) == 2 else []
    groups = [
        [Row(key, each.seq, each.kind, each.value, each.create_ts_ms, each.expire_ts_ms) for each in group]
        for key, (group, _) in sorted(chosen, key=lambda item: item[0])
    ]
    parts = [left(group, older) for group in groups]
    whole = left([version for group in groups for version in group], older) if groups else ([], 0)
    assert whole == ([version for rows, _ in parts for version in rows], sum(gone for _, gone in parts))
