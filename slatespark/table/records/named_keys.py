"""The keys that slatespark's records name: intervals that commits replaced or removed, and how they are forgotten.

Commit records and claims list such intervals in hexadecimal. An interval that was forgotten is missing from the history
of a commit, and a claim without its intervals may have removed any key.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from slatespark.errors import CorruptDataError
from slatespark.format.named_keys import NamedKey, first_named
from slatespark.ranges import ALL_KEYS, KeyRange
from slatespark.storage import ObjectStore, run_in_groups
from slatespark.table.records.claims import CLAIMS_DIR
from slatespark.table.records.commit_record import BATCHES_DIR, COMMITS_DIR, FORGOTTEN
from slatespark.table.records.json_objects import (
    CHECKSUM,
    decode_json,
    encode_json,
    find_object,
    hex_bounds,
    with_checksum,
)

_FOLDERS: Final = (COMMITS_DIR, BATCHES_DIR, CLAIMS_DIR)
_REPLACED: Final = "replaced"
_REMOVES: Final = "removes"


def find_named(store: ObjectStore, ranges: Sequence[KeyRange]) -> Iterator[tuple[str, bytes | None]]:
    """Yield the path of each record that names a key in some ranges, with the first such key; None if it is damaged.

    Parameters
    ----------
    ranges : ascending, not overlapping
    """
    for path, _, content in _fetch_records(store):
        if content is None:
            yield path, None
        elif (key := first_named(_names(content), ranges)) is not None:
            yield path, key


def forget_keys(store: ObjectStore, ranges: Sequence[KeyRange]) -> int:
    """Rewrite the records that name keys in some ranges without them, and return their number; ranges as above."""
    return sum(_forget_in(store, ranges, *found) for found in _fetch_records(store))


def _forget_in(
    store: ObjectStore, ranges: Sequence[KeyRange], path: str, data: bytes | None, content: dict[str, Any] | None
) -> bool:
    """Rewrite a record if it names keys in some ranges; another erasure may rewrite it at the same time."""
    while content is not None and first_named(_names(content), ranges) is not None:
        assert data is not None  # there is a content
        try:
            store.replace(path, encode_json(_without(content, ranges)), data)
        except FileNotFoundError:
            return False
        except FileExistsError:
            data = find_object(store, path)
            content = None if data is None else _decoded(path, data)
        else:
            return True
    return False


def _fetch_records(store: ObjectStore) -> Iterator[tuple[str, bytes, dict[str, Any] | None]]:
    """Yield path, bytes and content of all commit records, then batches of them, then claims; None for a damaged one.

    Each folder is listed when it is reached: who makes a batch of records looks afterwards whether one has changed.
    """
    for folder in _FOLDERS:
        paths = [meta.path for meta in store.list(folder) if meta.size]
        for path, data in run_in_groups(partial(find_object, store), paths, is_remote=store.is_remote):
            if data is not None:
                yield path, data, _decoded(path, data)


def _decoded(path: str, data: bytes) -> dict[str, Any] | None:
    with contextlib.suppress(CorruptDataError):
        return decode_json(path, data)
    return None


def names_keys(content: dict[str, Any]) -> bool:
    """Tell whether a record, or a batch, names any key."""
    return any(True for _ in _names(content))


def _names(content: dict[str, Any]) -> Iterator[NamedKey]:
    for record in _parts(content):
        for bounds in (*_list(record.get(_REPLACED)), *_list(record.get(_REMOVES))):
            yield from _bounds(bounds)


def _parts(content: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the records of a batch, or the record itself."""
    batched = content.get("commits")
    return [part for part in batched if isinstance(part, dict)] if isinstance(batched, list) else [content]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _bounds(bounds: Any) -> Iterator[NamedKey]:
    for bound in _list(bounds):
        with contextlib.suppress(TypeError, ValueError):  # an open end, or not what we write
            yield NamedKey(bytes.fromhex(bound))


def _without(content: dict[str, Any], ranges: Sequence[KeyRange]) -> dict[str, Any]:
    """Return a record, or a batch, without the intervals whose bounds name keys in some ranges."""
    batched = content.get("commits")
    if isinstance(batched, list):
        return {**content, "commits": [_without(each, ranges) if isinstance(each, dict) else each for each in batched]}
    left = dict(content)
    replaced = _list(left.get(_REPLACED))
    if any(_is_of(each, ranges) for each in replaced):
        left |= {_REPLACED: [each for each in replaced if not _is_of(each, ranges)], FORGOTTEN: True}
    if any(_is_of(each, ranges) for each in _list(left.get(_REMOVES))):
        left[_REMOVES] = [hex_bounds(ALL_KEYS)]
    return with_checksum(left) if CHECKSUM in left else left


def _is_of(bounds: Any, ranges: Sequence[KeyRange]) -> bool:
    return first_named(_bounds(bounds), ranges) is not None
