"""Objects 1, 2, 3, ... of one folder, each created if absent: the protocol of manifests, compactions and definitions.

It knows numbers, not contents. See docs/reference/format/versioned-objects.md.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Literal

from slatespark.errors import CorruptDataError, SlateError, SnapshotExpiredError, UnavailableError
from slatespark.format.paths import boundary_path, decode_boundary, encode_boundary, numbered
from slatespark.storage import run_ahead
from slatespark.storage.object_store import Buffer, ObjectMeta, ObjectStore
from slatespark.table.clock import Clock
from slatespark.table.heads import Head, Heads
from slatespark.table.log.versioned_object import RaceLostError, retry_lost_races

_NO_BOUNDARY: Final = b"?"  # never the content of a boundary object
_FOLLOWED: Final = 8  # later versions asked for by name; a listing finds more of them at once
_LIST_ATTEMPTS: Final = 4  # the newest object may be collected between listing and reading, once a later one exists


class CollectedNumberError(FileExistsError):
    """A version was created, but a collector has passed its number: it was used before, or later ones exist."""


def by_number(listed: Iterable[ObjectMeta], extension: str) -> dict[int, ObjectMeta]:
    """Return objects by the number in their name; those with other names are left out."""
    return {number: meta for meta in listed if (number := numbered(meta.path, extension)) is not None}


@dataclass(frozen=True, slots=True)
class NumberedLog:
    """The versions of one object, such as the manifest.

    Attributes
    ----------
    folder : path of the folder, with a trailing `/`
    extension : the extension of its members, without the dot
    path : number -> path of that version
    boundary : name of its boundary object: ids at or below its content are dead; None if versions are not collected
    heads : the newest versions that were seen before; by default none
    """

    store: ObjectStore
    folder: str
    extension: str
    path: Callable[[int], str]
    boundary: Literal["manifest", "compactions"] | None
    heads: Heads = field(default_factory=Heads, repr=False, compare=False)

    def numbers(self) -> list[int]:
        """Return the ids that exist and are alive, ascending."""
        return list(self.split()[1])

    def split(self) -> tuple[dict[int, ObjectMeta], dict[int, ObjectMeta]]:
        """Return what is listed, by id, ascending: objects that the boundary has passed, and those that are alive.

        The former are pinned versions that a collector left, or objects of writers that lost a race long ago.
        """
        for _ in range(_LIST_ATTEMPTS):
            listed = by_number(self.store.list(self.folder), self.extension)
            found = sorted(listed)
            position = bisect_right(found, self.dead_up_to()) if found else 0
            if position < len(found) or not found:
                break  # else the listing is older than the boundary: a collector never passes the newest one
        passed, alive = ({number: listed[number] for number in part} for part in (found[:position], found[position:]))
        return passed, alive

    def latest(self) -> tuple[int, Buffer] | None:
        """Return id and content of the newest version; None if there is none.

        Versions below one that was seen before are not listed, and its content is not read again.
        """
        for _ in range(_LIST_ATTEMPTS):
            known, newest = self.heads.get(self.store.url, self.folder), self.heads.newest(self.store.url, self.folder)
            listed = self._list_newest(known)
            if not listed:
                self.heads.forget(self.store.url, self.folder, newest)
                return None
            number = max(listed)
            meta = listed[number]
            # Else a table may have been created again in its place.
            follows = known is not None and known.meta.is_unchanged(listed.get(known.number))
            if known is not None and follows and known.number == number:
                return number, known.data
            data = self.heads.created(self.store.url, self.folder, number) if follows else None
            try:  # bytes remember their hash, by which a decoded version is found again
                data = bytes(self.store.get(meta.path)) if data is None else data
            except FileNotFoundError:
                continue
            self.heads.put(self.store.url, self.folder, Head(number, meta, data), follows=follows)
            return number, data
        raise UnavailableError(f"{self.store.url}/{self.folder}: the newest version keeps disappearing.", todo="Retry.")

    def _list_newest(self, known: Head | None) -> dict[int, ObjectMeta]:
        """Return the newest version, and any of those before it; empty if there is none."""
        if known is not None:
            listed = by_number(self.store.list(self.folder, self.path(known.number - 1)), self.extension)
            # The last page of a remote listing shows one instant; a local folder changes while it is listed.
            if listed and (self.store.is_remote or max(listed) > self.dead_up_to()):
                return listed
        for _ in range(_LIST_ATTEMPTS):
            listed = by_number(self.store.list(self.folder), self.extension)
            if not listed or self.store.is_remote or max(listed) > self.dead_up_to():
                return listed
            # else the listing is older than the boundary, as in `split_numbers`
        return {}

    def latest_since(self, number: int, *, confirm: bool = False) -> tuple[int, Buffer] | None:
        """Return id and content of the newest version if it is later than `number`, else None.

        A short chain of later versions is followed by name: without any it costs a request, and no listing.

        Requires: version `number` has existed.

        Parameters
        ----------
        confirm : raise `CollectedNumberError` if a collector has moved the boundary past `number`, as `create` does
        """
        found: tuple[int, Buffer] | None = None
        dead_up_to = run_ahead(self.dead_up_to, is_remote=self.store.is_remote)
        for later in range(number + 1, number + 1 + _FOLLOWED):
            try:
                found = later, self.store.get(self.path(later))
            except FileNotFoundError:
                break
        reached = number if found is None else found[0]
        is_long = reached == number + _FOLLOWED
        dead = dead_up_to() if confirm or not is_long else 0
        if confirm and number <= dead:
            raise CollectedNumberError(self.path(number))
        # The boundary never reaches the newest version: if it reached this one, the next ones were collected.
        return self.latest() if is_long or dead >= reached else found

    def get(self, number: int) -> Buffer:
        """Return the content of one version; raises `SnapshotExpiredError` when it was collected, or never existed."""
        try:
            return self.store.get(self.path(number))
        except FileNotFoundError as exc:
            raise SnapshotExpiredError(
                f"{self.store.url}/{self.path(number)} does not exist.",
                why=f"Version {number} was collected, or never existed.",
                todo="Choose a version that `slatespark describe` lists, or load again.",
            ) from exc

    def has(self, number: int) -> bool:
        """Tell whether a version exists."""
        try:
            self.store.head(self.path(number))
        except FileNotFoundError:
            return False
        return True

    def create(self, number: int, data: Buffer, *, confirm: bool = True) -> None:
        """Create version `number`; raises `FileExistsError` when the race for it is lost.

        It is a `CollectedNumberError` if a collector has moved the boundary past the id. Mostly the id was used and
        collected before, which counts as a lost race; but the version may also have been the newest one for a while.

        Parameters
        ----------
        confirm : read the boundary; False for a caller who looks for later versions next, by `latest_since`, which can
            confirm it

        Raises
        ------
        UnavailableError
            When it is unknown whether the version was created and counts, as the store refuses the check as well.
        """
        try:
            self.store.create(self.path(number), data)
        except UnavailableError:
            raise
        except SlateError as exc:  # possibly of the confirming read, or of a repeated request
            if self._is_missing(number):
                raise
            raise self._unknown(number) from exc
        try:
            is_dead = confirm and number <= self.dead_up_to()
        except SlateError as exc:
            raise self._unknown(number) from exc
        if is_dead:
            raise CollectedNumberError(self.path(number))
        self.heads.put_created(self.store.url, self.folder, number, data)

    def _is_missing(self, number: int) -> bool:
        try:
            return not self.has(number)
        except SlateError:
            return False

    def _unknown(self, number: int) -> UnavailableError:
        return UnavailableError(
            f"{self.store.url}/{self.path(number)}: it is unknown whether this version was created.",
            why="The store refused the check.",
            todo="Check whether the change is there, and repeat it if it is not.",
        )

    def raise_boundary(self, number: int, clock: Clock) -> None:
        """Declare every id up to `number` dead, before any of them is deleted; a higher boundary stays.

        Raises
        ------
        InvalidRequestError
            When the store does not support conditional updates.
        CommitConflictError
            When other processes keep moving the boundary.
        """
        assert self.boundary is not None  # called only for collected logs
        path, data = boundary_path(self.boundary), encode_boundary(number)

        def attempt(_: int) -> None:
            reached = self.dead_up_to()
            if reached >= number:
                return
            try:
                if reached:
                    self.store.replace(path, data, encode_boundary(reached))
                else:
                    self.store.create(path, data)
            except (FileExistsError, FileNotFoundError) as exc:
                raise RaceLostError(f"{path} was moved") from exc

        retry_lost_races(clock, attempt, f"{self.store.url}/{path}")

    def check_boundary_moves(self, number: int) -> None:
        """Raise the `InvalidRequestError` that `raise_boundary` would raise, if any; nothing is changed."""
        assert self.boundary is not None  # as above
        if 0 < self.dead_up_to() < number:
            with suppress(FileExistsError, FileNotFoundError):
                self.store.replace(boundary_path(self.boundary), encode_boundary(number), _NO_BOUNDARY)

    def dead_up_to(self) -> int:
        """Return the highest id that a collector has declared dead; 0 if it has none."""
        if self.boundary is None:
            return 0
        path = boundary_path(self.boundary)
        try:
            return decode_boundary(bytes(self.store.get(path)))
        except FileNotFoundError:
            return 0
        except CorruptDataError as exc:
            raise exc.located(f"{self.store.url}/{path}") from exc
