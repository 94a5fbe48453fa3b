"""Versions: the methods of `SlateStore` that list, keep, restore, trim, clone and copy versions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

from slatespark.display.progress import AskedProgress, showing_progress
from slatespark.options import Call, WriteOptions
from slatespark.options.flags import parsing_flags
from slatespark.options.values import (
    both_given,
    parse_lasting_duration,
    parse_location,
    parse_natural,
    parse_positive,
    parse_rounding,
    parse_text,
)
from slatespark.shown import Listing
from slatespark.slate_store.base import OpenTable
from slatespark.table.progress import Step, reporting_tasks
from slatespark.table.read.versions.time_travel import resolve_version
from slatespark.table.tasks import THREADS, TaskRunner
from slatespark.units import parse_time_ms

if TYPE_CHECKING:
    from slatespark.table.checkpoints.store import CheckpointFacts
    from slatespark.table.inspection.sequences import SequenceMatch, SequencePoint
    from slatespark.table.inspection.versions import VersionFacts


class Versions(OpenTable):
    """Versions: history, checkpoints, restores, trims, clones, copies, sequence numbers."""

    def history(self, limit: int | None = None) -> Listing[VersionFacts]:
        """Return the newest versions of the table, newest first, with the known facts of their commits.

        Parameters
        ----------
        limit : how many at most; by default all that exist

        Raises
        ------
        OptionError
            When `limit` is not a number from 0 on.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from slatespark import SlateStore
        >>> store = SlateStore.create("memory://told")
        >>> version = store.write(pa.table({"key": [b"a"], "value": [b"1"]}))
        >>> [(facts.version, facts.operation) for facts in store.history(limit=1)] == [(version, "write")]
        True
        """
        from slatespark.table.inspection.versions import list_versions

        count = None if limit is None else parse_natural(limit, "limit")
        return Listing(list_versions(self._stores, count))

    def sequences(self) -> Listing[SequencePoint]:
        """Return the points of the sequence tracker, oldest first: which sequence number was reached when."""
        from slatespark.table.inspection.sequences import list_sequences

        return Listing(list_sequences(self._stores))

    def seqToTimestamp(self, seq: int | str, *, round: str = "down") -> SequenceMatch | None:  # noqa: A002  # the name of the client
        """Return when a sequence number was reached, according to the sequence tracker.

        Parameters
        ----------
        seq : a sequence number
        round : take the nearest point at or below it (`down`), or at or above it (`up`)

        Returns
        -------
        The nearest point, and whether it differs from the request; None if there is none on that side.

        Raises
        ------
        OptionError
            When `seq` is not a number, or `round` is invalid.
        """
        from slatespark.table.inspection.sequences import find_seq_point

        number = parse_natural(seq, "seq")
        return find_seq_point(self._stores, number, round_up=parse_rounding(round))

    def timestampToSeq(self, timestamp: int | str | datetime, *, round: str = "down") -> SequenceMatch | None:  # noqa: A002  # the name of the client
        """Return the sequence number reached at an instant, according to the sequence tracker.

        Parameters
        ----------
        timestamp : ms since the epoch, ISO text or a datetime
        round : as for `seqToTimestamp`, and so is the result

        Raises
        ------
        OptionError
            When `timestamp` is not an instant, or `round` is invalid.
        """
        from slatespark.table.inspection.sequences import find_time_point

        time_ms = parse_time_ms(timestamp, name="timestamp")
        return find_time_point(self._stores, time_ms, round_up=parse_rounding(round))

    def checkpoints(self) -> Listing[CheckpointFacts]:
        """Return the checkpoints, including those that commits made for `versionRetention`."""
        from slatespark.table.checkpoints.store import list_checkpoints

        return Listing(list_checkpoints(self._stores))

    def createCheckpoint(
        self, name: str | None = None, lifetime: str | int | timedelta | None = None, version: int | None = None
    ) -> CheckpointFacts:
        """Keep a version from garbage collection, and return its checkpoint.

        Parameters
        ----------
        name : a unique name; reads take it, or the id, in the option `checkpoint`
        lifetime : a duration such as `7d`; forever by default
        version : number of the version; by default the newest state, WAL included

        Raises
        ------
        InvalidRequestError
            When the name is taken, or the version does not exist yet.
        SnapshotExpiredError
            When the version, or a file of it, was collected.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from slatespark import SlateStore
        >>> store = SlateStore.create("memory://kept-point")
        >>> version = store.write(pa.table({"key": [b"a"], "value": [b"1"]}))
        >>> checkpoint = store.createCheckpoint("before the change", lifetime="7d")
        >>> version = store.write(pa.table({"key": [b"a"], "value": [b"2"]}))
        >>> store.get(b"a", checkpoint="before the change")
        {'key': b'a', 'value': b'1'}
        """
        from slatespark.table.checkpoints.store import create_checkpoint

        return create_checkpoint(
            self._stores,
            self._clock,
            name=None if name is None else parse_text(name, "name"),
            lifetime_ms=parse_lasting_duration(lifetime, "lifetime"),
            manifest_id=None if version is None else parse_positive(version, "version"),
        )

    def refreshCheckpoint(self, idOrName: str, lifetime: str | int | timedelta | None = None) -> CheckpointFacts:
        """Let a checkpoint last for `lifetime` from now, and return it.

        Parameters
        ----------
        idOrName : the id or name of the checkpoint
        lifetime : a duration such as `7d`; forever by default

        Raises
        ------
        InvalidRequestError
            When no checkpoint has this id or name; it may have expired.
        """
        from slatespark.table.checkpoints.store import refresh_checkpoint
        from slatespark.table.commit.idempotence import record_outcomes

        lifetime_ms = parse_lasting_duration(lifetime, "lifetime")
        record_outcomes(self._stores)
        return refresh_checkpoint(self._stores, self._clock, parse_text(idOrName, "idOrName"), lifetime_ms)

    def deleteCheckpoint(self, idOrName: str) -> None:
        """Delete a checkpoint: files that it alone kept may now be collected.

        Parameters
        ----------
        idOrName : the id or name of the checkpoint

        Raises
        ------
        InvalidRequestError
            When no checkpoint has this id or name; it may have expired.
        """
        from slatespark.table.checkpoints.store import delete_checkpoint
        from slatespark.table.commit.idempotence import record_outcomes

        record_outcomes(self._stores)
        delete_checkpoint(self._stores, self._clock, parse_text(idOrName, "idOrName"))

    def restoreToVersion(self, version: int, *, progress: AskedProgress = "auto", **options: Any) -> int:
        """Make the state of an earlier version the newest one, in one commit, and return the new version.

        Later writes are hidden, not lost: the version id just below the new one shows them, for `versionRetention`, at
        least seven days, and restoring that version undoes the restore. Schema and properties stay as they are.

        Parameters
        ----------
        version : a manifest id, as in `history()`
        progress : the progress bar; see `SlateStore.compact`
        options : options of the commit, and how files are written: `ifClientActive`, `ifLastSeq`, `compression`, ...

        Raises
        ------
        HistoryTrimmedError
            When the version, or a file of it, was collected.
        CommitConflictError
            When another process commits at the same time.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from slatespark import SlateStore
        >>> store = SlateStore.create("memory://restored")
        >>> good = store.write(pa.table({"key": [b"a"], "value": [b"1"]}))
        >>> bad = store.write(pa.table({"key": [b"a"], "value": [b"oops"]}))
        >>> version = store.restoreToVersion(good)
        >>> store.get(b"a")
        {'key': b'a', 'value': b'1'}
        """
        parsed = self._restore_options("restoreToVersion", options)
        return self._restore(parse_positive(version, "version"), parsed, progress)

    def restoreToTimestamp(
        self, timestamp: int | str | datetime, *, progress: AskedProgress = "auto", **options: Any
    ) -> int:
        """Restore the latest version committed at or before an instant; see `restoreToVersion`.

        Parameters
        ----------
        timestamp : ms since the epoch, ISO text or a datetime
        progress : the progress bar; see `SlateStore.compact`
        options : options of the commit, and how files are written: `ifClientActive`, `ifLastSeq`, `compression`, ...

        Raises
        ------
        OptionError
            When the instant is in the future.
        HistoryTrimmedError
            When that version was collected, or the table did not exist yet.
        """
        parsed = self._restore_options("restoreToTimestamp", options)
        time_ms = parse_time_ms(timestamp, name="timestamp")
        return self._restore(resolve_version(self._stores, time_ms, self._clock), parsed, progress)

    def _restore_options(self, name: str, options: Mapping[str, Any]) -> WriteOptions:
        return self._options_of(
            name, Call.RESTORE, options, why="A restore writes no rows, but shows those of a version."
        )

    def _restore(self, version: int, options: WriteOptions, progress: AskedProgress) -> int:
        from slatespark.table.write.restore import restore_to_version

        with showing_progress(progress, Step.RESTORING):
            record = restore_to_version(self._stores, self._clock, version, options)
        return self._version_of(record)

    def trimHistory(
        self,
        after: int | str | datetime,
        *,
        runner: TaskRunner | None = None,
        progress: AskedProgress = "auto",
        **options: Any,
    ) -> int:
        """Remove all row versions of a history table created after an instant, in one commit; return the new version.

        The version id just below the new one shows the state before, for `versionRetention`, at least seven days.

        Parameters
        ----------
        after : ms since the epoch, ISO text or a datetime; later row versions are removed
        runner : reads and rewrites files, each view in a task; by default on threads of this process
        progress : the progress bar; see `SlateStore.compact`
        options : options of the commit, and how files are written: `ifClientActive`, `ifLastSeq`, `compression`, ...

        Raises
        ------
        InvalidRequestError
            When the table has no history.
        HistoryTrimmedError
            When the instant is below the history floor.
        CommitConflictError
            When another commit came first, or a SlateDB client is active.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from slatespark import SlateStore
        >>> store = SlateStore.create("memory://trimmed", "id BIGINT, name STRING", "id", history=True)
        >>> for day, name in (("2026-01-01", "a"), ("2026-02-01", "b")):
        ...     _ = store.write(pa.table({"id": [1], "name": [name]}), timestamp=day)
        >>> version = store.trimHistory("2026-01-15")
        >>> store.get(1)
        {'id': 1, 'name': 'a'}
        """
        from slatespark.table.write.trim import trim_history

        after_ms = parse_time_ms(after, name="after")
        why = "A trim writes no rows: those that stay keep their times."
        parsed = self._options_of("trimHistory", Call.TRIM, options, why=why, arguments=("after",))
        with showing_progress(progress, Step.REMOVING) as listener:
            tasks = reporting_tasks(runner or THREADS, listener, Step.REMOVING)
            record = trim_history(self._stores, self._clock, after_ms, parsed, runner=tasks)
        return self._version_of(record)

    def setHistoryFloor(self, ts: int | str | datetime) -> None:
        """Raise the history floor of a table, so that compaction may drop versions that only earlier reads need.

        From now on reads as of earlier times fail, and so do writes of rows with earlier timestamps. The version of
        each key that is valid at the floor stays.

        Parameters
        ----------
        ts : ms since the epoch, ISO text or a datetime; not below the present floor

        Raises
        ------
        InvalidRequestError
            When the table has no history, or the floor would fall.
        OptionError
            When the instant is in the future.
        UnavailableError
            When the change was made, but processes that have the table open learn it only with the next commit.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from slatespark import SlateStore
        >>> store = SlateStore.create("memory://floored", "id BIGINT, name STRING", "id", history=True)
        >>> for day, name in (("2026-01-01", "a"), ("2026-02-01", "b")):
        ...     _ = store.write(pa.table({"id": [1], "name": [name]}), timestamp=day)
        >>> store.setHistoryFloor("2026-01-15")
        >>> store.get(1, timestampAsOf="2026-01-20")
        {'id': 1, 'name': 'a'}
        >>> store.get(1, timestampAsOf="2026-01-10")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        slatespark.errors.HistoryTrimmedError: ...
        """
        from slatespark.table.write.alteration import raise_history_floor

        raise_history_floor(self._stores, self._clock, parse_time_ms(ts, name="ts"))

    @parsing_flags
    def clone(
        self,
        target: str | os.PathLike[str],
        version: int | None = None,
        checkpoint: str | None = None,
        *,
        history: bool = False,
        progress: AskedProgress = "auto",
    ) -> Self:
        """Create a shallow clone at `target`, and return it: a separate table that begins with the files of this one.

        Parameters
        ----------
        target : an empty location in the same store
        version, checkpoint : what to clone, one of them or neither for the newest state
        history : whether the clone is a history table, also of a plain one: its rows are valid from their `create_ts`
            on, and its history floor is the time of the clone, or that of the version cloned
        progress : the progress bar; see `SlateStore.compact`

        Raises
        ------
        TableExistsError, InvalidRequestError
            When the target is not empty or has no root in common with this table, or there is no such checkpoint.
        HistoryTrimmedError
            When the version was collected.
        OptionError
            When both `version` and `checkpoint` are given.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from slatespark import SlateStore
        >>> store = SlateStore.create("memory://farm/dolly")
        >>> version = store.write(pa.table({"key": [b"a"], "value": [b"1"]}))
        >>> clone = store.clone("memory://farm/clone")
        >>> version = clone.write(pa.table({"key": [b"a"], "value": [b"2"]}))
        >>> store.get(b"a")["value"], clone.get(b"a")["value"]
        (b'1', b'2')
        """
        from slatespark.table.write.clone import clone_table

        if version is not None and checkpoint is not None:
            raise both_given("version", "checkpoint")
        number = None if version is None else parse_positive(version, "version")
        place = parse_text(parse_location(target, "target"), "target")
        with showing_progress(progress, Step.CLONING):
            clone_table(self._stores, self._clock, place, version=number, checkpoint=checkpoint, history=history)
        return self._at(place, self._clock, dict(self._stores.storage))

    def copyTo(
        self,
        target: str | os.PathLike[str],
        *,
        storage: Mapping[str, Any] | None = None,
        versionAsOf: int | None = None,
        timestampAsOf: int | str | datetime | None = None,
        checkpoint: str | None = None,
        runner: TaskRunner | None = None,
        progress: AskedProgress = "auto",
    ) -> Self:
        """Copy the table, with all of its files, to an empty place in any store, and return the copy.

        The copy depends on nothing of this table. It has one version, with the definition, history floor and sequence
        tracker of the state that was copied; checkpoints, other versions and the records of idempotent writes stay
        behind. All checksums are verified on the way. A copy that failed can be repeated, and skips what is there.

        Parameters
        ----------
        target : an empty location
        storage : options of the target's storage backend; by default those of this table, if the store is of the same
            kind
        versionAsOf, timestampAsOf, checkpoint : what to copy, one of them or none for the newest state; an instant
            stands for the latest version committed at or before it
        runner : copies files; by default on threads of this process
        progress : the progress bar; see `SlateStore.compact`

        Raises
        ------
        TableExistsError, InvalidRequestError
            When the target is not empty, or there is no such version or checkpoint.
        HistoryTrimmedError
            When the version was collected.
        CorruptDataError
            When a file is damaged.
        OptionError
            When more than one of `versionAsOf`, `timestampAsOf` and `checkpoint` is given.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from slatespark import SlateStore
        >>> store = SlateStore.create("memory://original")
        >>> version = store.write(pa.table({"key": [b"a"], "value": [b"1"]}))
        >>> store.copyTo("memory://elsewhere/copy").get(b"a")
        {'key': b'a', 'value': b'1'}
        """
        # Imported here: few users of a table copy it.
        from slatespark.table.write.deep_copy import copy_table, storage_of_copy

        names = {"versionAsOf": versionAsOf, "timestampAsOf": timestampAsOf, "checkpoint": checkpoint}
        if len(given := [name for name, value in names.items() if value is not None]) > 1:
            raise both_given(given[0], given[1])
        place = parse_text(parse_location(target, "target"), "target")
        made = self._at(place, self._clock, storage_of_copy(self._stores, place, storage))
        version = None if versionAsOf is None else parse_positive(versionAsOf, "versionAsOf")
        if timestampAsOf is not None:
            version = resolve_version(self._stores, parse_time_ms(timestampAsOf, name="timestampAsOf"), self._clock)
        with showing_progress(progress, Step.COPYING) as listener:
            copy_table(
                self._stores,
                self._clock,
                made._stores,
                version=version,
                checkpoint=None if checkpoint is None else parse_text(checkpoint, "checkpoint"),
                runner=runner or THREADS,
                progress=listener,
            )
        return made
