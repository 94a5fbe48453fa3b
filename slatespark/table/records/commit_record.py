"""CommitRecord: the facts of one slatespark commit, as JSON with a checksum.

Scans skip files, and reaps drop them, on the basis of these records; hence the checksum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from slatespark.errors import CorruptDataError
from slatespark.table.records.json_objects import CHECKSUM, JSON_SUFFIX, ROOT, matches_checksum
from slatespark.units import MAX_MS, MIN_MS

COMMITS_DIR: Final = f"{ROOT}commits/"
BATCHES_DIR: Final = f"{COMMITS_DIR}batches/"

CLIENT_EPOCH: Final = 1 << 63  # in place of an epoch that we left: a live client committed this, and was at work itself
FORGOTTEN: Final = "forgotten"

_CHECKED: Final = {"manifest_id": int, "committed_ms": int, "operation": str, "rows": dict, "files": dict}
_CHECKED_IF_THERE: Final = {
    "engine": str,
    "write_id": str,
    "write_time_ms": int,
    "compactor_epoch": int,
    "removed": list,
    "first_seq": int | None,
    "last_seq": int | None,
    "start_seq": int | None,
    "end_seq": int | None,
    "fence": int | None,
    "forgotten": bool,
    "snapshot_seq": int | None,
    "manifest_sha256": str | None,
}
_TIMES: Final = ("committed_ms", "write_time_ms")
_MOST: Final = 1 << 64  # of all other numbers: the end of sequence numbers


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """The facts of one slatespark commit.

    Attributes
    ----------
    manifest_id : the published version
    operation : `write`, `overwrite`, `create`, ...
    engine : the kind of writer
    committed_ms, write_time_ms : wall clock at publication; latest create_ts of the rows
    first_seq, last_seq : used sequence numbers, inclusive; None if none
    rows : number of rows by kind
    files : properties of the added files, by SST id
    removed : ids of the SSTs that only the previous version showed
    compactor_epoch : the value after the commit; `CLIENT_EPOCH` if a live client made it for us
    delete_rate : bytes per second at which a reap deleted; None for other operations
    replaced : key ranges that it replaced entirely, `[start, end)` in hexadecimal; None as end is open
    start_seq, end_seq : the sequence numbers [start_seq, end_seq) that it took, with or without rows; None if a client
        committed it, and in records of old releases
    fence : id of its fence in the WAL, 0 without one; None where `start_seq` is
    forgotten : whether an erasure removed some of the replaced intervals, as their bounds named its keys
    snapshot_seq : sequence number above which a compaction kept hidden versions, for a snapshot of a client; None if it
        kept none for that, and in records of old releases
    manifest_sha256 : digest of the manifest, which has no checksum of its own; None if a client made it, and in records
        of old releases
    """

    manifest_id: int
    operation: str
    write_id: str
    engine: str
    committed_ms: int
    write_time_ms: int
    first_seq: int | None
    last_seq: int | None
    rows: Mapping[str, int] = field(default_factory=dict)
    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    removed: Sequence[str] = ()
    compactor_epoch: int = 0
    delete_rate: int | None = None
    replaced: Sequence[tuple[str, str | None]] = ()
    start_seq: int | None = None
    end_seq: int | None = None
    fence: int | None = None
    forgotten: bool = False
    snapshot_seq: int | None = None
    manifest_sha256: str | None = None

    @property
    def replaces(self) -> bool:
        """Whether it replaced intervals, also such that are not known any more."""
        return bool(self.replaced) or self.forgotten

    @property
    def first_taken_seq(self) -> int | None:
        """The first sequence number that it took, with or without rows, as far as the record tells."""
        return self.first_seq if self.start_seq is None else self.start_seq


def commit_path(manifest_id: int) -> str:
    """Return the path of the record of one commit."""
    return f"{COMMITS_DIR}{manifest_id:020d}{JSON_SUFFIX}"


def commit_of(path: str, content: Mapping[str, Any]) -> CommitRecord:
    """Return the commit record in decoded JSON; raises `CorruptDataError` when it is damaged."""
    if not matches_checksum(content):
        raise CorruptDataError(f"commit record does not match its checksum {content[CHECKSUM]!r}.", path=path)
    for name, kind in _CHECKED.items():
        if not isinstance(content.get(name), kind):
            raise CorruptDataError(f"commit record lacks {name!r}, or it is not of type {kind.__name__}.", path=path)
    for name, one_of in _CHECKED_IF_THERE.items():
        if name in content and not isinstance(content[name], one_of):
            raise CorruptDataError(f"commit record has {name} = {content[name]!r}.", path=path)
    for name, number in _numbers(content):
        least, most = (MIN_MS, MAX_MS) if name in _TIMES else (0, _MOST)
        if not (isinstance(number, int) and least <= number <= most):
            raise CorruptDataError(f"commit record has {name} = {number!r}.", path=path)
    try:
        known = {name: content[name] for name in CommitRecord.__slots__ if name in content}
        replaced = tuple(tuple(bounds) for bounds in content.get("replaced", ()))
        return CommitRecord(**{**known, "removed": tuple(content.get("removed", ())), "replaced": replaced})
    except TypeError as exc:  # a field without a default
        raise CorruptDataError(f"commit record lacks {exc}.", path=path) from exc


def _numbers(content: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield the numbers in a record, by the names of their fields; a field that is null has none."""
    for name in (*_CHECKED, *_CHECKED_IF_THERE):
        value = content.get(name)
        if isinstance(value, int):
            yield name, value
    for count in content["rows"].values():
        yield "rows", count


def merge_counts(parts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Return the sums of counts by name."""
    names = {name for part in parts for name in part}
    return {name: sum(part.get(name, 0) for part in parts) for name in sorted(names)}
