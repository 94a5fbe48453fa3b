"""Which files are due for a compaction by age: the table property `periodicCompactionInterval`. Pure.

Expired rows leave a table when their file is rewritten, and a large run may not be merged for months. So old files that
may hold expired rows are rewritten, some at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from slatespark.format.properties import SstProperties
from slatespark.format.ulid import Ulid
from slatespark.kernels.columns import HAS_EXPIRE
from slatespark.kernels.lifetimes import reached
from slatespark.table.read.planning.plan import SstFile

MAX_FILES: Final = 16  # a round
MAX_BYTES: Final = 1 << 30  # stored bytes a round; one file at least
JITTER: Final = 0.1  # of the interval: files created together do not all become due together

_DRAWN_BITS: Final = 16


def find_due_files(
    files: Iterable[SstFile],
    known: Mapping[Ulid, SstProperties],
    interval_ms: int | None,
    *,
    present_ms: int,
    expired_ms: int | None,
) -> frozenset[Ulid]:
    """Return the due files to rewrite: of many the oldest ones, up to `MAX_FILES` and `MAX_BYTES`.

    Parameters
    ----------
    known : properties of files; a file without may hold anything
    interval_ms : maximum age of a file that may hold expired rows; None for no maximum
    present_ms : instant by the clock of the machine, as the times of files
    expired_ms : rows that expire at or before it can be dropped; None if none can
    """
    if interval_ms is None or expired_ms is None:
        return frozenset()
    found = {file.id: file for file in files if may_have_expired(known.get(file.id), expired_ms)}
    created_ms = {sst_id: _created_ms(sst_id, known.get(sst_id)) for sst_id in found}
    due = [sst_id for sst_id in found if due_ms(sst_id, created_ms[sst_id], interval_ms) <= present_ms]
    due.sort(key=lambda sst_id: (created_ms[sst_id], sst_id.value))
    chosen: list[Ulid] = []
    taken = 0
    for sst_id in due[:MAX_FILES]:
        taken += found[sst_id].info.sections_end
        if chosen and taken > MAX_BYTES:
            break
        chosen.append(sst_id)
    return frozenset(chosen)


def due_ms(sst_id: Ulid, created_ms: int, interval_ms: int) -> int:
    """Return when a file becomes due: after the interval and up to a tenth more, the same in every call."""
    drawn = sst_id.value % (1 << _DRAWN_BITS)
    return created_ms + interval_ms + int(interval_ms * JITTER) * drawn // (1 << _DRAWN_BITS)


def may_have_expired(properties: SstProperties | None, expired_ms: int) -> bool:
    """Tell whether a file may hold rows that expire at or before `expired_ms`."""
    if properties is None:
        return True
    is_unknown = properties.any_flags & HAS_EXPIRE != 0 and properties.min_expire_ts is None
    return is_unknown or reached(properties.any_flags, HAS_EXPIRE, properties.min_expire_ts, expired_ms)


def _created_ms(sst_id: Ulid, properties: SstProperties | None) -> int:
    """Return when the rows were written; a copied file has a later id."""
    return sst_id.timestamp_ms if properties is None else properties.created_ms
