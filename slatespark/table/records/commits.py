"""Commit records: published after each commit, read newest first.

They are best effort: with them `history` shows more and planning skips more, and without them nothing is wrong.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Final, TypeAlias

from slatespark.errors import CorruptDataError, SlateError
from slatespark.format.manifest import Manifest
from slatespark.log_lines import log_event
from slatespark.storage import ObjectStore, run_concurrently, run_in_groups
from slatespark.table.records.commit_batches import (
    batch_commit_records,
    fetch_commit_object,
    list_batches,
    list_batches_by_size,
    with_small,
)
from slatespark.table.records.commit_record import COMMITS_DIR, CommitRecord, commit_of, commit_path
from slatespark.table.records.json_objects import encode_json, find_json, list_numbered, with_checksum

_FEW: Final = 32  # records that are asked for by name, without a listing
_PARALLEL_BATCHES: Final = 4  # of up to `BATCH_BYTES` each
_IDS_PER_COMMIT: Final = 2  # a claim, then the version with the rows
_CHECK_EVERY_IDS: Final = 10  # about every fifth commit checks whether a batch is full

_log = logging.getLogger(__name__)

_FetchRecord: TypeAlias = Callable[[ObjectStore, int], CommitRecord | None]


def publish_commit_record(store: ObjectStore, record: CommitRecord) -> None:
    """Log a commit, and publish its record. Failures are ignored: it has landed, and an error would deny that."""
    log_event(
        _log,
        "commit",
        store.url,
        version=record.manifest_id,
        operation=record.operation,
        rows=sum(record.rows.values()),
        files=len(record.files),
        removed=len(record.removed),
    )
    with contextlib.suppress(FileExistsError, SlateError):
        store.create(commit_path(record.manifest_id), encode_json(with_checksum(asdict(record))))
        if record.manifest_id % _CHECK_EVERY_IDS < _IDS_PER_COMMIT:
            batch_commit_records(store)


def newest_commit_records(
    store: ObjectStore, limit: int | None = None, *, sound_only: bool = False
) -> Iterator[CommitRecord]:
    """Yield the newest `limit` commit records, newest first; all without a limit. A few are read at a time.

    Parameters
    ----------
    sound_only : skip damaged records

    Raises
    ------
    CorruptDataError
        When a damaged record is not in a sound batch either.
    """
    most = None if limit is None else min(limit, sys.maxsize)
    fetch = _find_sound if sound_only else fetch_commit_record
    return itertools.islice(_records_newest_first(store, fetch, with_late=limit is None), most)


def fetch_commit_record(store: ObjectStore, manifest_id: int) -> CommitRecord | None:
    """Return the record of one commit; None if there is none."""
    path = commit_path(manifest_id)
    content = find_json(store, path)
    return None if content is None else commit_of(path, content)


def find_commit_records(store: ObjectStore, numbers: Sequence[int]) -> list[CommitRecord]:
    """Return the sound records of some versions that exist: those have records of their own, beside any batch."""
    return _fetch_singles(store, _find_sound, numbers)


def is_own_commit(store: ObjectStore, number: int, manifest: Manifest) -> bool:
    """Tell whether a version is known to be a slatespark commit, and not only a change of checkpoints."""
    if not manifest.nonce:  # a client's
        return False
    record = _find_sound(store, number)
    return record is not None and record.compactor_epoch == manifest.compactor_epoch


def fetch_records_between(store: ObjectStore, first: int, last: int) -> dict[int, CommitRecord]:
    """Return the sound records of the versions `first` to `last`, by version; other records are not read.

    A few versions are asked for by name; a record that is not found so may be in a batch.
    """
    wanted = range(first, last + 1)
    few = len(wanted) <= _FEW
    singles = list(wanted) if few else _within(list_numbered(store, COMMITS_DIR, commit_path(first - 1)), wanted)
    found = {record.manifest_id: record for record in _fetch_singles(store, _find_sound, singles)}
    if len(found) < len(wanted):
        batches = list_batches(store, first)
        for number in sorted(batches):
            records = {record.manifest_id: record for record in fetch_commit_object(store, batches[number].path)}
            found = {each: records[each] for each in _within(records, wanted)} | found
            if number >= last:
                break
    return found


def _within(numbers: Iterable[int], wanted: range) -> list[int]:
    return [number for number in numbers if number in wanted]


def _find_sound(store: ObjectStore, manifest_id: int) -> CommitRecord | None:
    with contextlib.suppress(CorruptDataError):
        return fetch_commit_record(store, manifest_id)
    return None


def _records_newest_first(store: ObjectStore, fetch: _FetchRecord, *, with_late: bool) -> Iterator[CommitRecord]:
    """Yield commit records; `with_late` includes those that were published after their batch was created."""
    large, small = list_batches_by_size(store)
    newest_large = max(large, default=0)
    batches = with_small(large, small)
    newest = max(batches, default=0)
    singles = sorted(list_numbered(store, COMMITS_DIR, "" if with_late else commit_path(newest_large)), reverse=True)
    recent = [number for number in singles if number > newest]
    singly = run_in_groups(partial(fetch, store), recent, is_remote=store.is_remote)
    yield from (record for _, record in singly if record is not None)
    spans = list(itertools.pairwise([*sorted(batches, reverse=True), 0]))

    def fetch_batch(span: tuple[int, int]) -> list[CommitRecord]:
        return fetch_commit_object(store, batches[span[0]].path)

    together = run_in_groups(fetch_batch, spans, is_remote=store.is_remote, size=_PARALLEL_BATCHES)
    for (high, low), records in together:
        # Batches of two writers may overlap.
        found = {record.manifest_id: record for record in records if low < record.manifest_id <= high}
        late = [number for number in singles if low < number <= high and number not in found]
        found |= {record.manifest_id: record for record in _fetch_singles(store, fetch, late)}
        yield from (found[number] for number in sorted(found, reverse=True))


def _fetch_singles(store: ObjectStore, fetch: _FetchRecord, numbers: Sequence[int]) -> list[CommitRecord]:
    fetches = [partial(fetch, store, number) for number in numbers]
    return [record for record in run_concurrently(fetches, is_remote=store.is_remote) if record is not None]
