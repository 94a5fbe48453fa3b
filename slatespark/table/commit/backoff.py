"""Backoff: a commit waits for the one that a sibling has begun, instead of claiming the table over it.

A claim over a claim undoes the work of the first job, and whoever needs more time between its read of the table and its
claim would lose to quicker jobs every time. So a claim is left alone until its commit has landed, its job has given up,
or its patience is over, as that of a job that was killed. Of those that wait, the one that has waited longest is the
likeliest to claim next. A process that commits without pause would still be first most of the time, since it knows when
its own commit lands; so after two of its own it lets siblings in, if it has met one lately. One that is slower from its
read to its claim than a whole commit is never met: it leaves records of claims that lost, which are looked for.

A SlateDB client does not take turns. See docs/explanation/how-a-commit-works.md.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from slatespark.errors import CorruptDataError, SlateError
from slatespark.format.manifest import Manifest
from slatespark.table.clock import Clock, TimedWait
from slatespark.table.commit.claim import MIN_PATIENCE_MS
from slatespark.table.heads import OwnCommits
from slatespark.table.log.manifests import fetch_newest_since, manifest_log, may_be_claim
from slatespark.table.log.versioned_object import Version
from slatespark.table.records.claims import ClaimRecord, find_claim, find_lost_claims
from slatespark.table.records.leases import has_lease
from slatespark.table.stores import TableStores

# Among writers without pause a loss tells only that they are many: of four, each wins one attempt in four.
MAX_COMMIT_ATTEMPTS: Final = 200
MAX_PATIENCE_MS: Final = 60_000  # whatever a claim says
MIN_POLL_MS: Final = 2
STEPS_AFTER_CLAIM: Final = 10  # how many times as long they may take as those before it
MAX_DOUBLINGS: Final = 4
MAX_POLL_MS: Final = 100
SPREAD_MS: Final = 8  # of those that wait for the first time
MAX_IN_A_ROW: Final = 2  # commits of a process while a sibling waits
SIBLING_STAYS: Final = 20  # a sibling is expected for as many times as long as a commit takes
SPARE_TIME: Final = 2  # times what the last sibling needed
COMMITS_PER_LISTING: Final = 8  # for siblings that lost: a listing
VERSIONS_PER_LISTING: Final = 400  # so that the listing has one page, also where others commit far more often
MAX_YIELD_MS: Final = 10_000


def back_off(clock: Clock, losses: int) -> None:
    """Wait for a moment after a lost race: the shorter, the more were lost, so that no job loses forever."""
    spread_ms = clock.random_bits(16) % max(1, SPREAD_MS >> losses)
    if spread_ms:
        clock.sleep_ms(spread_ms)


def claim_patience_ms(before_ms: int, losses: int) -> int:
    """Return how long siblings should leave a claim alone: longer on a slow store, and after lost races.

    Parameters
    ----------
    before_ms : how long the steps before the claim took
    """
    return (MIN_PATIENCE_MS + STEPS_AFTER_CLAIM * max(0, before_ms)) << min(losses, MAX_DOUBLINGS)


@dataclass(frozen=True, slots=True)
class CommitBackoff:
    """The waits of one commit for the commits of siblings.

    Attributes
    ----------
    write_id : id of the commit, whose own earlier claim it does not wait for
    """

    stores: TableStores
    clock: Clock
    write_id: str

    @property
    def _own(self) -> OwnCommits:
        return self.stores.heads.own_commits(self.stores.main.url)

    def yield_to_siblings(self, newest: Version[Manifest]) -> Version[Manifest]:
        """Return the newest version, after siblings had time for a claim if this process has had its share of turns.

        Parameters
        ----------
        newest : the newest version found so far
        """
        own = self._own
        yield_ms = self._needed_by_losers()
        if yield_ms == 0 and newest.number == own.number and self._expects_sibling():
            yield_ms = max(own.took_ms, SPARE_TIME * own.needed_ms)
        if yield_ms == 0:
            return newest
        own.in_a_row = 0
        return self._wait_for_claim(newest, min(yield_ms, MAX_YIELD_MS))

    def _expects_sibling(self) -> bool:
        """Tell whether a sibling was met lately, and has waited for its turn."""
        own = self._own
        stays_ms = SIBLING_STAYS * max(own.took_ms, own.needed_ms)
        return own.in_a_row >= MAX_IN_A_ROW and own.met_ms is not None and self.clock.now_ms() - own.met_ms <= stays_ms

    def _needed_by_losers(self) -> int:
        """Return how long to let siblings in that lost to this process, in ms: the longer, the more often they have."""
        own = self._own
        if len(own.claims) < COMMITS_PER_LISTING:
            return 0
        won, own.claims = dict(own.claims), {}  # a copy, since other threads may still add to it
        recent = {number: write_id for number, write_id in won.items() if number > max(won) - VERSIONS_PER_LISTING}
        lost = find_lost_claims(self.stores.main, recent)
        attempts = max((count for write_id, count in lost.items() if self._is_alive(write_id)), default=0)
        return max(1, own.took_ms) << min(attempts, MAX_YIELD_MS.bit_length()) if attempts else 0

    def _wait_for_claim(self, newest: Version[Manifest], yield_ms: int) -> Version[Manifest]:
        """Return the newest version, after siblings had so much time for a claim."""
        began_ms = self.clock.now_ms()
        later, own = self._await_later(newest, yield_ms), self._own
        # A slow sibling may have been the last one: others are not to be waited for as long every time.
        own.needed_ms = own.needed_ms // 2 if later is None else max(0, self.clock.now_ms() - began_ms)
        return later or newest

    def record_commit(self, number: int, *, on: int, began_ms: int) -> None:
        """Remember a commit of this process.

        Parameters
        ----------
        number, on : its version, and the one before its claim
        began_ms : when it had waited for siblings
        """
        own = self._own
        own.in_a_row = own.in_a_row + 1 if on == own.number else 1
        own.number, own.claims[on + 1] = number, self.write_id
        with suppress(SlateError):  # it has landed, and a clock that fails must not deny that
            own.took_ms = max(0, self.clock.now_ms() - began_ms)

    def wait(
        self,
        newest: Version[Manifest],
        losses: int,
        *,
        meanwhile: Callable[[Version[Manifest]], object] = lambda _: None,
    ) -> Version[Manifest]:
        """Return the newest version once no sibling is about to commit on top of it.

        Parameters
        ----------
        newest : the newest version found so far
        losses : how often others have claimed before this commit
        meanwhile : called with each claim before the wait for its commit, for what can be done already
        """
        while (claim := self._open_claim(newest)) is not None:
            self._own.met_ms = self.clock.now_ms()
            meanwhile(newest)
            later = self._await_later(newest, min(claim.patience_ms, MAX_PATIENCE_MS))
            if later is None:
                break
            losses += 1
            back_off(self.clock, losses)
            newest = fetch_newest_since(self.stores, later)
        return newest

    def _open_claim(self, newest: Version[Manifest]) -> ClaimRecord | None:
        """Return the claim that a version is, if its job is alive and another one."""
        if not may_be_claim(newest.value):
            return None
        data = bytes(manifest_log(self.stores).get(newest.number))
        claim = find_claim(self.stores.main, newest.number, data)
        if claim is None or claim.write_id == self.write_id or not self._is_alive(claim.write_id):
            return None
        return claim

    def _is_alive(self, write_id: str) -> bool:
        with suppress(CorruptDataError):  # a damaged lease is an error for whoever cleans up, not for this commit
            return has_lease(self.stores.main, write_id, self.clock.now_ms())
        return False

    def _await_later(self, newest: Version[Manifest], patience_ms: int) -> Version[Manifest] | None:
        """Return the version after a claim; None if none appears in time."""
        log, wait = manifest_log(self.stores), TimedWait(self.clock, patience_ms)
        while not wait.is_over:
            if log.has(newest.number + 1):
                return fetch_newest_since(self.stores, newest)
            wait.pause(min(MAX_POLL_MS, MIN_POLL_MS + wait.waited_ms // 16))
        return None
