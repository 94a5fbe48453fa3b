"""Single requests to S3, Google Cloud Storage and Azure through obstore: no retries, errors as raised by obstore."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from slatespark.errors import InvalidRequestError
from slatespark.ranges import ByteRange
from slatespark.storage.conditional_writes import CONTENT, prove_once
from slatespark.storage.credentials import BackendOptions
from slatespark.storage.object_store import Buffer, ObjectMeta, tag_of
from slatespark.storage.obstore_config import Bucket, import_obstore, open_bucket, parse_url
from slatespark.storage.obstore_users import is_forked_user, mark_user
from slatespark.storage.requests import PARTS_IN_FLIGHT, part_size
from slatespark.storage.retry import AttemptOutcome, classify_error
from slatespark.units import datetime_to_ms

_NO_VERSION: Final = {"e_tag": '"0"', "version": "1"}  # of no object


class ObstoreDriver:
    """Requests to one bucket or container.

    Parameters
    ----------
    url : root, such as `gs://bucket/some/root` or `abfss://container@account.dfs.core.windows.net/root`
    options : options of `known_options`
    """

    def __init__(self, url: str, options: BackendOptions) -> None:
        _refuse_forked()
        mark_user()
        self._obstore = import_obstore()
        self._bucket: Bucket = parse_url(url)
        self._prefix = f"{self._bucket.root}/" if self._bucket.root else ""
        self._store, self._endpoint = open_bucket(self._bucket, options)

    def read(self, path: str) -> bytes:
        """Return a whole object."""
        return bytes(self._obstore.get(self._store, self._key(path)).bytes())

    def read_span(self, path: str, span: ByteRange) -> bytes:
        """Return a range."""
        return bytes(self._obstore.get_range(self._store, self._key(path), start=span.start, end=span.end))

    def read_spans(self, path: str, spans: Sequence[ByteRange]) -> list[bytes | BaseException]:
        """Return several ranges; if one fails, its error stands for all."""
        starts, ends = [span.start for span in spans], [span.end for span in spans]
        try:
            found = self._obstore.get_ranges(self._store, self._key(path), starts=starts, ends=ends, coalesce=0)
        except Exception as exc:
            return [exc] * len(spans)
        return [bytes(part) for part in found]

    def head(self, path: str) -> ObjectMeta:
        """Return size and modification time."""
        return _meta(path, self._obstore.head(self._store, self._key(path)))

    def list(self, prefix: str, start_after: str) -> list[ObjectMeta]:
        """Return the objects directly in the folder and after `start_after`."""
        folder = self._prefix + prefix
        found: Iterable[dict[str, Any]]
        if start_after > prefix:  # only the recursive listing takes a start
            found = self._items_below(folder, self._prefix + start_after)
        else:
            found = self._obstore.list_with_delimiter(self._store, prefix=folder)["objects"]
        names = ((item["path"].removeprefix(folder), item) for item in found)
        return [_meta(prefix + name, item) for name, item in names if name and "/" not in name]

    def list_below(self, prefix: str) -> Sequence[ObjectMeta]:
        """Return the objects in the folder and in all folders below it."""
        folder = self._prefix + prefix
        return [_meta(item["path"].removeprefix(self._prefix), item) for item in self._items_below(folder)]

    def _items_below(self, folder: str, start_after: str | None = None) -> Iterator[dict[str, Any]]:
        for page in self._obstore.list(self._store, prefix=folder, offset=start_after):
            yield from page

    def create(self, path: str, data: bytes) -> None:
        """Create an object conditionally."""
        self._prove("create", lambda proof: self._create(proof, CONTENT))
        self._create(path, data)

    def replace(self, path: str, data: bytes, expected: bytes) -> None:
        """Replace the content `expected` by `data`, on the condition that the object is still the one that was read."""
        found = self._obstore.get(self._store, self._key(path))
        version = {name: found.meta[name] for name in ("e_tag", "version") if found.meta.get(name)}
        if found.bytes() != expected:
            raise FileExistsError(path)
        self._prove("replace", lambda proof: self._replace(proof, CONTENT, _NO_VERSION))
        self._replace(path, data, version)

    def write(self, path: str, parts: Sequence[Buffer]) -> None:
        """Store the concatenation of `parts`; a large one in several requests, a few at a time."""
        size = sum(memoryview(part).nbytes for part in parts)
        chunk_bytes = part_size(size)
        if size < 2 * chunk_bytes:
            self._obstore.put(self._store, self._key(path), b"".join(parts), use_multipart=False)
            return
        chunks = (memoryview(part).cast("B") for part in parts)
        self._obstore.put(self._store, self._key(path), chunks, chunk_size=chunk_bytes, max_concurrency=PARTS_IN_FLIGHT)

    def copy(self, source: str, target: str) -> None:
        """Copy an object on the server."""
        self._obstore.copy(self._store, self._key(source), self._key(target))

    def delete(self, path: str) -> None:
        """Delete an object."""
        try:
            self._obstore.delete(self._store, self._key(path))
        except FileNotFoundError as exc:
            if classify_error(exc) is not AttemptOutcome.MISSING:  # the status 404 has other reasons, too
                raise

    def delete_many(self, paths: Sequence[str]) -> bool:
        """Delete objects, with as few requests as the server can; return False if one is missing."""
        try:
            self._obstore.delete(self._store, [self._key(path) for path in paths])
        except FileNotFoundError:  # of one, and the others are left
            return False
        return True

    def _key(self, path: str) -> str:
        return self._prefix + path

    def _create(self, path: str, data: bytes) -> None:
        self._obstore.put(self._store, self._key(path), data, mode="create", use_multipart=False)

    def _replace(self, path: str, data: bytes, version: dict[str, str]) -> None:
        self._obstore.put(self._store, self._key(path), data, mode=version, use_multipart=False)

    def _prove(self, condition: str, break_condition: Callable[[str], None]) -> None:
        """Verify that the server honors a condition; those of the providers need no proof."""
        if self._endpoint is not None:
            prove_once(
                (os.getpid(), self._endpoint, self._bucket),
                condition,
                self._bucket.url,
                create=lambda proof: self._create(proof, CONTENT),
                break_condition=break_condition,
                delete=self.delete,
            )


def _meta(path: str, found: Mapping[str, Any]) -> ObjectMeta:
    return ObjectMeta(path, found["size"], datetime_to_ms(found["last_modified"]), tag_of(found.get("e_tag")))


def _refuse_forked() -> None:
    if is_forked_user():
        raise InvalidRequestError(
            f"Process {os.getpid()} was forked from one that has used obstore, and cannot use it.",
            todo="Start processes with multiprocessing's 'spawn' or 'forkserver', or set storage.driver=fsspec.",
        )
