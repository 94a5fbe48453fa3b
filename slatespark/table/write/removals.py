"""What commits took away since a version without leaving a row: by a replacement, a restore or a trim.

Only commits of ours do that; a client's compaction drops what reads do not show. Each of ours claims the epochs first,
and what it noted before that announces the keys. A version of ours is known by its nonce (docs/adr/0001), and one that
publishes rows or takes them away raises the last sequence number.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Final

from slatespark.errors import SnapshotExpiredError
from slatespark.format.manifest import Manifest
from slatespark.format.manifest_outline import ManifestOutline, decode_outline
from slatespark.ranges import ALL_KEYS, KeyRange
from slatespark.storage import run_together
from slatespark.table.located import reading
from slatespark.table.numbered_log import NumberedLog
from slatespark.table.records import fetch_claimed_removals, manifest_digest
from slatespark.table.snapshot import manifest_log
from slatespark.table.stores import TableStores

_TOGETHER: Final = 32  # requests


@dataclass(frozen=True, slots=True)
class Removal:
    """Rows of some keys may be gone.

    Attributes
    ----------
    manifest_id : the version from which on they are
    keys : which; all keys, too, where it is not known what the commit did
    """

    manifest_id: int
    keys: KeyRange


@dataclass(frozen=True, slots=True)
class _Version:
    number: int
    outline: ManifestOutline | Manifest
    digest: str = ""

    @property
    def epochs(self) -> tuple[int, int]:
        return self.outline.writer_epoch, self.outline.compactor_epoch


def find_removals(
    stores: TableStores, since_id: int, since: Manifest, latest_id: int, latest: Manifest
) -> Iterator[Removal]:
    """Yield what commits of ours took away after the version `since`, up to the newest one.

    Raises
    ------
    SnapshotExpiredError
        When a version in between was collected.
    """
    if since.last_l0_seq == latest.last_l0_seq:
        return
    versions = [_Version(since_id, since), *_fetch_between(stores, since_id, latest_id), _Version(latest_id, latest)]
    for before, version in pairwise(versions):
        is_ours = bool(version.outline.nonce) and version.number > 1  # the first one takes nothing away
        if is_ours and version.outline.last_l0_seq > before.outline.last_l0_seq:
            yield from (Removal(version.number, keys) for keys in _removed_by(stores, versions, version))


def _removed_by(stores: TableStores, versions: Sequence[_Version], version: _Version) -> tuple[KeyRange, ...]:
    """Return the keys that a commit may have taken away; all keys where what it noted is gone."""
    claim = next(known for known in versions if known.epochs == version.epochs)
    if claim is versions[0]:  # the read came between claim and commit, so the claim is that version or lies before it
        claim = _fetch_first(stores, claim)
    removed = fetch_claimed_removals(stores.main, claim.number, claim.digest)
    return (ALL_KEYS,) if removed is None else removed


def _fetch_between(stores: TableStores, since_id: int, latest_id: int) -> list[_Version]:
    log = manifest_log(stores)
    fetches = [partial(_fetch, log, number) for number in range(since_id + 1, latest_id)]
    parts = (fetches[at : at + _TOGETHER] for at in range(0, len(fetches), _TOGETHER))
    return [version for part in parts for version in run_together(part, is_remote=stores.main.is_remote)]


def _fetch_first(stores: TableStores, version: _Version) -> _Version:
    """Return the first version with the same epochs; one of those after it, if it was collected."""
    log, first = manifest_log(stores), version
    with contextlib.suppress(SnapshotExpiredError):
        first = _fetch(log, version.number)
        while (earlier := _fetch(log, first.number - 1)).epochs == version.epochs:
            first = earlier
    return first


def _fetch(log: NumberedLog, number: int) -> _Version:
    data = bytes(log.get(number))
    with reading(log.store, log.path(number)):
        return _Version(number, decode_outline(data), manifest_digest(data))
