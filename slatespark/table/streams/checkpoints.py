"""The checkpoints by which a stream keeps the versions that it needs to go on.

They expire, so that a stream that never comes back keeps nothing forever, and are renewed as long as it runs. Each run
of a stream has checkpoints of its own. It learns from those of others that another query has taken its name.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Final
from uuid import UUID

from slatespark.errors import InvalidRequestError
from slatespark.format.manifest import Checkpoint, Manifest
from slatespark.table.checkpoints.store import (
    LAST_S,
    OWN_NAMES,
    add_checkpoint,
    expire_time_s,
    present_s,
    refuse_unfinished,
)
from slatespark.table.clock import Clock, new_uuid, read_clock
from slatespark.table.log.manifests import fetch_latest_manifest, manifest_object
from slatespark.table.log.versioned_object import Version
from slatespark.table.stores import TableStores
from slatespark.units import ms_to_text, s_to_ms

STREAM_NAMES: Final = f"{OWN_NAMES}stream/"

_ID_BITS: Final = 32
_RUN_BITS: Final = 64  # the upper half of a checkpoint's id is that of the run
_RENEWED_AT: Final = 2  # they are renewed once less than this part of their time is left: a half
_REPORTED_AT: Final = 4  # a quarter: batches take so long that the renewal is late

_log = logging.getLogger(__name__)


class StreamCheckpoints:
    """The checkpoints of one run of a stream, and the versions that they keep.

    Parameters
    ----------
    clock : the machine's clock, by which garbage collectors judge checkpoints
    stream_id : the name of the stream; None for a random one
    lifetime_ms : how long a checkpoint lasts unless it is renewed
    """

    def __init__(self, stores: TableStores, clock: Clock, stream_id: str | None, lifetime_ms: int) -> None:
        self._stores, self._clock, self._lifetime_ms = stores, clock, lifetime_ms
        self._is_named = stream_id is not None
        self.stream_id = stream_id or f"{clock.random_bits(_ID_BITS):08x}"
        self._run = new_uuid(clock).int >> _RUN_BITS
        self._expires_s: dict[int, int] = {}  # by version
        self._earlier: frozenset[int] | None = None  # runs of the same stream that there were before

    @property
    def name(self) -> str:
        """The name of all checkpoints of the stream."""
        return f"{STREAM_NAMES}{self.stream_id}"

    def resume_as(self, stream_id: str) -> None:
        """Take the name of the runs before, unless the stream was given one; release checkpoints under another."""
        if self._is_named:
            return
        if stream_id != self.stream_id:
            if self._expires_s:
                self.release()
            self._earlier = None
        self.stream_id, self._is_named = stream_id, True

    def release(self) -> None:
        """Release all checkpoints of the stream, of earlier runs too, but not of later ones: raises as `check`."""

        def change(newest: Version[Manifest]) -> Manifest | None:
            self.check(newest.value)
            others = tuple(point for point in newest.value.checkpoints if point.name != self.name)
            return None if others == newest.value.checkpoints else replace(newest.value, checkpoints=others)

        manifest_object(self._stores, self._clock).update(self._clock, change)
        self._expires_s = {}

    @property
    def versions(self) -> Collection[int]:
        """The versions that are kept: a collector may have taken one whose time is over, as after a long sleep."""
        now_ms = read_clock(self._clock)
        return {version for version, expires_s in self._expires_s.items() if s_to_ms(expires_s) > now_ms}

    def keep(self, versions: Collection[int]) -> None:
        """Keep more versions, which exist; checkpoints of the run before count as long as they last.

        Raises
        ------
        SnapshotExpiredError
            When one of them, or a file of it, was collected.
        InvalidRequestError
            When one does not exist yet, or the store is read-only.
        """
        manifest = fetch_latest_manifest(self._stores).value
        self.check(manifest)
        for version in sorted({*versions}.difference(self.versions)):
            held_s = max(
                (each.expire_time_s for each in self._named(manifest) if each.manifest_id == version), default=0
            )
            if self._is_long(held_s, _RENEWED_AT):
                self._expires_s[version] = held_s
                continue
            self._report_end(version, manifest)
            add_checkpoint(
                self._stores,
                self._clock,
                checkpoint_id=self._new_id(),
                name=self.name,
                lifetime_ms=self._lifetime_ms,
                manifest_id=version,
            )
            self._expires_s[version] = expire_time_s(read_clock(self._clock), self._lifetime_ms)

    def advance(
        self, needed: Collection[int], seen: Version[Manifest], is_wanted: Callable[[Version[Manifest]], bool]
    ) -> Version[Manifest] | None:
        """Keep the newest version if it is wanted, and release all others but the needed ones: in one manifest.

        A version is newest when its checkpoint is made, so that no collector can have taken it.

        Parameters
        ----------
        seen : the newest version as read just before; later ones are looked for only where it no longer is

        Returns
        -------
        That version; None if it is not wanted.
        """
        self._report_lag()
        found: Version[Manifest] | None = None
        point_id = self._new_id()

        def change(newest: Version[Manifest]) -> Manifest | None:
            nonlocal found
            self.check(newest.value)
            found = newest if is_wanted(newest) else None
            if found is None:
                return None
            refuse_unfinished(self._stores, newest.value)
            now_ms = read_clock(self._clock)
            expires_s = expire_time_s(now_ms, self._lifetime_ms)
            point = Checkpoint(point_id, newest.number, expires_s, present_s(now_ms), self.name)
            return replace(newest.value, checkpoints=(*self._kept(newest.value, needed, expires_s), point))

        known = [seen]
        manifest_object(
            self._stores, self._clock, lambda: known.pop() if known else fetch_latest_manifest(self._stores)
        ).update(
            self._clock, change, is_done=lambda manifest: any(point.id == point_id for point in manifest.checkpoints)
        )
        if found is not None:
            self._record({*needed, found.number})
        return found

    def renew(self, needed: Collection[int]) -> None:
        """Renew the checkpoints where they are due; without a request where they are not."""
        if self._lasts_for(_RENEWED_AT):
            return
        self._report_lag()
        named = self._named(fetch_latest_manifest(self._stores).value)
        self._expires_s = {point.manifest_id: point.expire_time_s for point in named}
        self.keep(needed)  # what was released after its time

        def change(newest: Version[Manifest]) -> Manifest:
            self.check(newest.value)
            expires_s = expire_time_s(read_clock(self._clock), self._lifetime_ms)
            return replace(newest.value, checkpoints=self._kept(newest.value, needed, expires_s))

        manifest_object(self._stores, self._clock).update(self._clock, change)
        self._record(needed)

    def check(self, manifest: Manifest) -> None:
        """Raise `InvalidRequestError` if another query has taken the name of the stream meanwhile."""
        others = frozenset(map(_run_of, self._named(manifest))) - {self._run}
        if self._earlier is None:
            self._earlier = others
        if not others <= self._earlier:
            raise InvalidRequestError(
                f"{self._stores.url}: another query, or another source of this one, uses streamId {self.stream_id!r}.",
                why="It started after this one, which can no longer rely on its versions.",
                todo="Give each source a streamId of its own, or none.",
            )

    def _lasts_for(self, parts: int) -> bool:
        """Tell whether all checkpoints last for one of so many parts of their lifetime."""
        return self._is_long(min(self._expires_s.values(), default=LAST_S), parts)

    def _is_long(self, expires_s: int, parts: int) -> bool:
        return (s_to_ms(expires_s) - read_clock(self._clock)) * parts > self._lifetime_ms

    def _report_lag(self) -> None:
        if self._expires_s and not self._lasts_for(_REPORTED_AT):
            _log.warning(
                "%s: stream %s lags: its versions are kept until %s. Batches take too long for its streamRetention.",
                self._stores.url,
                self.stream_id,
                ms_to_text(s_to_ms(min(self._expires_s.values()))),
            )

    def _named(self, manifest: Manifest) -> list[Checkpoint]:
        return [point for point in manifest.checkpoints if point.name == self.name]

    def _kept(self, manifest: Manifest, needed: Collection[int], expires_s: int) -> tuple[Checkpoint, ...]:
        """Return the table's checkpoints without unneeded ones of the stream, and with its others renewed."""
        kept: list[Checkpoint] = []
        held: set[int] = set()
        for point in manifest.checkpoints:
            if point.name != self.name:
                kept.append(point)
            elif point.manifest_id in needed and point.manifest_id not in held:
                held.add(point.manifest_id)
                point_id = point.id if _run_of(point) == self._run else self._new_id()
                kept.append(replace(point, id=point_id, expire_time_s=expires_s))
        return tuple(kept)

    def _record(self, held: Collection[int]) -> None:
        expires_s = expire_time_s(read_clock(self._clock), self._lifetime_ms)
        self._expires_s = dict.fromkeys(held, expires_s)

    def _new_id(self) -> UUID:
        return UUID(int=self._run << _RUN_BITS | self._clock.random_bits(_RUN_BITS), version=4)

    def _report_end(self, version: int, manifest: Manifest) -> None:
        """Tell that a stream was away for so long that the version to go on from was soon lost."""
        ends_s = [point.expire_time_s for point in manifest.checkpoints if point.manifest_id == version]
        if not ends_s or 0 in ends_s:
            return
        if not self._is_long(max(ends_s), _RENEWED_AT):
            _log.warning(
                "%s: stream %s goes on from version %d, which was kept until %s only. A longer streamRetention keeps "
                "the versions of a stream for longer while it is stopped.",
                self._stores.url,
                self.stream_id,
                version,
                ms_to_text(s_to_ms(max(ends_s))),
            )


def _run_of(point: Checkpoint) -> int:
    return point.id.int >> _RUN_BITS
