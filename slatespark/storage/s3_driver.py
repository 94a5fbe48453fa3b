"""Single requests to S3 and compatible servers through s3fs: no retries, errors as raised by s3fs."""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from itertools import accumulate
from pathlib import Path
from typing import Any

from slatespark.errors import InvalidRequestError
from slatespark.options.values import parse_flag
from slatespark.ranges import ByteRange
from slatespark.storage.conditional_writes import CONTENT, prove_once
from slatespark.storage.credentials import BackendOptions
from slatespark.storage.fsspec_driver import CONCURRENCY, shared_file_system
from slatespark.storage.known_options import S3_OPTIONS, refuse_unknown_options
from slatespark.storage.object_store import Buffer, ObjectMeta, tag_of
from slatespark.storage.requests import PARTS_IN_FLIGHT, part_size
from slatespark.storage.retry import AttemptOutcome, classify_error
from slatespark.storage.server_options import (
    addressing_style,
    is_amazon,
    s3_endpoint,
    timeout_s,
    trusted_certificates,
)
from slatespark.units import datetime_to_ms

# An upload below this rate times out.
SLOWEST_BYTES_PER_S = 256 << 10

_NO_TAG = f'"{"0" * 32}"'  # matches no object


class S3Driver:
    """Requests to one bucket.

    Parameters
    ----------
    url : `s3://bucket` or `s3://bucket/some/root`
    options : options of `known_options.S3_OPTIONS`
    """

    def __init__(self, url: str, options: BackendOptions) -> None:
        self._bucket, _, root = url.removeprefix("s3://").partition("/")
        self._prefix = f"{root}/" if root else ""
        self._timeout_s = 2 * (timeout_s(options, "connect_timeout") + timeout_s(options, "read_timeout"))
        self._fs = shared_file_system("s3", options, lambda: _open(options))
        # With a higher concurrency, s3fs requests the size of a whole object first. Before 2026.3 it never did.
        knows = "max_concurrency" in signature(type(self._fs)._cat_file).parameters
        self._one_request = {"max_concurrency": 1} if knows else {}

    def read(self, path: str) -> bytes:
        """Return a whole object."""
        return bytes(self._fs.cat_file(self._name(path), **self._one_request))

    def read_span(self, path: str, span: ByteRange) -> bytes:
        """Return a range."""
        return bytes(self._fs.cat_file(self._name(path), start=span.start, end=span.end))

    def read_spans(self, path: str, spans: Sequence[ByteRange]) -> list[bytes | BaseException]:
        """Return several ranges."""
        names, starts, ends = [self._name(path)] * len(spans), [s.start for s in spans], [s.end for s in spans]
        return list(self._fs.cat_ranges(names, starts, ends, batch_size=CONCURRENCY, on_error="return"))

    def head(self, path: str) -> ObjectMeta:
        """Return size and modification time."""
        answer = self._fs.call_s3("head_object", Bucket=self._bucket, Key=self._prefix + path)
        return ObjectMeta(path, answer["ContentLength"], datetime_to_ms(answer["LastModified"]))

    def list(self, prefix: str, start_after: str) -> list[ObjectMeta]:
        """Return the objects directly in the folder and after `start_after`; filtered by the server."""
        return self._list(prefix, start_after, Delimiter="/")

    def list_below(self, prefix: str) -> Sequence[ObjectMeta]:
        """Return the objects in the folder and in all folders below it."""
        return [meta for meta in self._list(prefix) if not meta.path.endswith("/")]  # an empty object for a folder

    def _list(self, prefix: str, start_after: str = "", **delimiter: str) -> builtins.list[ObjectMeta]:
        folder = self._prefix + prefix
        start = {"StartAfter": self._prefix + start_after} if start_after > prefix else {}
        found: list[ObjectMeta] = []
        while True:
            page = self._fs.call_s3("list_objects_v2", Bucket=self._bucket, Prefix=folder, **delimiter, **start)
            for item in page.get("Contents", ()):
                if item["Key"] != folder:  # some tools create an empty object for a folder
                    path = item["Key"].removeprefix(self._prefix)
                    modified_ms, tag = datetime_to_ms(item["LastModified"]), tag_of(item.get("ETag"))
                    found.append(ObjectMeta(path, item["Size"], modified_ms, tag))
            if not page.get("IsTruncated"):
                return found
            start = {"ContinuationToken": page["NextContinuationToken"]}

    def create(self, path: str, data: bytes) -> None:
        """Create an object conditionally, with If-None-Match."""
        self._prove("If-None-Match", lambda proof: self._create(proof, CONTENT))
        self._create(path, data)

    def replace(self, path: str, data: bytes, expected: bytes) -> None:
        """Replace the content `expected` by `data` conditionally, with If-Match."""
        # Fetch the tag first: if the object changes before the put, the tag no longer matches.
        tag = self._fs.call_s3("head_object", Bucket=self._bucket, Key=self._prefix + path)["ETag"]
        if self.read(path) != expected:
            raise FileExistsError(path)
        self._prove("If-Match", lambda proof: self._put_if_match(proof, CONTENT, _NO_TAG))
        self._put_if_match(path, data, tag)

    def write(self, path: str, parts: Sequence[Buffer]) -> None:
        """Store the concatenation of `parts`."""
        joined = JoinedParts(parts)
        chunk_bytes = part_size(len(joined))
        # s3fs sends less than two chunks in one request, which needs bytes; otherwise it slices its argument.
        data = joined if len(joined) >= 2 * chunk_bytes else joined[:]
        self._upload(path, data, chunksize=chunk_bytes, max_concurrency=PARTS_IN_FLIGHT)

    def copy(self, source: str, target: str) -> None:
        """Copy an object on the server."""
        self._fs.cp_file(self._name(source), self._name(target))

    def delete(self, path: str) -> None:
        """Delete an object."""
        self._fs.call_s3("delete_object", Bucket=self._bucket, Key=self._prefix + path)

    def delete_many(self, paths: Sequence[str]) -> bool:
        """Delete objects with one request; return False if the server refuses that."""
        keys = [{"Key": self._prefix + path} for path in paths]
        try:
            answer = self._fs.call_s3("delete_objects", Bucket=self._bucket, Delete={"Objects": keys, "Quiet": True})
        except Exception as exc:
            if classify_error(exc) is not AttemptOutcome.REFUSED:
                raise
            return False
        if failures := answer.get("Errors"):
            raise _not_deleted(failures)
        return True

    def _name(self, path: str) -> str:
        name = f"{self._bucket}/{self._prefix}{path}"
        if "?versionId=" in name:  # s3fs would strip it and access another object
            raise InvalidRequestError(f"s3://{name} cannot be used.", why="The name contains '?versionId='.")
        return name

    def _upload(self, path: str, data: bytes | JoinedParts, **arguments: Any) -> None:
        # The library's timeouts do not apply while it waits for "100 Continue": a silent server would block forever.
        timeout_s = self._timeout_s + len(data) / SLOWEST_BYTES_PER_S
        self._fs.pipe_file(self._name(path), data, timeout=timeout_s, **arguments)

    def _put_if_match(self, path: str, data: bytes, tag: str) -> None:
        self._fs.call_s3("put_object", Bucket=self._bucket, Key=self._prefix + path, Body=data, IfMatch=tag)

    def _create(self, path: str, data: bytes) -> None:
        self._upload(path, data, mode="create")

    def _prove(self, condition: str, break_condition: Callable[[str], None]) -> None:
        """Verify that the server honors a condition; Amazon's servers need no proof."""
        endpoint = str(self._fs.s3.meta.endpoint_url)
        if not is_amazon(endpoint):
            prove_once(
                (os.getpid(), endpoint, self._bucket),
                condition,
                f"s3://{self._bucket}",
                create=lambda proof: self._create(proof, CONTENT),
                break_condition=break_condition,
                delete=self.delete,
            )


class JoinedParts:
    """A sequence of buffers that acts as one: slices are copied, the whole is not."""

    def __init__(self, parts: Sequence[Buffer]) -> None:
        self._parts = [memoryview(part).cast("B") for part in parts]
        self._ends = list(accumulate(map(len, self._parts)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, piece: slice) -> bytes:
        low, high, _ = piece.indices(len(self))
        chosen = []
        for part, end in zip(self._parts, self._ends, strict=True):
            start = end - len(part)
            if start < high and end > low:
                chosen.append(part[max(low - start, 0) : high - start])
        return b"".join(chosen)


def s3_arguments(options: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of `s3fs.S3FileSystem` for the options; raises `OptionError`.

    The environment variables `AWS_ENDPOINT` and `AWS_REGION` of SlateDB's client are supported besides those of
    Amazon's tools. botocore finds missing settings as usual: environment, configuration files, role.
    """
    refuse_unknown_options("s3", options, S3_OPTIONS)
    arguments: dict[str, Any] = {
        name: options[name] for name in ("key", "secret", "token", "profile") if name in options
    }
    for name in ("anon", "requester_pays", "use_ssl"):
        if name in options:
            arguments[name] = parse_flag(options[name], f"storage.{name}")
    endpoint = s3_endpoint(options)
    if endpoint:
        arguments["endpoint_url"] = endpoint
    arguments["client_kwargs"] = _client_arguments(options)
    arguments["config_kwargs"] = _config_arguments(options, bool(endpoint))
    encryption = {"ServerSideEncryption": "server_side_encryption", "SSEKMSKeyId": "kms_key_id"}
    arguments["s3_additional_kwargs"] = {key: options[name] for key, name in encryption.items() if name in options}
    return arguments


def _client_arguments(options: Mapping[str, str]) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    if region := options.get("region") or os.environ.get("AWS_REGION"):
        arguments["region_name"] = region
    trusted = trusted_certificates(options, "AWS_CA_BUNDLE")
    if trusted is not None:
        arguments["verify"] = str(trusted) if isinstance(trusted, Path) else trusted
    return arguments


def _config_arguments(options: Mapping[str, str], other_server: bool) -> dict[str, Any]:
    # botocore retries single requests a few times, so one lost part does not restart a large upload.
    arguments: dict[str, Any] = {
        "retries": {"mode": "standard", "total_max_attempts": 3},
        "max_pool_connections": 2 * CONCURRENCY,
        "connect_timeout": timeout_s(options, "connect_timeout"),
        "read_timeout": timeout_s(options, "read_timeout"),
    }
    if other_server:  # many do not support the checksums that Amazon's library adds by default
        arguments |= {"request_checksum_calculation": "when_required", "response_checksum_validation": "when_required"}
    if style := addressing_style(options):
        arguments["s3"] = {"addressing_style": style}
    return arguments


def _not_deleted(failures: Sequence[Mapping[str, str]]) -> Exception:
    """Return the error of objects that one request for many did not delete, as the library has it for one."""
    from botocore.exceptions import ClientError

    first = failures[0]
    text = f"{first.get('Key')}: {first.get('Message')} ({len(failures)} objects were not deleted)"
    error: Exception = ClientError({"Error": {"Code": first.get("Code", ""), "Message": text}}, "DeleteObjects")
    return error


def _open(options: BackendOptions) -> Any:
    try:
        import s3fs
    except ImportError as exc:
        raise InvalidRequestError("s3fs is not installed.", why=str(exc), todo="Install it with pip.") from exc
    fs = s3fs.S3FileSystem(skip_instance_cache=True, use_listings_cache=False, **s3_arguments(options))
    fs.retries = 1  # botocore and the store retry; retries of s3fs would multiply them
    return fs
