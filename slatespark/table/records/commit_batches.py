"""Batches: every hundred commit records are also stored in one object, so that many commits take few requests."""

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
    """Put commit records together, a hundred at a time, so that thousands of commits are read in a few requests.

    The single ones stay; so nothing is lost with a batch. Two writers may do this at the same time: the first one to
    name a batch wins, and a record that is in two of them is the same in both.
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
    """Return the first of the records as far as they fill a batch; None if they do not."""
    for count, size in enumerate(itertools.accumulate(meta.size for _, meta in waiting), 1):
        if count == BATCH_RECORDS or size >= BATCH_BYTES:
            return waiting[:count]
    return None


def _get_sound(store: ObjectStore, path: str) -> dict[str, Any] | None:
    """Return the content of a record; None if it is damaged, or gone."""
    try:
        content = decode_json(path, bytes(store.get(path)))
        commit_of(path, content)
    except (FileNotFoundError, CorruptDataError):
        return None
    return content


def list_commit_objects(store: ObjectStore) -> list[ObjectMeta]:
    """Return the objects that hold our commit records, newest first: single ones above the newest batch, then batches.

    They never change. A record that was noted after the batch of its time was made is in none of them.
    """
    batches = list_numbered(store, BATCHES_DIR)
    singles = list_numbered(store, COMMITS_DIR, commit_path(max(batches, default=0)))
    return [found[number] for found in (singles, batches) for number in sorted(found, reverse=True)]


def fetch_commit_object(store: ObjectStore, meta: ObjectMeta, *, checked_only: bool = False) -> list[CommitRecord]:
    """Return the sound records of one of `list_commit_objects`, oldest first; of a damaged object none.

    Parameters
    ----------
    checked_only : leave out those of old releases, which have no checksum
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
