"""One request each to S3 and what speaks its protocol, through s3fs: no retries, errors as s3fs raises them."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from slatespark.errors import InvalidRequestError, OptionError
from slatespark.options.values import parse_flag
from slatespark.ranges import ByteRange
from slatespark.storage.credentials import BackendOptions
from slatespark.storage.fsspec_driver import CONCURRENCY, shared_file_system
from slatespark.storage.object_store import Buffer, ObjectMeta
from slatespark.storage.retry import Outcome, judge
from slatespark.units import datetime_to_ms

# Larger objects are sent in parts of this size, a few at a time: so much is copied on the way, never the whole object.
PART_BYTES = 16 << 20
PARTS_IN_FLIGHT = 4
MOST_PARTS = 10_000  # do not change: a limit of S3

DEFAULT_TIMEOUTS_S = {"connect_timeout": "10", "read_timeout": "30"}

# Below this rate an upload counts as stuck.
SLOWEST_BYTES_PER_S = 256 << 10

OPTIONS = {
    "addressing_style": "path, virtual or auto",
    "anon": "true: send no credentials",
    "connect_timeout": "seconds",
    "endpoint_url": "address of a server other than Amazon's",
    "key": "access key id",
    "kms_key_id": "key for server_side_encryption=aws:kms",
    "profile": "section of the AWS configuration file",
    "read_timeout": "seconds",
    "region": "region of the bucket",
    "requester_pays": "true: requests are paid by who sends them",
    "secret": "secret access key",
    "server_side_encryption": "AES256 or aws:kms",
    "token": "session token",
    "use_ssl": "false: plain HTTP",
    "verify": "false, or the path of a certificate bundle",
}

# Buckets of this process that were seen to refuse a second creation.
_CONFIRMED: set[tuple[int, str, str]] = set()
_CONFIRMED_MATCH: set[tuple[int, str, str]] = set()  # and those that were seen to heed If-Match

_NO_TAG = f'"{"0" * 32}"'  # of no object


class S3Driver:
    """Requests to one bucket.

    Parameters
    ----------
    url : `s3://bucket` or `s3://bucket/some/root`
    options : see `OPTIONS`
    """

    def __init__(self, url: str, options: BackendOptions) -> None:
        self._bucket, _, root = url.removeprefix("s3://").partition("/")
        self._prefix = f"{root}/" if root else ""
        self._timeout_s = 2 * (_seconds(options, "connect_timeout") + _seconds(options, "read_timeout"))
        self._fs = shared_file_system("s3", options, lambda: _open(options))

    def read(self, path: str) -> bytes:
        """Return a whole object."""
        # With a higher concurrency s3fs asks for the size first.
        return bytes(self._fs.cat_file(self._name(path), max_concurrency=1))

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
        """Return the objects directly in the folder and after `start_after`; the server skips what comes before."""
        folder = self._prefix + prefix
        start = {"StartAfter": self._prefix + start_after} if start_after > prefix else {}
        found: list[ObjectMeta] = []
        while True:
            page = self._fs.call_s3("list_objects_v2", Bucket=self._bucket, Prefix=folder, Delimiter="/", **start)
            for item in page.get("Contents", ()):
                if item["Key"] != folder:  # an empty object of that name is how some tools mark a folder
                    path = item["Key"].removeprefix(self._prefix)
                    found.append(ObjectMeta(path, item["Size"], datetime_to_ms(item["LastModified"])))
            if not page.get("IsTruncated"):
                return found
            start = {"ContinuationToken": page["NextContinuationToken"]}

    def create(self, path: str, data: bytes) -> None:
        """Create an object, on the condition that there is none."""
        self._upload(path, data, mode="create")
        self._confirm_condition(path, data)

    def replace(self, path: str, data: bytes, expected: bytes) -> None:
        """Put `data` in the place of `expected`, on the condition that it is still there."""
        # The tag is asked for first: should the object change in between, the tag does not fit any more.
        tag = self._fs.call_s3("head_object", Bucket=self._bucket, Key=self._prefix + path)["ETag"]
        if self.read(path) != expected:
            raise FileExistsError(path)
        self._confirm_match(path, expected)
        self._put_if_match(path, data, tag)

    def write(self, path: str, parts: Sequence[Buffer]) -> None:
        """Store the concatenation of `parts`."""
        joined = JoinedParts(parts)
        chunk_bytes = max(PART_BYTES, -(-len(joined) // MOST_PARTS))
        # s3fs sends less than two chunks in one request, for which it needs bytes, and else slices what it is given.
        data = joined if len(joined) >= 2 * chunk_bytes else joined[:]
        self._upload(path, data, chunksize=chunk_bytes, max_concurrency=PARTS_IN_FLIGHT)

    def copy(self, source: str, target: str) -> None:
        """Copy an object on the server."""
        self._fs.cp_file(self._name(source), self._name(target))

    def delete(self, path: str) -> None:
        """Delete an object."""
        self._fs.call_s3("delete_object", Bucket=self._bucket, Key=self._prefix + path)

    def _name(self, path: str) -> str:
        name = f"{self._bucket}/{self._prefix}{path}"
        if "?versionId=" in name:  # s3fs would cut it off and take another object
            raise InvalidRequestError(f"s3://{name} cannot be used.", why="Its name holds '?versionId='.")
        return name

    def _upload(self, path: str, data: bytes | JoinedParts, **arguments: Any) -> None:
        # The timeouts of the library do not count while it waits for "100 Continue", and a silent server would hold
        # us for ever.
        timeout_s = self._timeout_s + len(data) / SLOWEST_BYTES_PER_S
        self._fs.pipe_file(self._name(path), data, timeout=timeout_s, **arguments)

    def _put_if_match(self, path: str, data: bytes, tag: str) -> None:
        self._fs.call_s3("put_object", Bucket=self._bucket, Key=self._prefix + path, Body=data, IfMatch=tag)

    def _confirm_match(self, path: str, data: bytes) -> None:
        """Make sure, once per process and bucket, that the server heeds `If-Match`, as `_confirm_condition` does.

        What is there is put once more, on a condition that does not hold.
        """
        endpoint = str(self._fs.s3.meta.endpoint_url)
        bucket = (os.getpid(), endpoint, self._bucket)
        if ".amazonaws.com" in endpoint or bucket in _CONFIRMED_MATCH:
            return
        try:
            self._put_if_match(path, data, _NO_TAG)
        except Exception as exc:
            if judge(exc) is not Outcome.EXISTS:
                raise
            _CONFIRMED_MATCH.add(bucket)
            return
        raise InvalidRequestError(
            f"No object in s3://{self._bucket} can be replaced on a condition.", why="The server ignores If-Match."
        )

    def _confirm_condition(self, path: str, data: bytes) -> None:
        """Make sure, once per process and bucket, that the server heeds the condition.

        Servers that do not know `If-None-Match` ignore it, and commits would overwrite each other unnoticed. Creating
        the object again with the same content does no harm and shows it. Amazon itself needs no proof.
        """
        endpoint = str(self._fs.s3.meta.endpoint_url)
        bucket = (os.getpid(), endpoint, self._bucket)
        if ".amazonaws.com" in endpoint or bucket in _CONFIRMED:
            return
        try:
            self._upload(path, data, mode="create")
        except Exception as exc:
            if judge(exc) is Outcome.EXISTS:
                _CONFIRMED.add(bucket)
            # Any other failure says nothing about the condition; the object itself is there.
            return
        raise InvalidRequestError(
            f"No table can be written to s3://{self._bucket}.",
            why="The server ignores If-None-Match, by which one of two writers would be refused.",
            todo="Use a release of the server that supports conditional writes.",
        )


class JoinedParts:
    """Several buffers in the role of one: a slice of it is a copy, the whole never is one."""

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
    """Return the arguments of `s3fs.S3FileSystem` for the options, or raise `OptionError`.

    The variables `AWS_ENDPOINT` and `AWS_REGION`, which SlateDB's client reads, count besides those of Amazon's tools.
    Whatever is not given is found by botocore as usual: environment, configuration files, role.
    """
    for name in options:
        if name not in OPTIONS:
            near = difflib.get_close_matches(name, OPTIONS, n=1)
            todo = f"Did you mean storage.{near[0]}?" if near else f"There are: {', '.join(OPTIONS)}."
            raise OptionError(f"There is no option storage.{name} for S3.", todo=todo)
    arguments: dict[str, Any] = {
        name: options[name] for name in ("key", "secret", "token", "profile") if name in options
    }
    for name in ("anon", "requester_pays", "use_ssl"):
        if name in options:
            arguments[name] = parse_flag(options[name], f"storage.{name}")
    variables = (os.environ.get(name) for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"))
    endpoint = options.get("endpoint_url") or next(filter(None, variables), None)
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
    if verify := options.get("verify"):
        switch = verify.lower() in ("true", "false")
        arguments["verify"] = parse_flag(verify, "storage.verify") if switch else verify
    return arguments


def _config_arguments(options: Mapping[str, str], other_server: bool) -> dict[str, Any]:
    # A few repetitions of single requests below ours, so that one lost part does not send a large object anew.
    arguments: dict[str, Any] = {
        "retries": {"mode": "standard", "total_max_attempts": 3},
        "max_pool_connections": 2 * CONCURRENCY,
        "connect_timeout": _seconds(options, "connect_timeout"),
        "read_timeout": _seconds(options, "read_timeout"),
    }
    if other_server:  # many do not know the checksums that Amazon's library adds by itself
        arguments |= {"request_checksum_calculation": "when_required", "response_checksum_validation": "when_required"}
    if style := options.get("addressing_style"):
        if style not in ("path", "virtual", "auto"):
            raise OptionError(f"storage.addressing_style: {style!r} is unknown.", todo="Use path, virtual or auto.")
        arguments["s3"] = {"addressing_style": style}
    return arguments


def _seconds(options: Mapping[str, str], name: str) -> float:
    text = options.get(name, DEFAULT_TIMEOUTS_S[name])
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < 86_400:
        raise OptionError(f"storage.{name}: {text!r} is not acceptable.", todo="Give seconds above 0.")
    return seconds


def _open(options: BackendOptions) -> Any:
    try:
        import s3fs
    except ImportError as exc:
        raise InvalidRequestError("s3fs is not installed.", why=str(exc), todo="Install it with pip.") from exc
    fs = s3fs.S3FileSystem(skip_instance_cache=True, use_listings_cache=False, **s3_arguments(options))
    fs.retries = 1  # botocore and the store repeat; s3fs in between would only multiply both
    return fs
