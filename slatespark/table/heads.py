"""Heads: the newest versions of a table's objects that its reader has seen, so that the next look starts from there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from slatespark.storage.object_store import Buffer, ObjectMeta

if TYPE_CHECKING:
    from slatespark.format.manifest import Manifest
    from slatespark.format.properties import SstProperties
    from slatespark.format.ulid import Ulid

Epochs: TypeAlias = tuple[int, int]  # of writer and compactor


@dataclass(frozen=True, slots=True)
class Head:
    """A version that was the newest one when it was read.

    Attributes
    ----------
    number : number of the version
    meta : metadata of the object as listed
    data : content of the object, which never changes
    """

    number: int
    meta: ObjectMeta
    data: Buffer


@dataclass(slots=True)
class OwnCommits:
    """The last commits of this process to a table, for whether siblings should have a turn in between.

    Attributes
    ----------
    number : the version of the last one
    in_a_row : how many there were without one of a sibling in between
    took_ms : how long the last one took
    met_ms : when the claim of a sibling was last waited for; None if none was
    needed_ms : how long a sibling that was let in took to claim
    claims : write ids by the version that claimed the table, since siblings that lost were last searched
    """

    number: int = 0
    in_a_row: int = 0
    took_ms: int = 0
    met_ms: int | None = None
    needed_ms: int = 0
    claims: dict[int, str] = field(default_factory=dict)


class Heads:
    """What is known of the folders of a root: a table reads definitions and manifests of its parents too.

    It holds at most one head for each folder, the version that this process created last, and a WAL tail. Another
    process starts without any.

    Attributes
    ----------
    creations : how many versions of anything this process has created, or had created
    keeps_tail : whether it pays to keep rows of the WAL: for a table that stays open after a call
    tail : the rows of the WAL that a read keeps, a `HeldTail`; None if none are kept
    properties : of files, by id and size: of all files of some version, and of those that were committed here since
    described : the newest version that was known when the properties of all files of a version were; 0 if they never
        were, or if files have come whose properties nothing tells
    defined : a version of the manifest, and the newest definition of the table itself as it was looked for after that
    """

    def __init__(self) -> None:
        self._heads: dict[tuple[str, str], Head] = {}
        self._created: dict[tuple[str, str], tuple[int, Buffer]] = {}
        self.creations = 0
        self._commits: dict[tuple[str, str], tuple[int, Epochs]] = {}
        self._own_commits: dict[str, OwnCommits] = {}
        self.keeps_tail = False
        self.tail: object = None
        self.properties: Mapping[tuple[Ulid, int], SstProperties] = {}
        self.described = 0
        self.defined: tuple[tuple[int, Manifest], Any] | None = None

    def __reduce__(self) -> tuple[type[Heads], tuple[()]]:
        return Heads, ()

    def get(self, url: str, folder: str) -> Head | None:
        """Return the head of a folder below a root; None if none was seen."""
        return self._heads.get((url, folder))

    def put(self, url: str, folder: str, head: Head, *, follows: bool) -> None:
        """Remember the head of a folder instead of an earlier one.

        Parameters
        ----------
        follows : whether it is a version of the same object as the one before, and not of one that was created in its
            place
        """
        if not follows:
            self._commits.pop((url, folder), None)
            self._created.pop((url, folder), None)
            self.tail = None
        self._heads[url, folder] = head

    def forget(self, url: str, folder: str, newest: tuple[int, Buffer] | None) -> None:
        """Forget a folder in which nothing is left; not what another thread has seen or created there meanwhile.

        Parameters
        ----------
        newest : what `newest` returned before it was looked for
        """
        if newest is not None and self.newest(url, folder) == newest:
            for known in (self._heads, self._created, self._commits):
                known.pop((url, folder), None)
            self.tail = None

    def put_created(self, url: str, folder: str, number: int, data: Buffer) -> None:
        """Remember a version that this process has created."""
        self._created[url, folder] = number, data
        self.creations += 1

    def note_created(self) -> None:
        """Remember that a version was created for this process: by a live client, or through other stores."""
        self.creations += 1

    def created(self, url: str, folder: str, number: int) -> Buffer | None:
        """Return the content of a version if it is the one that this process created last."""
        own, data = self._created.get((url, folder), (0, b""))
        return data if own == number else None

    def newest(self, url: str, folder: str) -> tuple[int, Buffer] | None:
        """Return number and content of the newest version that was seen or created; None if none was."""
        head, created = self._heads.get((url, folder)), self._created.get((url, folder))
        if head is None or (created is not None and created[0] > head.number):
            return created
        return head.number, head.data

    def put_own_commit(self, url: str, folder: str, number: int, epochs: Epochs) -> None:
        """Remember that a version is a slatespark commit, with the WAL fenced."""
        self._commits[url, folder] = number, epochs

    def own_commit(self, url: str, folder: str) -> tuple[int, Epochs]:
        """Return number and epochs of the newest version that is known to be a slatespark commit; 0 if none is."""
        return self._commits.get((url, folder), (0, (0, 0)))

    def own_commits(self, url: str) -> OwnCommits:
        """Return what is known of the last commits to a table; the caller keeps it up to date."""
        return self._own_commits.setdefault(url, OwnCommits())
