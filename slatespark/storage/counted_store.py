"""CountedStore: an object store that counts the requests to another one."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from slatespark.ranges import ByteRange, coalesce
from slatespark.storage.object_store import Buffer, ObjectMeta, ObjectStore
from slatespark.storage.remote_store import MAX_GAP_BYTES, MAX_MERGED_BYTES
from slatespark.storage.requests import Requests, delete_requests, list_requests, upload_requests


class RequestTally:
    """A running sum of requests, of any number of stores and threads. Another process counts for itself, from 0."""

    def __init__(self) -> None:
        self._total = Requests()
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[RequestTally], tuple[()]]:
        return RequestTally, ()

    @property
    def total(self) -> Requests:
        """The requests so far."""
        return self._total

    def add(self, requests: Requests) -> None:
        """Count some requests."""
        with self._lock:
            self._total = self._total + requests


class CountedStore:
    """Passes all calls on to another store, and counts the requests that they would be on S3.

    The counts are the same for every kind of store, so that what a job on S3 will cost can be seen on a copy in a local
    folder. Requests that fail or find nothing count; repeated attempts, and the checks of a server's abilities that a
    process makes once, do not.

    Parameters
    ----------
    store : the store with the objects
    tally : counts the requests
    """

    def __init__(self, store: ObjectStore, tally: RequestTally) -> None:
        self._store, self._tally = store, tally

    def __repr__(self) -> str:
        return f"CountedStore({self._store!r})"

    def __reduce__(self) -> tuple[type[CountedStore], tuple[ObjectStore, RequestTally]]:
        return CountedStore, (self._store, self._tally)

    @property
    def url(self) -> str:
        """URL of the root."""
        return self._store.url

    @property
    def is_remote(self) -> bool:
        """Whether reads have network latency."""
        return self._store.is_remote

    @property
    def lists_whole_folders(self) -> bool:
        """False, so that the requests are those that S3 gets."""
        return False

    def get(self, path: str) -> Buffer:
        """Return a whole object."""
        self._tally.add(Requests(get=1))
        data = self._store.get(path)
        self._tally.add(Requests(read_bytes=len(data)))
        return data

    def get_range(self, path: str, span: ByteRange) -> Buffer:
        """Return the bytes `[span.start, span.end)`."""
        return self.get_ranges(path, [span])[0]

    def get_ranges(self, path: str, spans: Sequence[ByteRange]) -> list[Buffer]:
        """Return several ranges of one object, in the given order."""
        try:
            found = self._store.get_ranges(path, spans)
        except FileNotFoundError:
            self._tally.add(Requests(get=1))
            raise
        self._tally.add(range_requests(spans))
        return found

    def head(self, path: str) -> ObjectMeta:
        """Return size and modification time of an object."""
        self._tally.add(Requests(get=1))
        return self._store.head(path)

    def list(self, prefix: str, start_after: str = "") -> list[ObjectMeta]:
        """Return the objects directly in the folder `prefix`, ascending by path."""
        found = self._store.list(prefix, start_after)
        self._tally.add(Requests(list=list_requests(len(found))))
        return found

    def list_below(self, prefix: str) -> Sequence[ObjectMeta]:
        """Return the objects in the folder `prefix` and in all folders below it, ascending by path."""
        found = self._store.list_below(prefix)
        self._tally.add(Requests(list=list_requests(len(found))))
        return found

    def list_unfinished(self, prefix: str) -> Sequence[ObjectMeta]:
        """Return incomplete writes below the folder `prefix`; object stores have none, so nothing is counted."""
        return self._store.list_unfinished(prefix)

    def create(self, path: str, data: Buffer) -> None:
        """Create an object atomically, or raise `FileExistsError`."""
        self._tally.add(Requests(put=1, written_bytes=len(data)))
        try:
            self._store.create(path, data)
        except FileExistsError:
            self._tally.add(Requests(get=1 if len(data) else 0))  # read back: another one's, or its own
            raise

    def replace(self, path: str, data: Buffer, expected: Buffer) -> None:
        """Replace the content `expected` by `data`, or raise `FileExistsError`."""
        self._tally.add(Requests(get=2, put=1, read_bytes=len(expected), written_bytes=len(data)))
        self._store.replace(path, data, expected)

    def put(self, path: str, parts: Sequence[Buffer]) -> None:
        """Store the concatenation of `parts`, replacing an existing object."""
        size = sum(memoryview(part).nbytes for part in parts)
        self._tally.add(Requests(put=upload_requests(size), written_bytes=size))
        self._store.put(path, parts)

    def copy(self, source: str, target: str) -> None:
        """Copy an object within the store."""
        self._tally.add(Requests(get=1, put=1))  # looked up first
        self._store.copy(source, target)

    def delete(self, path: str) -> None:
        """Delete an object; a missing object is not an error."""
        self._tally.add(Requests(delete=1))
        self._store.delete(path)

    def delete_many(self, paths: Sequence[str]) -> None:
        """Delete objects; missing ones are not an error."""
        self._tally.add(Requests(delete=delete_requests(len(paths))))
        self._store.delete_many(paths)

    def prune(self, folders: Sequence[str]) -> None:
        """Remove folders that hold nothing; object stores have none, so nothing is counted."""
        self._store.prune(folders)


def range_requests(spans: Iterable[ByteRange]) -> Requests:
    """Return the requests for some ranges of one object: nearby ones share a request, an empty one costs a lookup."""
    wanted = list(spans)
    merged = coalesce(
        (span for span in wanted if span.start < span.end), max_gap=MAX_GAP_BYTES, max_bytes=MAX_MERGED_BYTES
    )
    looks = 1 if any(span.start >= span.end for span in wanted) else 0
    return Requests(get=len(merged) + looks, read_bytes=sum(map(len, merged)))
