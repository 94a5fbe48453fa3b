"""Claims: the digest of a manifest that claims epochs, recorded before the manifest is created.

They distinguish slatespark's epochs from those of other clients.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from slatespark.errors import CorruptDataError
from slatespark.format.paths import numbered
from slatespark.ranges import KeyRange
from slatespark.storage import ObjectStore, run_in_groups
from slatespark.table.log.manifests import manifest_digest
from slatespark.table.records.json_objects import (
    JSON_SUFFIX,
    ROOT,
    encode_json,
    find_json,
    hex_bounds,
    range_of_hex,
)

CLAIMS_DIR: Final = f"{ROOT}claims/"
_NAME: Final = re.compile(rf"(\d{{20}})-([^-]+)-(\d{{1,9}}){re.escape(JSON_SUFFIX)}")
PATIENCE_MS: Final = 3_000  # with a claim whose record does not say; about ten requests follow until its commit


def publish_claim(
    store: ObjectStore,
    manifest_id: int,
    write_id: str,
    attempt: int,
    data: bytes,
    *,
    patience_ms: int = PATIENCE_MS,
    removes: Sequence[KeyRange] = (),
) -> None:
    """Record a claim before its manifest is created.

    Parameters
    ----------
    data : the bytes of the manifest
    patience_ms : how long siblings leave the claim alone, since its commit is under way
    removes : key ranges in which the commit removes rows without a newer version
    """
    path = f"{CLAIMS_DIR}{manifest_id:020d}-{write_id}-{attempt}{JSON_SUFFIX}"
    content = {
        "manifest_id": manifest_id,
        "sha256": manifest_digest(data),
        "removes": [hex_bounds(keys) for keys in removes],
        "patience_ms": patience_ms,
    }
    store.put(path, [encode_json(content)])


@dataclass(frozen=True, slots=True)
class ClaimRecord:
    """The record of a claim: the job whose commit is to follow, and for how long siblings leave it alone."""

    write_id: str
    patience_ms: int


class _Stored(NamedTuple):
    """A stored claim, as its name says."""

    path: str
    manifest_id: int
    write_id: str
    attempt: int


def announced_version(path: str) -> int | None:
    """Return the manifest id that the name of a claim begins with; None for other objects.

    The rest of the name does not count here: a collector judges each object by the version alone.
    """
    if not path.endswith(JSON_SUFFIX):
        return None
    number = path.removeprefix(CLAIMS_DIR).partition("-")[0]
    return numbered(f"{number}{JSON_SUFFIX}", JSON_SUFFIX[1:])


def find_claim(store: ObjectStore, manifest_id: int, data: bytes) -> ClaimRecord | None:
    """Return the record of the claim with this content; None if the manifest is not a slatespark claim.

    A damaged claim is as good as none.
    """
    digest = manifest_digest(data)
    for claim in _list_claims(store, manifest_id, manifest_id):
        with contextlib.suppress(CorruptDataError):
            content = find_json(store, claim.path) or {}
            if content.get("sha256") == digest:
                given = content.get("patience_ms")
                return ClaimRecord(claim.write_id, given if isinstance(given, int) else PATIENCE_MS)
    return None


def find_lost_claims(store: ObjectStore, won: Mapping[int, str]) -> dict[str, int]:
    """Return the jobs that lost their last claim to others: the number of their attempts so far, by write id.

    Parameters
    ----------
    won : write ids by the manifest id that they claimed, at least one
    """
    last: dict[str, tuple[int, int]] = {}
    for claim in _list_claims(store, min(won), max(won)):
        last[claim.write_id] = max(last.get(claim.write_id, (0, 0)), (claim.manifest_id, claim.attempt + 1))
    return {
        write_id: attempts for write_id, (number, attempts) in last.items() if won.get(number, write_id) != write_id
    }


def fetch_digests_between(store: ObjectStore, first_id: int, last_id: int) -> dict[int, frozenset[str]]:
    """Return the digests recorded for manifests [first_id, last_id], by id; those without any are left out.

    A damaged claim is as good as none.
    """
    claims = _list_claims(store, first_id, last_id)
    found: dict[int, frozenset[str]] = {}
    for claim, digest in run_in_groups(partial(_fetch_digest, store), claims, is_remote=store.is_remote):
        if digest is not None:
            found[claim.manifest_id] = found.get(claim.manifest_id, frozenset()) | {digest}
    return found


def _fetch_digest(store: ObjectStore, claim: _Stored) -> str | None:
    with contextlib.suppress(CorruptDataError):
        content = find_json(store, claim.path)
        return None if content is None else str(content.get("sha256"))
    return None


def fetch_claimed_removals(store: ObjectStore, first_id: int, last_id: int) -> dict[str, tuple[KeyRange, ...]]:
    """Return the key ranges in which commits removed rows, according to their claims.

    Parameters
    ----------
    first_id, last_id : the ids of the manifests, inclusive

    Returns
    -------
    The ranges by digest of the manifest, without damaged claims and those that record none.
    """
    claims = _list_claims(store, first_id, last_id)
    found = run_in_groups(partial(_fetch_removals, store), claims, is_remote=store.is_remote)
    return dict(removal for _, removal in found if removal is not None)


def _fetch_removals(store: ObjectStore, claim: _Stored) -> tuple[str, tuple[KeyRange, ...]] | None:
    with contextlib.suppress(CorruptDataError, KeyError, TypeError, ValueError):
        content = find_json(store, claim.path) or {}
        return str(content["sha256"]), tuple(range_of_hex(*bounds) for bounds in content["removes"])
    return None


def _list_claims(store: ObjectStore, first_id: int, last_id: int) -> list[_Stored]:
    """Return the claims of manifests [first_id, last_id] by their names; objects with other names are left out."""
    listed = (meta.path for meta in store.list(CLAIMS_DIR, f"{CLAIMS_DIR}{first_id:020d}"))
    some = itertools.takewhile(lambda path: path < f"{CLAIMS_DIR}{last_id + 1:020d}", listed)
    names = ((path, _NAME.fullmatch(path.removeprefix(CLAIMS_DIR))) for path in some)
    return [_Stored(path, int(name[1]), name[2], int(name[3])) for path, name in names if name is not None]
