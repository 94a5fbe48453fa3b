"""What the project needs of an object store, and nothing more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from slatespark.ranges import ByteRange

Buffer: TypeAlias = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class ObjectMeta:
    """One object as a listing shows it."""

    path: str  # relative to the root of the store
    size: int  # bytes
    modified_ms: int  # last modification, ms since the epoch


class ObjectStore(Protocol):
    """Objects under one root, by relative path with `/` between its parts.

    Every method raises `FileNotFoundError` for an object that does not exist, and `UnavailableError` when the store did
    not answer in spite of retries. Implementations are picklable (they reopen lazily in another process) and safe to
    use from several threads; no connection is opened at import or construction.
    """

    @property
    def url(self) -> str:
        """Where the root is, for messages; never holds credentials. `open_store` accepts it."""

    @property
    def is_remote(self) -> bool:
        """Whether a read waits for a network, so that reading ahead pays."""

    def get(self, path: str) -> Buffer:
        """Return a whole object."""

    def get_range(self, path: str, span: ByteRange) -> Buffer:
        """Return the bytes `[span.start, span.end)`.

        Raises `CorruptDataError` naming the object if it ends before `span.end`.
        """

    def get_ranges(self, path: str, spans: Sequence[ByteRange]) -> list[Buffer]:
        """Return several ranges of one object, in the order asked; near ones are read together."""

    def head(self, path: str) -> ObjectMeta:
        """Return size and modification time of an object."""

    def list(self, prefix: str, start_after: str = "") -> list[ObjectMeta]:
        """Return the objects directly in the folder `prefix` (which ends with `/`), ascending by path.

        `start_after` is a path; objects up to and including it are left out. A folder that does not exist is empty.
        """

    def list_unfinished(self, prefix: str) -> Sequence[ObjectMeta]:
        """Return what writers that were killed left below the folder `prefix`; `delete` takes it away.

        Writers that are still at work leave the same. No listing shows it, and no object has such a name. Stores that
        clean up by themselves have none.
        """

    def create(self, path: str, data: Buffer) -> None:
        """Create an object atomically, or raise `FileExistsError` if it exists.

        Readers see nothing or the whole object. When the answer is lost, or a repeated request finds the object there,
        it is read back: equal non-empty content counts as our success, so content must be unique to its author. For
        empty content (WAL fences) the outcome cannot be told apart and counts as `FileExistsError`.
        """

    def replace(self, path: str, data: Buffer, expected: Buffer) -> None:
        """Put `data` in the place of `expected`, atomically; raises `FileExistsError` when there is something else.

        When the answer is lost, or a repeated request finds it done, the object is read back, as by `create`. Refused
        with an `InvalidRequestError` where it cannot be done atomically; the object is as it was then.
        """

    def put(self, path: str, parts: Sequence[Buffer]) -> None:
        """Store the concatenation of `parts`, replacing what is there; durable and complete on return."""

    def copy(self, source: str, target: str) -> None:
        """Copy an object within the store, on its server where that is possible."""

    def delete(self, path: str) -> None:
        """Delete an object; one that does not exist is no error."""
