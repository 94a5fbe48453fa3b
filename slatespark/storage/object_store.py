"""The interface of an object store, limited to what tables need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from slatespark.ranges import ByteRange

Buffer: TypeAlias = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class ObjectMeta:
    """One object in a listing."""

    path: str  # relative to the root of the store
    size: int  # bytes
    modified_ms: int  # last modification, ms since the epoch
    tag: int = field(default=0, compare=False)  # of its content, within this process; 0 if the store tells none

    def is_unchanged(self, later: ObjectMeta | None) -> bool:
        """Tell whether a later listing shows the same object, and not another one in its place.

        Some stores tell the time in seconds, so that size and time alone may be those of another object.
        """
        return self == later and self.tag == later.tag


def tag_of(text: object) -> int:
    """Return the tag of an object that a store gives an ETag, or the like; a number, as a listing may be long."""
    return hash(text) if text else 0


class ObjectStore(Protocol):
    """Objects under one root, addressed by relative paths with `/` as separator.

    Every method raises `FileNotFoundError` if the object does not exist, and `UnavailableError` if the store did not
    answer despite retries. Implementations are picklable (they reopen lazily in another process) and thread-safe. They
    do not connect at import or construction.
    """

    @property
    def url(self) -> str:
        """URL of the root, without credentials. `open_store` accepts it."""

    @property
    def is_remote(self) -> bool:
        """Whether reads have network latency, so that reading ahead pays off."""

    @property
    def lists_whole_folders(self) -> bool:
        """Whether a listing takes as long as the folder is large, however few names it returns.

        Objects whose names are known are better looked up one by one then.
        """

    def get(self, path: str) -> Buffer:
        """Return a whole object."""

    def get_range(self, path: str, span: ByteRange) -> Buffer:
        """Return the bytes `[span.start, span.end)`.

        Raises `CorruptDataError` with the object's path if it ends before `span.end`.
        """

    def get_ranges(self, path: str, spans: Sequence[ByteRange]) -> list[Buffer]:
        """Return several ranges of one object, in the given order; nearby ranges may share a request."""

    def head(self, path: str) -> ObjectMeta:
        """Return size and modification time of an object."""

    def list(self, prefix: str, start_after: str = "") -> list[ObjectMeta]:
        """Return the objects directly in the folder `prefix` (which ends with `/`), ascending by path.

        `start_after` is a path; objects up to and including it are omitted. A folder that does not exist is empty.
        """

    def list_below(self, prefix: str) -> Sequence[ObjectMeta]:
        """Return the objects in the folder `prefix` and in all folders below it, ascending by path."""

    def list_unfinished(self, prefix: str) -> Sequence[ObjectMeta]:
        """Return incomplete writes below the folder `prefix`; `delete` removes them.

        They belong to killed writers or to active ones. Listings omit them, and no object has such a name. Stores that
        clean up by themselves return none.
        """

    def create(self, path: str, data: Buffer) -> None:
        """Create an object atomically, or raise `FileExistsError` if it exists.

        Readers see nothing or the whole object. If the response is lost, or a retry finds the object, it is read back:
        equal non-empty content counts as success, so content must be unique to its author. For empty content (WAL
        fences) the outcome is ambiguous and counts as `FileExistsError`.
        """

    def replace(self, path: str, data: Buffer, expected: Buffer) -> None:
        """Replace the content `expected` by `data`, atomically; raises `FileExistsError` if the content differs.

        If the response is lost, or a retry finds the new content, the object is read back, as by `create`. Raises
        `InvalidRequestError` if the store cannot do it atomically; the object is then unchanged.
        """

    def put(self, path: str, parts: Sequence[Buffer]) -> None:
        """Store the concatenation of `parts`, replacing an existing object; durable and complete on return."""

    def copy(self, source: str, target: str) -> None:
        """Copy an object within the store, on the server if possible."""

    def delete(self, path: str) -> None:
        """Delete an object; a missing object is not an error."""

    def delete_many(self, paths: Sequence[str]) -> None:
        """Delete objects, in any order; missing ones are not an error. If it raises, some may be gone."""

    def prune(self, folders: Sequence[str]) -> None:
        """Remove folders that hold nothing, with all below them, and then the root; only file systems have them."""
