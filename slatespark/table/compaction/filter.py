"""CompactionFilter: decides about the versions that a compaction would keep; and the built-in filters.

A filter sees Arrow batches and no files, so it can be tested with a hand-made table.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slatespark.errors import OptionError
from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE
from slatespark.kernels.lifetimes import below_group, key_sizes, reached, retired_groups
from slatespark.table.read.merge.retention import retired_until_ms
from slatespark.units import parse_duration_ms, parse_time_ms

KEEP: Final = "keep"
DROP: Final = "drop"
TOMBSTONE: Final = "tombstone"
REPLACE: Final = "replace"
ACTIONS: Final = (KEEP, DROP, TOMBSTONE, REPLACE)


@dataclass(frozen=True, slots=True, eq=False)
class FilterDecisions:
    """The decisions about the versions of a batch.

    Attributes
    ----------
    actions : for each version `keep`; `drop`, as if it had never been written, so that an older version becomes
        visible; `tombstone`, the row is deleted; or `replace`
    values : new values of the replaced versions, for some or all value columns; other columns stay. One row per version
        of the batch; the rows of versions that are not replaced are ignored
    expiries : new expiry instants of the replaced versions, TIMESTAMP, null for never; without it they stay

    Examples
    --------
    >>> import pyarrow as pa
    >>> from slatespark import FilterDecisions
    >>> decided = FilterDecisions(pa.array(["keep", "replace"]), pa.record_batch({"mail": pa.array([None, "hidden"])}))
    """

    actions: pa.Array | pa.ChunkedArray
    values: pa.RecordBatch | pa.Table | None = None
    expiries: pa.Array | pa.ChunkedArray | None = None


@runtime_checkable
class CompactionFilter(Protocol):
    """Decides about the versions that a compaction would keep. Any object with this method is one.

    Its decisions must depend on the batch alone: key ranges are compacted in parallel, on any machine, and again when a
    task fails.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import pyarrow.compute as pc
    >>> from slatespark import SlateStore
    >>> class DropTests:
    ...     def decide(self, versions: pa.RecordBatch) -> pa.Array:
    ...         return pc.if_else(pc.starts_with(versions["name"], "test"), "tombstone", "keep")
    >>> store = SlateStore.create("memory://filtered", "id BIGINT NOT NULL, name STRING NOT NULL", "id")
    >>> version = store.write(pa.table({"id": [1, 2], "name": ["test1", "ann"]}))
    >>> report = store.compact(full=True, filters=[DropTests()])
    >>> store.scan().read_all()["name"].to_pylist()
    ['ann']
    """

    def decide(self, versions: pa.RecordBatch) -> FilterDecisions | pa.Array | pa.ChunkedArray:
        """Return the decision about each version.

        Parameters
        ----------
        versions : whole keys, ascending, the newest version of a key first; columns as in a read with
            `readVersions=all`: those of the table, `_key`, `_seq`, `_op`, `_create_ts` and `_expire_ts`

        Returns
        -------
        The decisions, or only the actions.
        """


# --- built-in filters -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ExpireFilter:
    """Removes expired versions: puts become tombstones, operands are dropped. Every compaction has this rule.

    Parameters
    ----------
    now : the instant at which expiry is evaluated; by default that of the compaction

    Examples
    --------
    >>> import pyarrow as pa
    >>> from slatespark import ExpireFilter
    >>> at = pa.array([1_000, None], pa.timestamp("ms", tz="UTC"))
    >>> versions = pa.record_batch({"_key": [b"a", b"b"], "_op": ["put", "put"], "_expire_ts": at})
    >>> ExpireFilter(now=2_000).decide(versions).to_pylist()
    ['tombstone', 'keep']
    """

    now: int | str | datetime | None = None

    def __post_init__(self) -> None:
        """Check the instant."""
        _ = self.now_ms

    @property
    def now_ms(self) -> int | None:
        """The instant in ms; None for that of the compaction."""
        return None if self.now is None else parse_time_ms(self.now, name="now")

    def decide(self, versions: pa.RecordBatch) -> pa.Array:
        """Return `tombstone` for expired puts, `drop` for expired operands.

        Parameters
        ----------
        versions : as for `CompactionFilter.decide`

        Raises
        ------
        OptionError
            When there is no instant, outside of a compaction.
        """
        now_ms = _given(self.now_ms, "ExpireFilter")
        expired = reached(*_times(versions, "_expire_ts", HAS_EXPIRE), now_ms)
        return _actions(np.where(expired, np.where(_is_op(versions, "merge"), DROP, TOMBSTONE), KEEP))


@dataclass(frozen=True, slots=True)
class RetentionFilter:
    """Removes rows past retention. Every compaction of a table with `retention` has this rule.

    Parameters
    ----------
    retention : how long a row is kept after its last upsert: `30d`, ms, or a timedelta
    now : the instant at which retention is evaluated; by default that of the compaction

    Examples
    --------
    >>> import pyarrow as pa
    >>> from slatespark import RetentionFilter
    >>> at = pa.array([5_000, 1_000], pa.timestamp("ms", tz="UTC"))
    >>> versions = pa.record_batch({"_key": [b"a", b"b"], "_op": ["put", "put"], "_create_ts": at})
    >>> RetentionFilter("2s", now=6_000).decide(versions).to_pylist()
    ['keep', 'tombstone']
    """

    retention: str | int | timedelta
    now: int | str | datetime | None = None

    def __post_init__(self) -> None:
        """Check the duration and the instant."""
        _ = self.retention_ms, self.now_ms

    @property
    def retention_ms(self) -> int:
        """The duration in ms."""
        return parse_duration_ms(self.retention, name="retention")

    @property
    def now_ms(self) -> int | None:
        """The instant in ms; None for that of the compaction."""
        return None if self.now is None else parse_time_ms(self.now, name="now")

    def decide(self, versions: pa.RecordBatch) -> pa.Array:
        """Return `tombstone` for the newest version of a row past retention, `drop` for its other versions.

        Parameters
        ----------
        versions : as for `CompactionFilter.decide`

        Raises
        ------
        OptionError
            When there is no instant, outside of a compaction.
        """
        retired_ms = retired_until_ms(self.retention_ms, _given(self.now_ms, "RetentionFilter"))
        first = newest_of_key(versions)
        if retired_ms is None or not len(first):
            return _actions(np.full(len(first), KEEP))
        starts, sizes = np.flatnonzero(first), key_sizes(first)
        (flags, _, created_ms), is_delete = _times(versions, "_create_ts", HAS_CREATE), _is_op(versions, "delete")
        in_group = ~below_group(first, _is_op(versions, "merge")) & ~is_delete
        created = in_group & (flags != 0)
        due = created & reached(flags, HAS_CREATE, created_ms, retired_ms)
        gone = np.repeat(retired_groups(created, due, starts), sizes) & ~is_delete
        return _actions(np.where(gone, np.where(first, TOMBSTONE, DROP), KEEP))


@dataclass(frozen=True, slots=True)
class HistoryFloorFilter:
    """Removes the past of a history table below an instant: of each key only the newest version at that time stays.

    A compaction with this filter first raises the table's floor, as `setHistoryFloor` does.

    Parameters
    ----------
    floor : the earliest instant that reads can ask for afterwards

    Examples
    --------
    >>> import pyarrow as pa
    >>> from slatespark import HistoryFloorFilter
    >>> at = pa.array([9_000, 5_000, 1_000], pa.timestamp("ms", tz="UTC"))
    >>> versions = pa.record_batch({"_key": [b"a"] * 3, "_op": ["put"] * 3, "_create_ts": at})
    >>> HistoryFloorFilter(6_000).decide(versions).to_pylist()
    ['keep', 'keep', 'drop']
    """

    floor: int | str | datetime

    def __post_init__(self) -> None:
        """Check the instant."""
        _ = self.floor_ms

    @property
    def floor_ms(self) -> int:
        """The instant in ms."""
        return parse_time_ms(self.floor, name="floor")

    def decide(self, versions: pa.RecordBatch) -> pa.Array:
        """Return `drop` for versions that no read at or after the floor can see.

        Parameters
        ----------
        versions : as for `CompactionFilter.decide`
        """
        flags, _, created_ms = _times(versions, "_create_ts", HAS_CREATE)
        later = (flags != 0) & ~reached(flags, HAS_CREATE, created_ms, self.floor_ms)
        hidden = below_group(newest_of_key(versions), later | _is_op(versions, "merge"))
        return _actions(np.where(hidden & ~later, DROP, KEEP))


BUILT_IN: Final = (ExpireFilter, RetentionFilter, HistoryFloorFilter)

# --- batches of versions --------------------------------------------------------------------------------------------


def newest_of_key(versions: pa.RecordBatch) -> NDArray[np.bool_]:
    """Return which versions are the newest of their keys.

    Parameters
    ----------
    versions : as for `CompactionFilter.decide`
    """
    keys = versions.column("_key")
    first: NDArray[np.bool_] = np.ones(len(keys), np.bool_)
    if len(keys) > 1:
        first[1:] = pc.not_equal(keys[1:], keys[:-1]).to_numpy(zero_copy_only=False)
    return first


def _is_op(versions: pa.RecordBatch, op: str) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = pc.equal(versions.column("_op"), op).to_numpy(zero_copy_only=False)
    return found


def _times(versions: pa.RecordBatch, name: str, flag: int) -> tuple[NDArray[np.uint8], int, NDArray[np.int64]]:
    """Return a timestamp column as the first parameters of `reached`: flags (without `flag` at nulls), and ms."""
    stored_ms = versions.column(name).cast(pa.timestamp("ms", tz="UTC"), safe=False).cast(pa.int64())
    times_ms: NDArray[np.int64] = pc.fill_null(stored_ms, 0).to_numpy(zero_copy_only=False)
    there: NDArray[np.bool_] = stored_ms.is_valid().to_numpy(zero_copy_only=False)
    return there * np.uint8(flag), flag, times_ms


def _given(now_ms: int | None, name: str) -> int:
    if now_ms is None:
        raise OptionError(
            f"{name} has no instant.", why="Outside of a compaction there is no default.", todo="Give it `now`."
        )
    return now_ms


def _actions(names: NDArray[np.str_]) -> pa.Array:
    return pa.array(names, pa.string())
