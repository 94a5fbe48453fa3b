"""Versions: history, checkpoints, restores, trims, clones, sequence numbers."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

from slatespark.errors import OptionError
from slatespark.options import WriteOptions
from slatespark.options.values import (
    parse_count,
    parse_lasting_duration,
    parse_rounding,
    parse_text,
)
from slatespark.table.checkpoints.store import (
    CheckpointFacts,
    create_checkpoint,
    delete_checkpoint,
    list_checkpoints,
    refresh_checkpoint,
)
from slatespark.table.commit.idempotence import record_outcomes
from slatespark.table.inspection.sequences import (
    SequenceMatch,
    SequencePoint,
    find_seq_point,
    find_time_point,
    list_sequences,
)
from slatespark.table.inspection.versions import VersionFacts, list_versions
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read.time_travel import resolve_version
from slatespark.table.slate_store.base import version_of
from slatespark.table.write.alteration import (
    raise_history_floor,
)
from slatespark.table.write.clone import clone_table
from slatespark.table.write.restore import restore_to_version
from slatespark.table.write.trim import trim_history
from slatespark.units import parse_time_ms

if TYPE_CHECKING:
    pass
from slatespark.table.slate_store.base import OpenTable

_VERSION = parse_count(1, 2**63 - 1)


class Versions(OpenTable):
    """Versions: history, checkpoints, restores, trims, clones, sequence numbers."""

    def history(self, limit: int | None = None) -> tuple[VersionFacts, ...]:
        """Return the newest `limit` versions of the table, newest first, with what is known of their commits."""
        return list_versions(self._stores, None if limit is None else parse_count(0, 2**63 - 1)(limit, "limit"))

    def sequences(self) -> tuple[SequencePoint, ...]:
        """Return the points of the sequence tracker, oldest first: which sequence number was reached when."""
        return list_sequences(self._stores)

    def seqToTimestamp(self, seq: int | str, *, round: str = "down") -> SequenceMatch | None:  # noqa: A002  # the client says so
        """Return when a sequence number was reached, as far as the sequence tracker knows.

        Parameters
        ----------
        seq : a sequence number
        round : take the nearest point at or below it (`down`), or at or above it (`up`)

        Returns
        -------
        The point found, and whether it is another one than was asked for; None if there is none on that side.

        Raises
        ------
        OptionError
            When `seq` is no number, or `round` neither.
        """
        number = parse_count(0, 2**63 - 1)(seq, "seq")
        return find_seq_point(self._stores, number, round_up=parse_rounding(round))

    def timestampToSeq(self, timestamp: int | str | datetime, *, round: str = "down") -> SequenceMatch | None:  # noqa: A002  # the client says so
        """Return the sequence number reached at an instant, as far as the sequence tracker knows.

        Parameters
        ----------
        timestamp : ms since the epoch, ISO text or a datetime
        round, and what is returned : as for `seqToTimestamp`

        Raises
        ------
        OptionError
            When `timestamp` is no instant, or `round` neither.
        """
        time_ms = parse_time_ms(timestamp, name="timestamp")
        return find_time_point(self._stores, time_ms, round_up=parse_rounding(round))

    def checkpoints(self) -> tuple[CheckpointFacts, ...]:
        """Return the checkpoints, those too that commits left for `versionRetention`."""
        return list_checkpoints(self._stores)

    def createCheckpoint(
        self, name: str | None = None, lifetime: str | int | timedelta | None = None, version: int | None = None
    ) -> CheckpointFacts:
        """Keep a version from being collected, and return its checkpoint.

        Parameters
        ----------
        name : one that no other checkpoint has; reads take it, or the id, in the option `checkpoint`
        lifetime : a duration like `7d`; for ever by default
        version : the newest state by default, with all that the WAL holds

        Raises
        ------
        InvalidRequestError
            When the name is taken, or the version does not exist yet.
        SnapshotExpiredError
            When the version, or a file of it, was collected.
        """
        return create_checkpoint(
            self._stores,
            self._clock,
            name=None if name is None else parse_text(name, "name"),
            lifetime_ms=parse_lasting_duration(lifetime, "lifetime"),
            manifest_id=None if version is None else _VERSION(version, "version"),
        )

    def refreshCheckpoint(self, idOrName: str, lifetime: str | int | timedelta | None = None) -> CheckpointFacts:
        """Let a checkpoint last for `lifetime` from now, for ever by default.

        Raises
        ------
        InvalidRequestError
            When no checkpoint has this id or name; it may have expired.
        """
        lifetime_ms = parse_lasting_duration(lifetime, "lifetime")
        record_outcomes(self._stores)
        return refresh_checkpoint(self._stores, self._clock, parse_text(idOrName, "idOrName"), lifetime_ms)

    def deleteCheckpoint(self, idOrName: str) -> None:
        """Release a checkpoint: what it alone kept may be collected. Raises as `refreshCheckpoint`."""
        record_outcomes(self._stores)
        delete_checkpoint(self._stores, self._clock, parse_text(idOrName, "idOrName"))

    def restoreToVersion(self, version: int, **options: Any) -> int:
        """Make the state of an earlier version the newest one, in one commit, and return the new version.

        Rows written since are hidden, not lost: the version one below the new one shows them, for `versionRetention`,
        at least seven days, and restoring that one undoes the restore. Schema and properties stay as they are.

        Parameters
        ----------
        version : a manifest id, as in `history()`
        options : write options

        Raises
        ------
        HistoryTrimmedError
            When the version, or a file of it, was collected.
        CommitConflictError
            When anybody else commits meanwhile.
        """
        parsed = WriteOptions.parse({**self._common, **options})
        return restore_to_version(self._stores, self._clock, _VERSION(version, "version"), parsed).manifest_id

    def restoreToTimestamp(self, timestamp: int | str | datetime, **options: Any) -> int:
        """Make the newest version committed at or before an instant the newest one; see `restoreToVersion`.

        Raises
        ------
        OptionError
            When the instant lies in the future.
        HistoryTrimmedError
            When that version was collected, or there was none yet.
        """
        time_ms = parse_time_ms(timestamp, name="timestamp")
        return self.restoreToVersion(resolve_version(self._stores, time_ms, self._clock), **options)

    def trimHistory(self, after: int | str | datetime, **options: Any) -> int:
        """Remove everything that a history table learnt after an instant, in one commit; return the version without it.

        The version one below that one shows what was there before, for `versionRetention`, at least seven days.

        Parameters
        ----------
        after : ms since the epoch, ISO text or a datetime; row versions created later go
        options : write options

        Raises
        ------
        InvalidRequestError
            When the table has no history.
        HistoryTrimmedError
            When the instant lies below the history floor.
        CommitConflictError
            When anything was committed meanwhile, or a SlateDB client is at work.
        """
        after_ms = parse_time_ms(after, name="trimHistory")
        parsed = WriteOptions.parse({**self._common, **options})
        latest_id, _ = fetch_latest_manifest(self._stores)
        return version_of(trim_history(self._stores, self._clock, after_ms, parsed), latest_id)

    def setHistoryFloor(self, ts: int | str | datetime) -> None:
        """Give up the past of a history table below an instant, so that compaction may drop what only that needs.

        Reads as of an earlier time fail from now on, and so do writes of rows with earlier times of their own. Of each
        key the newest version of then stays.

        Parameters
        ----------
        ts : ms since the epoch, ISO text or a datetime; not below the floor that is set

        Raises
        ------
        InvalidRequestError
            When the table has no history, or the floor would fall.
        OptionError
            When the instant lies in the future.
        """
        raise_history_floor(self._stores, self._clock, parse_time_ms(ts, name="setHistoryFloor"))

    def clone(self, target: str, version: int | None = None, checkpoint: str | None = None) -> Self:
        """Make a shallow clone at `target`, and return it: a table of its own that begins with the files of this one.

        Parameters
        ----------
        target : an empty place in the same store
        version, checkpoint : what to clone, one of them or neither for the newest state

        Raises
        ------
        TableExistsError, InvalidRequestError
            When the target is not empty or has no root in common with this table, or there is no such checkpoint.
        HistoryTrimmedError
            When the version was collected.
        """
        if version is not None and checkpoint is not None:
            raise OptionError("version and checkpoint are both given.", todo="Give one of them.")
        number = None if version is None else _VERSION(version, "version")
        clone_table(self._stores, self._clock, parse_text(target, "target"), version=number, checkpoint=checkpoint)
        return self._at(target, self._clock, dict(self._stores.storage))
