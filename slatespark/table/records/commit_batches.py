"""Batches: every hundred commit records are also stored in one object, so that reading many takes few requests."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from slatespark.errors import CorruptDataError
from slatespark.storage import ObjectMeta, ObjectStore, run_concurrently
from slatespark.table.records.commit_record import (
    BATCHES_DIR,
    CHECKSUM,
    COMMITS_DIR,
    CommitRecord,
    commit_of,
    commit_path,
)
from slatespark.table.records.json_objects import JSON_SUFFIX, decode_json, encode_json, list_numbered

BATCH_RECORDS: Final = 100


BATCH_BYTES: Final = 16 << 20  # a batch ends with the record that reaches it; each file takes a few hundred bytes


def batch_commit_records(store: ObjectStore) -> None:
    """Copy commit records to batches of a hundred, so that thousands of commits are read in a few requests.

    The single records stay, so losing a batch loses nothing. Two writers may batch concurrently: the first to create a
    batch wins, and a record in two batches is the same in both.
    """
    newest = max(list_numbered(store, BATCHES_DIR), default=0)
    waiting = sorted(list_numbered(store, COMMITS_DIR, commit_path(newest)).items())
    while (chunk := _full_batch(waiting)) is not None:
        waiting = waiting[len(chunk) :]
        contents = run_concurrently(
            [partial(_get_sound, store, meta.path) for _, meta in chunk], is_remote=store.is_remote
        )
        data = encode_json({"commits": [content for content in contents if content is not None]})
        store.create(f"{BATCHES_DIR}{chunk[-1][0]:020d}{JSON_SUFFIX}", data)


def _full_batch(waiting: Sequence[tuple[int, ObjectMeta]]) -> Sequence[tuple[int, ObjectMeta]] | None:
    """Return the first records that fill a batch; None if there are too few."""
    for count, size in enumerate(itertools.accumulate(meta.size for _, meta in waiting), 1):
        if count == BATCH_RECORDS or size >= BATCH_BYTES:
            return waiting[:count]
    return None


def _get_sound(store: ObjectStore, path: str) -> dict[str, Any] | None:
    """Return the content of a record; None if it is damaged or gone."""
    try:
        content = decode_json(path, bytes(store.get(path)))
        commit_of(path, content)
    except (FileNotFoundError, CorruptDataError):
        return None
    return content


def list_commit_objects(store: ObjectStore) -> list[ObjectMeta]:
    """Return the objects that hold our commit records, newest first: single ones above the newest batch, then batches.

    They never change. A record published after its batch was created is in none of them.
    """
    batches = list_numbered(store, BATCHES_DIR)
    singles = list_numbered(store, COMMITS_DIR, commit_path(max(batches, default=0)))
    return [found[number] for found in (singles, batches) for number in sorted(found, reverse=True)]


def fetch_commit_object(store: ObjectStore, meta: ObjectMeta, *, checked_only: bool = False) -> list[CommitRecord]:
    """Return the sound records of one of `list_commit_objects`, oldest first; none for a damaged object.

    Parameters
    ----------
    checked_only : skip records of old releases, which have no checksum
    """
    with contextlib.suppress(FileNotFoundError, CorruptDataError):
        content = decode_json(meta.path, bytes(store.get(meta.path)))
        parts = content.get("commits") if meta.path.startswith(BATCHES_DIR) else [content]
        return list(_sound_commits(meta.path, parts, checked_only))
    return []


def _sound_commits(path: str, parts: Any, checked_only: bool) -> Iterator[CommitRecord]:
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, dict) and (CHECKSUM in part or not checked_only):
            with contextlib.suppress(CorruptDataError):
                yield commit_of(path, part)
