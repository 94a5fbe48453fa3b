"""Objects on S3, Google Cloud Storage, Azure and other remote stores, with retries."""

from __future__ import annotations

import bisect
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import methodcaller
from typing import TypeVar

from slatespark.errors import CorruptDataError, InvalidRequestError
from slatespark.ranges import ByteRange, coalesce
from slatespark.storage.addressing import check_bucket, check_folder, check_path, check_span
from slatespark.storage.credentials import BackendOptions, refuse_user_info
from slatespark.storage.driver import Driver, check_options, make_driver
from slatespark.storage.object_store import Buffer, ObjectMeta
from slatespark.storage.readahead import run_concurrently
from slatespark.storage.requests import MOST_DELETED
from slatespark.storage.retry import AttemptOutcome, RetryPolicy, call_with_retries, classify_error, create_once

# A request costs about as much as reading this many unneeded bytes.
MAX_GAP_BYTES = 1 << 20
MAX_MERGED_BYTES = 8 << 20

_LARGEST_OFFSET = 1 << 62  # far above any object size; servers disagree on larger numbers

T = TypeVar("T")


class RemoteStore:
    """Objects below `url`. Requests with transient failures are retried.

    Parameters
    ----------
    url : root, with its protocol; `s3a://` is equivalent to `s3://`
    options : the `storage.*` options without that prefix
    policy : number and timing of retries
    """

    def __init__(
        self, url: str, options: Mapping[str, object] | None = None, *, policy: RetryPolicy | None = None
    ) -> None:
        self._url = _plain_url(url)
        self._options = options if isinstance(options, BackendOptions) else BackendOptions(options)
        self._policy = policy or RetryPolicy()
        self._driver: Driver | None = None
        self._pid = 0
        refuse_user_info(self._options.get("endpoint_url", ""))
        check_options(self._url, self._options)  # report wrong options here, not on the first request

    def __repr__(self) -> str:
        return f"RemoteStore({self._url!r}, {self._options!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return _reopened, (self._url, self._options, self._policy)

    @property
    def url(self) -> str:
        """URL of the root."""
        return self._url

    @property
    def is_remote(self) -> bool:
        """True: reads have network latency."""
        return True

    @property
    def lists_whole_folders(self) -> bool:
        """False: a server begins with any name."""
        return False

    def get(self, path: str) -> Buffer:
        """Return a whole object."""
        return self._ask("read", path, lambda driver: driver.read(check_path(path)))

    def get_range(self, path: str, span: ByteRange) -> Buffer:
        """Return the bytes `[span.start, span.end)`."""
        return self.get_ranges(path, [span])[0]

    def get_ranges(self, path: str, spans: Sequence[ByteRange]) -> list[Buffer]:
        """Return several ranges of one object, in the given order; nearby ranges share a request."""
        check_path(path)
        for span in spans:
            check_span(path, span, _LARGEST_OFFSET)
        wanted = [span for span in spans if span.start < span.end]
        if len(wanted) < len(spans):  # an empty range cannot be requested: check it against the size
            size = self.head(path).size
            for span in spans:
                check_span(path, span, size)
        merged = coalesce(wanted, max_gap=MAX_GAP_BYTES, max_bytes=MAX_MERGED_BYTES)
        blocks = self._read_spans(path, merged)
        return [_cut(span, merged, blocks) if span.start < span.end else b"" for span in spans]

    def head(self, path: str) -> ObjectMeta:
        """Return size and modification time of an object."""
        return self._ask("look up", path, lambda driver: driver.head(check_path(path)))

    def list(self, prefix: str, start_after: str = "") -> list[ObjectMeta]:
        """Return the objects directly in the folder `prefix`, ascending by path."""
        check_folder(prefix)
        found = self._ask("list", prefix, lambda driver: driver.list(prefix, start_after))
        return sorted((meta for meta in found if meta.path > start_after), key=lambda meta: meta.path)

    def list_below(self, prefix: str) -> Sequence[ObjectMeta]:
        """Return the objects in the folder `prefix` and in all folders below it, ascending by path."""
        check_folder(prefix)
        found = self._ask("list", prefix, lambda driver: driver.list_below(prefix))
        return sorted(found, key=lambda meta: meta.path)

    def create(self, path: str, data: Buffer) -> None:
        """Create an object atomically, or raise `FileExistsError`; refused if the store does not support it."""
        content = bytes(data)
        create_once(
            lambda: self._ask("create", path, lambda driver: driver.create(check_path(path), content)),
            lambda: self.get(path),
            content,
        )

    def list_unfinished(self, prefix: str) -> Sequence[ObjectMeta]:
        """Return nothing: lifecycle rules of the bucket remove incomplete uploads."""
        check_folder(prefix)
        return []

    def replace(self, path: str, data: Buffer, expected: Buffer) -> None:
        """Replace the content `expected` by `data`, or raise `FileExistsError`; refused without store support."""
        content, known = bytes(data), bytes(expected)
        create_once(
            lambda: self._ask("replace", path, lambda driver: driver.replace(check_path(path), content, known)),
            lambda: self.get(path),
            content,
        )

    def put(self, path: str, parts: Sequence[Buffer]) -> None:
        """Store the concatenation of `parts`, replacing an existing object."""
        self._ask("write", path, lambda driver: driver.write(check_path(path), parts))

    def copy(self, source: str, target: str) -> None:
        """Copy an object within the store, on the server if possible."""
        if source == target:  # refused by S3
            self.head(source)
        else:
            self._ask("copy", source, lambda driver: driver.copy(check_path(source), check_path(target)))

    def delete(self, path: str) -> None:
        """Delete an object; a missing object is not an error."""
        self._ask("delete", path, lambda driver: driver.delete(check_path(path)))

    def delete_many(self, paths: Sequence[str]) -> None:
        """Delete objects, many with one request where the server can; missing ones are not an error."""
        distinct = [*dict.fromkeys(map(check_path, paths))]  # the second deletion of one has no answer on MinIO
        for at in range(0, len(distinct), MOST_DELETED):
            some = distinct[at : at + MOST_DELETED]
            if not self._ask("delete", some[0], methodcaller("delete_many", some)):
                run_concurrently([partial(self.delete, path) for path in some], is_remote=True)

    def prune(self, folders: Sequence[str]) -> None:
        """Do nothing: object stores have no folders."""

    def _ask(self, what: str, path: str, request: Callable[[Driver], T]) -> T:
        location = f"{self._url}/{path}"
        return call_with_retries(
            lambda: request(self._connected()), what, location, policy=self._policy, options=self._options
        )

    def _connected(self) -> Driver:
        if self._driver is None or self._pid != os.getpid():
            self._driver = make_driver(self._url, self._options)
            self._pid = os.getpid()
        return self._driver

    def _read_spans(self, path: str, spans: Sequence[ByteRange]) -> Sequence[bytes]:
        if len(spans) <= 1:
            return [self._read_span(path, span) for span in spans]
        answers = self._ask("read", path, lambda driver: driver.read_spans(path, spans))
        # Failed ranges are requested again one by one, with retries.
        return [
            answer if isinstance(answer, bytes) and len(answer) == len(span) else self._read_span(path, span)
            for span, answer in zip(spans, answers, strict=True)
        ]

    def _read_span(self, path: str, span: ByteRange) -> bytes:
        return self._ask("read", path, lambda driver: _read_exactly(driver, path, span))


def _read_exactly(driver: Driver, path: str, span: ByteRange) -> bytes:
    """Return the bytes of a range; raises `CorruptDataError` if the object is shorter, according to its size."""
    try:
        data = driver.read_span(path, span)
    except CorruptDataError:
        raise
    except Exception as exc:
        if classify_error(exc) is AttemptOutcome.PAST_END:
            check_span(path, span, driver.head(path).size)
        raise
    if len(data) < len(span):
        check_span(path, span, driver.head(path).size)
        raise ConnectionError(f"received {len(data)} of {len(span)} bytes")
    if len(data) > len(span):
        raise InvalidRequestError("The server does not support requests for a part of an object.")
    return data


def _cut(span: ByteRange, merged: Sequence[ByteRange], blocks: Sequence[bytes]) -> Buffer:
    place = bisect.bisect_right(merged, span.start, key=lambda block: block.start) - 1
    if merged[place] == span:
        return blocks[place]
    inner = span.shift(-merged[place].start)
    return memoryview(blocks[place])[inner.start : inner.end]


def _plain_url(url: str) -> str:
    """Return the normalized root; raises `InvalidRequestError` for an invalid one."""
    refuse_user_info(url)
    protocol, separator, place = url.partition("://")
    protocol = {"s3a": "s3"}.get(protocol.lower(), protocol.lower())
    if "::" in url:
        raise InvalidRequestError(f"{url} chains file systems.", why="A cache in the chain could return old listings.")
    if protocol in ("http", "https") and "?" in place:
        raise InvalidRequestError(f"{url.partition('?')[0]}?... has a query.", why="A folder has no query.")
    if not separator or not place.strip("/") or (protocol == "s3" and place.startswith("/")):
        raise InvalidRequestError(f"{url} has no location.", todo=f"Use {protocol}://bucket/path.")
    check_bucket(protocol, place)
    return f"{protocol}://{place.rstrip('/')}"


def _reopened(url: str, options: BackendOptions, policy: RetryPolicy) -> RemoteStore:
    return RemoteStore(url, options, policy=policy)
