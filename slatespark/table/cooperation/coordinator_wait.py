"""The wait for a turn among the jobs of a client: how long it lasts, and why none came."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from slatespark.errors import CommitConflictError
from slatespark.format.compactions import Compaction, Compactions, CompactionStatus
from slatespark.format.ulid import Ulid
from slatespark.table.clock import Clock, TimedWait
from slatespark.table.cooperation.outcome import poll_ms
from slatespark.table.stores import TableStores
from slatespark.texts import name_some

LOCAL_POLL_MS: Final = 10  # while a job is in the way: a client whose store is local may poll as often

_BY_COORDINATOR: Final = (CompactionStatus.SCHEDULED, CompactionStatus.COMPLETED, CompactionStatus.FAILED)
_WITH_WORKER: Final = (CompactionStatus.SCHEDULED, CompactionStatus.RUNNING)  # what they wait for is a worker


@dataclass(slots=True)
class CoordinatorWait:
    """One wait for the coordinator, over all attempts to get a job scheduled and claimed.

    Attributes
    ----------
    timeout_ms : longest duration of the wait
    is_answered : whether a coordinator has changed the list meanwhile
    refused : number of slatespark's jobs that could not be claimed
    """

    stores: TableStores
    clock: Clock
    timeout_ms: int
    is_answered: bool = False
    refused: int = 0
    _wait: TimedWait = field(init=False)
    _seen: dict[Ulid, CompactionStatus] | None = None

    def __post_init__(self) -> None:
        self._wait = TimedWait(self.clock, self.timeout_ms)

    def observe(self, listed: Compactions) -> None:
        """Look for a sign of a coordinator: a job in a state that only it gives, and that the job did not have."""
        found = {job.id: job.status for job in listed.jobs}
        if self._seen is not None:
            news = found.items() - self._seen.items()
            self.is_answered = self.is_answered or any(status in _BY_COORDINATOR for _, status in news)
        self._seen = found

    def pause(self, blockers: Sequence[Compaction] = (), *, in_turn: Sequence[Compaction] = ()) -> None:
        """Wait a little; raises `CommitConflictError` after the time-out.

        Parameters
        ----------
        blockers : jobs in the way
        in_turn : jobs for which a client that runs few at once may let ours wait
        """
        if self._wait.is_over:
            raise self._given_up(blockers, in_turn)
        self._wait.pause(poll_ms(self.stores) if self.stores.main.is_remote else LOCAL_POLL_MS)

    def _given_up(self, blockers: Sequence[Compaction], in_turn: Sequence[Compaction]) -> CommitConflictError:
        if not self.is_answered and not any(job.status in _WITH_WORKER for job in (*blockers, *in_turn)):
            return no_coordinator(self.stores, self.timeout_ms)
        tried = f" {self.refused} jobs of this process came too late." if self.refused else ""
        if in_turn:
            return CommitConflictError(
                f"{self.stores.url}: the client still runs {_named(in_turn)} after {self.timeout_ms} ms.",
                why="A client of SlateDB 0.18 runs no more than max_concurrent_compactions jobs at once, in all of its "
                f"segments.{tried}",
                todo="Try again, give a longer clientTimeout, or raise max_concurrent_compactions of the client; check "
                "that the client runs, and a worker of it.",
            )
        if blockers:
            return CommitConflictError(
                f"{self.stores.url}: still in the way after {self.timeout_ms} ms: {_named(blockers)}.",
                why=f"These are compactions of layers that this job needs, and a client takes one at a time.{tried}",
                todo="Try again, or give a longer clientTimeout; check that the client runs, and a worker of it.",
            )
        return CommitConflictError(
            f"{self.stores.url}: the client gave no job of this process a turn within {self.timeout_ms} ms.",
            why=f"Its own compactions came first.{tried}",
            todo="Try again, or give a longer clientTimeout.",
        )


def _named(jobs: Iterable[Compaction]) -> str:
    return name_some((f"compaction {job.id} ({job.status.name.lower()})" for job in jobs), ", ")


def no_coordinator(stores: TableStores, waited_ms: int) -> CommitConflictError:
    """Return the error for a database in which nobody schedules jobs."""
    return CommitConflictError(
        f"{stores.url}: no coordinator of a client answered within {waited_ms} ms.",
        why="No client has the database open, or it runs without a compactor.",
        todo="Set ifClientActive=fail, or fence if a client without a compactor is to be fenced.",
    )
