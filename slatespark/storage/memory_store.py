"""Objects in the memory of one process: for tests and examples."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from slatespark.ranges import ByteRange
from slatespark.storage.addressing import check_folder, check_path, check_span, no_such_object, object_exists
from slatespark.storage.object_store import Buffer, ObjectMeta
from slatespark.units import ns_to_ms


def _server_clock_ms() -> int:
    # This store acts as a server with a clock of its own, like a file system. Nothing depends on the time.
    return ns_to_ms(time.time_ns())


@dataclass(slots=True)
class _Bucket:
    objects: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    clock_ms: Callable[[], int] = _server_clock_ms

    def store(self, key: str, data: bytes) -> None:
        """Store an object, with another time than the one it replaces: listings must show that it changed."""
        now_ms, earlier = self.clock_ms(), self.objects.get(key)
        if earlier is not None and earlier[1] == now_ms:
            now_ms += 1
        self.objects[key] = (data, now_ms)


_BUCKETS: dict[str, _Bucket] = {}


class MemoryStore:
    """Objects in a dictionary, shared by all stores of the same name in the process.

    Parameters
    ----------
    name : bucket, optionally with a path: `bucket` or `bucket/some/root`
    clock_ms : source of modification times; applies to the whole bucket from then on
    """

    def __init__(self, name: str, clock_ms: Callable[[], int] | None = None) -> None:
        self._name = name.strip("/")
        bucket, _, root = self._name.partition("/")
        self._prefix = f"{root}/" if root else ""
        self._bucket = _BUCKETS.setdefault(bucket, _Bucket())
        if clock_ms is not None:
            self._bucket.clock_ms = clock_ms

    def __repr__(self) -> str:
        return f"MemoryStore({self._name!r})"

    def __reduce__(self) -> tuple[type[MemoryStore], tuple[str]]:
        return MemoryStore, (self._name,)

    @property
    def url(self) -> str:
        """URL of the root."""
        return f"memory://{self._name}"

    @property
    def is_remote(self) -> bool:
        """False: reads have no network latency."""
        return False

    @property
    def lists_whole_folders(self) -> bool:
        """False, as a server."""
        return False

    def get(self, path: str) -> Buffer:
        """Return a whole object."""
        return self._find(path)[0]

    def get_range(self, path: str, span: ByteRange) -> Buffer:
        """Return the bytes `[span.start, span.end)`."""
        data, _ = self._find(path)
        check_span(path, span, len(data))
        return memoryview(data)[span.start : span.end]

    def get_ranges(self, path: str, spans: Sequence[ByteRange]) -> list[Buffer]:
        """Return several ranges of one object, in the given order."""
        self._find(path)
        return [self.get_range(path, span) for span in spans]

    def head(self, path: str) -> ObjectMeta:
        """Return size and modification time of an object."""
        data, modified_ms = self._find(path)
        return ObjectMeta(path, len(data), modified_ms)

    def list(self, prefix: str, start_after: str = "") -> list[ObjectMeta]:
        """Return the objects directly in the folder `prefix`, ascending by path."""
        found = self.list_below(prefix)
        return [meta for meta in found if meta.path > start_after and "/" not in meta.path.removeprefix(prefix)]

    def list_below(self, prefix: str) -> Sequence[ObjectMeta]:
        """Return the objects in the folder `prefix` and in all folders below it, ascending by path."""
        folder = self._prefix + check_folder(prefix)
        with self._bucket.lock:
            objects = [*self._bucket.objects.items()]
        found = (
            ObjectMeta(key.removeprefix(self._prefix), len(data), modified_ms)
            for key, (data, modified_ms) in objects
            if key.startswith(folder)
        )
        return sorted(found, key=lambda meta: meta.path)

    def create(self, path: str, data: Buffer) -> None:
        """Create an object atomically, or raise `FileExistsError`."""
        key = self._key(path)
        with self._bucket.lock:
            if key in self._bucket.objects:
                raise object_exists(f"{self.url}/{path}")
            self._bucket.store(key, bytes(data))

    def list_unfinished(self, prefix: str) -> Sequence[ObjectMeta]:
        """Return nothing: there are no incomplete objects."""
        check_folder(prefix)
        return []

    def replace(self, path: str, data: Buffer, expected: Buffer) -> None:
        """Replace the content `expected` by `data`, or raise `FileExistsError`."""
        key = self._key(path)
        with self._bucket.lock:
            if self._find(path)[0] != expected:
                raise object_exists(f"{self.url}/{path}")
            self._bucket.store(key, bytes(data))

    def put(self, path: str, parts: Sequence[Buffer]) -> None:
        """Store the concatenation of `parts`, replacing an existing object."""
        key, data = self._key(path), b"".join(parts)
        with self._bucket.lock:
            self._bucket.store(key, data)

    def copy(self, source: str, target: str) -> None:
        """Copy an object within the store."""
        self.put(target, [self._find(source)[0]])

    def delete(self, path: str) -> None:
        """Delete an object; a missing object is not an error."""
        with self._bucket.lock:
            self._bucket.objects.pop(self._key(path), None)

    def delete_many(self, paths: Sequence[str]) -> None:
        """Delete objects, one after the other; missing ones are not an error."""
        for path in paths:
            self.delete(path)

    def prune(self, folders: Sequence[str]) -> None:
        """Do nothing: there are no folders."""

    def _key(self, path: str) -> str:
        return self._prefix + check_path(path)

    def _find(self, path: str) -> tuple[bytes, int]:
        try:
            return self._bucket.objects[self._key(path)]
        except KeyError:
            raise no_such_object(f"{self.url}/{path}") from None
