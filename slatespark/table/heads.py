"""Heads: the newest versions of a table's objects that its reader has seen, so that the next look starts from there."""

from __future__ import annotations

from dataclasses import dataclass

from slatespark.storage.object_store import Buffer, ObjectMeta


@dataclass(frozen=True, slots=True)
class Head:
    """A version that was the newest one when it was read.

    Attributes
    ----------
    number : its id
    meta : as it was listed
    data : its content, which never changes
    """

    number: int
    meta: ObjectMeta
    data: Buffer


class Heads:
    """At most one head for each folder of a root: a table reads definitions and manifests of its parents too.

    Another process starts without any.
    """

    def __init__(self) -> None:
        self._heads: dict[tuple[str, str], Head] = {}

    def __reduce__(self) -> tuple[type[Heads], tuple[()]]:
        return Heads, ()

    def get(self, url: str, folder: str) -> Head | None:
        """Return the head of a folder below a root; None if none was seen."""
        return self._heads.get((url, folder))

    def put(self, url: str, folder: str, head: Head) -> None:
        """Remember the head of a folder instead of an earlier one."""
        self._heads[url, folder] = head
