"""What a change feed must return: the difference of two reads, row by row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import pytest

from slatespark import SlateStore
from slatespark.table.changes import sides

Row: TypeAlias = dict[str, Any]
State: TypeAlias = dict[tuple[Any, ...], Row]  # rows by key

ADDED = ("_change_type", "_commit_version", "_commit_timestamp")


def state_of(store: SlateStore, keys: Sequence[str], version: int, **options: Any) -> State:
    """What a read of a version shows, by key; nothing of version 0."""
    if version == 0:
        return {}
    rows = store.scan(versionAsOf=version, **options).read_all().to_pylist()
    return {key_of(row, keys): row for row in rows}


def key_of(row: Mapping[str, Any], keys: Sequence[str]) -> tuple[Any, ...]:
    return tuple(row[name] for name in keys)


def differences(old: State, new: State) -> list[tuple[str, Row]]:
    """The changes that make one state from another, in no order of keys, each with its rows in order."""
    found = []
    for key in {**old, **new}:
        before, after = old.get(key), new.get(key)
        if before is None and after is not None:
            found.append(("insert", after))
        elif after is None and before is not None:
            found.append(("delete", before))
        elif before is not None and after is not None and before != after:
            found += [("update_preimage", before), ("update_postimage", after)]
    return found


def applied(state: State, changes: Sequence[tuple[str, Row]], keys: Sequence[str]) -> State:
    """A copy of a state after some changes."""
    rows = dict(state)
    for word, row in changes:
        if word == "delete":
            rows.pop(key_of(row, keys), None)
        elif word != "update_preimage":
            rows[key_of(row, keys)] = row
    return rows


def read_feed(store: SlateStore, before: int, after: int, **options: Any) -> list[tuple[str, Row]]:
    """The changes from the state of one version to that of another, with the columns of the table alone."""
    start: dict[str, Any] = {"startingVersion": max(before, 1)} | ({"startingBoundInclusive": False} if before else {})
    rows = store.changes(**start, endingVersion=after, **options).read_all().to_pylist()
    assert all(row["_commit_version"] == after for row in rows)
    return changes_of(rows)


def changes_of(rows: Iterable[Row]) -> list[tuple[str, Row]]:
    """The rows of a feed as its changes, with the columns of the table alone."""
    return [(row["_change_type"], {name: row[name] for name in row if name not in ADDED}) for row in rows]


@contextmanager
def reading_ranges() -> Iterator[None]:
    """Let a feed in this process read ranges instead of looking keys up, however far apart they are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sides, "_FEW", 1)
        patch.setattr(sides, "_DENSE", 0)
        yield


def check_feed(store: SlateStore, keys: Sequence[str], before: int, after: int, **options: Any) -> None:
    """Compare the feeds between two versions with what reads of the two show."""
    shared = {name: value for name, value in options.items() if name != "splitSize"}
    old, new = (state_of(store, keys, version, **shared) for version in (before, after))
    wanted = differences(old, new)
    found = read_feed(store, before, after, **options)
    assert _sorted(found, keys) == _sorted(wanted, keys)
    with reading_ranges():
        assert read_feed(store, before, after, **options) == found
    _check_order(found, keys)
    assert applied(old, found, keys) == new
    blind = read_feed(store, before, after, preImages=False, **options)
    assert {word for word, _ in blind} <= {"upsert", "delete"}
    touched = [key_of(row, keys) for _, row in blind]
    assert len(set(touched)) == len(touched)
    assert {key_of(row, keys) for _, row in wanted} <= set(touched)
    assert applied(old, blind, keys) == new
    ordered = [key_of(row, keys) for _, row in found]
    assert [key for key in touched if key in set(ordered)] == list(dict.fromkeys(ordered))


def check_ignored(store: SlateStore, keys: Sequence[str], before: int, after: int) -> None:
    """Compare the feed without expiry with reads of both versions at the time of the later one."""
    now_ms = store.resolve(versionAsOf=after).now_ms
    if not store.definition.has_own_time:
        committed_ms = next(facts.committed_ms for facts in store.history() if facts.version == after)
        assert committed_ms is not None
        now_ms = max(now_ms, min(committed_ms, store.resolve().now_ms))
    old, new = (state_of(store, keys, version, now=now_ms) for version in (before, after))
    found = read_feed(store, before, after, expired="ignore")
    assert _sorted(found, keys) == _sorted(differences(old, new), keys)
    blind = read_feed(store, before, after, expired="ignore", preImages=False)
    assert applied(old, blind, keys) == new


def _sorted(changes: Sequence[tuple[str, Row]], keys: Sequence[str]) -> list[tuple[str, Row]]:
    return sorted(changes, key=lambda change: (repr(key_of(change[1], keys)), change[0]))


def _check_order(found: Sequence[tuple[str, Row]], keys: Sequence[str]) -> None:
    """An old row comes directly before the new row of its key, and no key comes twice."""
    before: tuple[str, tuple[Any, ...]] | None = None
    seen = set()
    for word, row in found:
        key = key_of(row, keys)
        if word == "update_postimage":
            assert before == ("update_preimage", key)
        else:
            assert before is None or before[0] != "update_preimage"
            assert key not in seen
        seen.add(key)
        before = word, key
