"""Batches: commit records are also stored together, a hundred in one object, so that reading many takes few requests.

The newest ones are in batches of ten until a hundred are there.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from slatespark.errors import CorruptDataError
from slatespark.storage import ObjectMeta, ObjectStore, run_concurrently
from slatespark.table.log.numbered_log import by_number
from slatespark.table.records.commit_record import BATCHES_DIR, COMMITS_DIR, CommitRecord, commit_of, commit_path
from slatespark.table.records.json_objects import (
    CHECKSUM,
    JSON_SUFFIX,
    encode_json,
    find_json,
    find_object,
    list_numbered,
)
from slatespark.table.records.named_keys import names_keys

BATCH_RECORDS: Final = 100
SMALL_BATCH_RECORDS: Final = 10
SMALL_SUFFIX: Final = f".10{JSON_SUFFIX}"  # of their names, which earlier releases pass over

BATCH_BYTES: Final = 16 << 20  # a batch ends with the record that reaches it; each file takes a few hundred bytes


def batch_commit_records(store: ObjectStore) -> None:
    """Copy commit records to batches, so that thousands of commits are read in a few requests.

    The single records stay, so losing a batch loses nothing. Two writers may batch concurrently: the first to create a
    batch wins, and a record in two batches is the same in both.
    """
    large, small = list_batches_by_size(store)
    newest = max(large, default=0)
    waiting = sorted(list_numbered(store, COMMITS_DIR, commit_path(newest)).items())
    while (chunk := _full_batch(waiting, BATCH_RECORDS)) is not None:
        waiting = waiting[len(chunk) :]
        _create_batch(store, chunk, JSON_SUFFIX)
    newest_small = max(small, default=0)
    waiting = [(number, meta) for number, meta in waiting if number > newest_small]
    while (chunk := _full_batch(waiting, SMALL_BATCH_RECORDS)) is not None:
        waiting = waiting[len(chunk) :]
        _create_batch(store, chunk, SMALL_SUFFIX)


def _full_batch(
    waiting: Sequence[tuple[int, ObjectMeta]], batch_records: int
) -> Sequence[tuple[int, ObjectMeta]] | None:
    """Return the first records that fill a batch; None if there are too few."""
    for count, size in enumerate(itertools.accumulate(meta.size for _, meta in waiting), 1):
        if count == batch_records or size >= BATCH_BYTES:
            return waiting[:count]
    return None


def _create_batch(store: ObjectStore, chunk: Sequence[tuple[int, ObjectMeta]], suffix: str) -> None:
    contents = _get_all(store, [meta.path for _, meta in chunk])
    path, data = f"{BATCHES_DIR}{chunk[-1][0]:020d}{suffix}", _batch_of(contents)
    store.create(path, data)
    _forget_meanwhile(store, path, data, contents)


def _forget_meanwhile(store: ObjectStore, path: str, data: bytes, contents: dict[str, dict[str, Any]]) -> None:
    """Rewrite a new batch if its records were rewritten since they were read, until they were not.

    An erasure rewrites records, then the batches that it finds: it may have passed before this one was there. It is not
    deleted for that: of records below the newest batch, most readers see only those that are in one.
    """
    while naming := {each: content for each, content in contents.items() if names_keys(content)}:
        fresh = _get_all(store, [*naming])
        if fresh == naming:
            return
        newer = {each: content for each, content in contents.items() if each not in naming} | fresh
        changed = _batch_of(newer)
        try:
            store.replace(path, changed, data)
        except FileNotFoundError:
            return
        except FileExistsError:  # another erasure has found it
            data = find_object(store, path) or b""
        else:
            data, contents = changed, newer


def _batch_of(contents: Mapping[str, dict[str, Any]]) -> bytes:
    """Return a batch of records, which are given by their paths, in the order of their versions."""
    return encode_json({"commits": [contents[path] for path in sorted(contents)]})


def _get_all(store: ObjectStore, paths: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the contents of those records that are there and sound."""
    contents = run_concurrently([partial(_get_sound, store, path) for path in paths], is_remote=store.is_remote)
    return {path: content for path, content in zip(paths, contents, strict=True) if content is not None}


def _get_sound(store: ObjectStore, path: str) -> dict[str, Any] | None:
    """Return the content of a record; None if it is damaged or gone."""
    with contextlib.suppress(CorruptDataError):
        if (content := find_json(store, path)) is not None:
            commit_of(path, content)
            return content
    return None


def list_batches(store: ObjectStore, first: int = 0) -> dict[int, ObjectMeta]:
    """Return the batches that readers use, by the version they end with: the large ones, and small ones above them.

    Parameters
    ----------
    first : batches that end below this version are left out
    """
    return with_small(*list_batches_by_size(store, f"{BATCHES_DIR}{first - 1:020d}{JSON_SUFFIX}" if first else ""))


def with_small(large: Mapping[int, ObjectMeta], small: Mapping[int, ObjectMeta]) -> dict[int, ObjectMeta]:
    """Return large batches, and the small ones above them."""
    newest = max(large, default=0)
    return {**large, **{number: meta for number, meta in small.items() if number > newest}}


def list_batches_by_size(
    store: ObjectStore, start_after: str = ""
) -> tuple[dict[int, ObjectMeta], dict[int, ObjectMeta]]:
    """Return large and small batches by the version they end with, by one listing.

    Parameters
    ----------
    start_after : a path; batches up to it are left out
    """
    listed = store.list(BATCHES_DIR, start_after)
    return by_number(listed, JSON_SUFFIX[1:]), by_number(listed, SMALL_SUFFIX[1:])


def list_commit_objects(store: ObjectStore) -> list[ObjectMeta]:
    """Return the objects that hold commit records, newest first: single ones above the newest batch, then batches.

    They never change. A record published after its batch was created is in none of them.
    """
    batches = list_batches(store)
    singles = list_numbered(store, COMMITS_DIR, commit_path(max(batches, default=0)))
    return [found[number] for found in (singles, batches) for number in sorted(found, reverse=True)]


def fetch_commit_object(store: ObjectStore, path: str, *, checked_only: bool = False) -> list[CommitRecord]:
    """Return the sound records of one of `list_commit_objects`, oldest first; none for a damaged or missing object.

    Parameters
    ----------
    checked_only : skip records of old releases, which have no checksum
    """
    with contextlib.suppress(CorruptDataError):
        content = find_json(store, path) or {}
        parts = content.get("commits") if path.startswith(BATCHES_DIR) else [content]
        return list(_sound_commits(path, parts, checked_only))
    return []


def _sound_commits(path: str, parts: Any, checked_only: bool) -> Iterator[CommitRecord]:
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, dict) and (CHECKSUM in part or not checked_only):
            with contextlib.suppress(CorruptDataError):
                yield commit_of(path, part)
