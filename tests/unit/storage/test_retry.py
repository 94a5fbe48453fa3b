from __future__ import annotations

import errno
import importlib
import pickle
import ssl
from collections.abc import Callable

import pytest
from s3fs.errors import translate_boto_error

from slatespark.errors import (
    CorruptDataError,
    InternalError,
    InvalidRequestError,
    SlateError,
    TableNotFoundError,
    UnavailableError,
)
from slatespark.storage.credentials import BackendOptions
from slatespark.storage.object_store import Buffer
from slatespark.storage.retry import AttemptOutcome, RetryPolicy, call_with_retries, classify_error, create_once

botocore = importlib.import_module("botocore.exceptions")  # it has no types


class Sleeper:
    def __init__(self) -> None:
        self.waits_s: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.waits_s.append(seconds)


def answer(code: str, status: int) -> Exception:
    response = {"Error": {"Code": code, "Message": "m"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    error: Exception = botocore.ClientError(response, "Operation")
    return error


class HttpError(Exception):
    """An error as of gcsfs (`code`) and azure (`status_code`)."""

    def __init__(self, **status: int) -> None:
        super().__init__(status)
        vars(self).update(status)


@pytest.mark.parametrize(
    ("code", "status", "outcome"),
    [
        ("NoSuchKey", 404, AttemptOutcome.MISSING),
        ("404", 404, AttemptOutcome.MISSING),
        ("NoSuchBucket", 404, AttemptOutcome.NO_BUCKET),
        ("NoSuchUpload", 404, AttemptOutcome.TRANSIENT),
        ("AccessDenied", 403, AttemptOutcome.DENIED),
        ("403", 403, AttemptOutcome.DENIED),
        ("SignatureDoesNotMatch", 403, AttemptOutcome.DENIED),
        ("XAdminUserNotFound", 404, AttemptOutcome.DENIED),
        ("ExpiredToken", 400, AttemptOutcome.DENIED),
        ("PreconditionFailed", 412, AttemptOutcome.EXISTS),
        ("412", 412, AttemptOutcome.EXISTS),
        ("ConditionalRequestConflict", 409, AttemptOutcome.TRANSIENT),
        ("OperationAborted", 409, AttemptOutcome.TRANSIENT),
        ("ExistingObjectIsDirectory", 409, AttemptOutcome.IS_FOLDER),
        ("PermanentRedirect", 301, AttemptOutcome.ELSEWHERE),
        ("AuthorizationHeaderMalformed", 400, AttemptOutcome.ELSEWHERE),
        ("InvalidRange", 416, AttemptOutcome.PAST_END),
        ("SlowDown", 503, AttemptOutcome.TRANSIENT),
        ("InternalError", 500, AttemptOutcome.TRANSIENT),
        ("InternalError", 200, AttemptOutcome.TRANSIENT),
        ("502", 502, AttemptOutcome.TRANSIENT),
        ("RequestTimeout", 400, AttemptOutcome.TRANSIENT),
        ("TooManyRequests", 429, AttemptOutcome.TRANSIENT),
        ("NotImplemented", 501, AttemptOutcome.REFUSED),
        ("InvalidArgument", 400, AttemptOutcome.REFUSED),
        ("SomethingNew", 400, AttemptOutcome.REFUSED),
    ],
)
def test_error_codes_of_s3(code: str, status: int, outcome: AttemptOutcome) -> None:
    error = answer(code, status)
    assert classify_error(error) is outcome
    assert classify_error(translate_boto_error(error)) is outcome


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (botocore.EndpointConnectionError(endpoint_url="http://x"), AttemptOutcome.TRANSIENT),
        (botocore.ConnectTimeoutError(endpoint_url="http://x"), AttemptOutcome.TRANSIENT),
        (botocore.ReadTimeoutError(endpoint_url="http://x"), AttemptOutcome.TRANSIENT),
        (botocore.SSLError(endpoint_url="https://x", error="[SSL: WRONG_VERSION_NUMBER]"), AttemptOutcome.NO_TLS),
        (ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] self-signed"), AttemptOutcome.NO_TLS),
        (botocore.SSLError(endpoint_url="https://x", error="EOF occurred"), AttemptOutcome.TRANSIENT),
        (botocore.HTTPClientError(error=RecursionError("maximum recursion depth")), AttemptOutcome.ELSEWHERE),
        (RecursionError(), AttemptOutcome.ELSEWHERE),
        (ConnectionResetError(), AttemptOutcome.TRANSIENT),
        (TimeoutError(), AttemptOutcome.TRANSIENT),
        (OSError(errno.EHOSTUNREACH, "no route"), AttemptOutcome.TRANSIENT),
        (botocore.NoCredentialsError(), AttemptOutcome.DENIED),
        (PermissionError(), AttemptOutcome.DENIED),
        (FileExistsError(), AttemptOutcome.EXISTS),
        (IsADirectoryError(), AttemptOutcome.MISSING),
        (HttpError(code=412), AttemptOutcome.EXISTS),
        (HttpError(code=503), AttemptOutcome.TRANSIENT),
        (HttpError(status_code=404), AttemptOutcome.MISSING),
        (HttpError(status=429), AttemptOutcome.TRANSIENT),
        (OSError(errno.ENOSPC, "full"), AttemptOutcome.REFUSED),
        (ValueError("bad"), AttemptOutcome.REFUSED),
    ],
)
def test_other_failures(error: Exception, outcome: AttemptOutcome) -> None:
    assert classify_error(error) is outcome


def test_the_context_of_an_error_is_ignored() -> None:
    error = ValueError("bad")
    error.__context__ = FileNotFoundError()
    assert classify_error(error) is AttemptOutcome.REFUSED


def run(request: Callable[[], int], what: str = "read", *, sleeper: Sleeper | None = None, **options: str) -> int:
    policy = RetryPolicy(sleep=sleeper or Sleeper(), jitter=lambda: 0.0)
    return call_with_retries(request, what, "s3://b/some/object", policy=policy, options=BackendOptions(options))


def failing(*errors: BaseException) -> Callable[[], int]:
    rest = list(errors)

    def request() -> int:
        if rest:
            raise rest.pop(0)
        return 7

    return request


def test_transient_failures_are_retried_with_growing_waits() -> None:
    sleeper = Sleeper()
    assert run(failing(TimeoutError(), answer("SlowDown", 503), ConnectionResetError()), sleeper=sleeper) == 7
    assert sleeper.waits_s == [0.1, 0.2, 0.4]


def test_waits_are_bounded_and_random() -> None:
    assert list(RetryPolicy(attempts=9, jitter=lambda: 0.0).waits_s()) == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert list(RetryPolicy(attempts=3, jitter=lambda: 0.5).waits_s()) == pytest.approx([0.075, 0.15])
    assert list(RetryPolicy(attempts=1).waits_s()) == []
    assert all(0.05 < wait <= 0.1 for _ in range(100) for wait in RetryPolicy(attempts=2).waits_s())
    assert pickle.loads(pickle.dumps(RetryPolicy())) == RetryPolicy()


def test_retries_are_limited() -> None:
    sleeper = Sleeper()
    with pytest.raises(UnavailableError, match="TimeoutError") as caught:
        run(failing(*[TimeoutError("gone")] * 7), sleeper=sleeper)
    assert len(sleeper.waits_s) == 6
    assert isinstance(caught.value.__cause__, TimeoutError)


@pytest.mark.parametrize(
    ("error", "what", "expected", "text"),
    [
        (answer("NoSuchKey", 404), "read", FileNotFoundError, "s3://b/some/object"),
        (answer("NoSuchBucket", 404), "list", TableNotFoundError, "bucket"),
        (answer("SomethingNew", 404), "list", InvalidRequestError, "SomethingNew"),
        (translate_boto_error(answer("SomethingNew", 404)), "list", InvalidRequestError, "SomethingNew"),
        (FileNotFoundError(), "list", InvalidRequestError, "endpoint"),
        (answer("404", 404), "create", TableNotFoundError, "bucket"),
        (answer("PreconditionFailed", 412), "create", FileExistsError, "s3://b/some/object"),
        (answer("AccessDenied", 403), "write", InvalidRequestError, "credentials"),
        (botocore.NoCredentialsError(), "read", InvalidRequestError, "credentials"),
        (ValueError("Invalid endpoint: x"), "read", InvalidRequestError, "endpoint"),
        (AttributeError("x"), "read", InternalError, "AttributeError"),
        (CorruptDataError("as it is"), "read", CorruptDataError, "as it is"),
    ],
)
def test_permanent_failures_are_not_retried(error: Exception, what: str, expected: type[Exception], text: str) -> None:
    sleeper = Sleeper()
    with pytest.raises(expected, match=text):
        run(failing(error), what, sleeper=sleeper)
    assert sleeper.waits_s == []


def test_a_panic_is_an_error_of_the_request() -> None:
    panic = type("PanicException", (BaseException,), {"__module__": "pyo3_runtime"})
    sleeper = Sleeper()
    with pytest.raises(InvalidRequestError, match="InvalidUri") as caught:
        run(failing(panic("request valid: InvalidUri, s3cr3t-key")), sleeper=sleeper, secret="s3cr3t-key")
    assert sleeper.waits_s == []
    assert "s3cr3t" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_what_the_driver_says_ends_as_a_sentence() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        run(failing(botocore.NoCredentialsError()))
    assert "Unable to locate credentials. Check the credentials" in str(caught.value)


def test_of_a_server_s_answer_only_code_and_message_are_shown() -> None:
    body = (
        '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>SignatureDoesNotMatch</Code>'
        "<Message>The signature does not match.</Message><StringToSign>AWS4-HMAC-SHA256\n2026</StringToSign></Error>"
    )
    denied = OSError(
        f"Error performing GET http://host/b/x: Server returned non-2xx status code: 403 Forbidden: {body}"
    )
    with pytest.raises(InvalidRequestError) as caught:
        run(failing(denied))
    assert "Forbidden: SignatureDoesNotMatch: The signature does not match. Check" in str(caught.value)


def test_interruptions_are_not_retried() -> None:
    def interrupted() -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(interrupted)


def test_no_secret_in_the_chain_of_errors() -> None:
    leak = ValueError("tried with s3cr3t-key")
    leak.__cause__ = TimeoutError()
    with pytest.raises(SlateError) as caught:
        run(failing(*[leak] * 7), secret="s3cr3t-key")
    assert "s3cr3t" not in str(caught.value)
    assert "tried with ***" in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


class Place:
    """One object on a server that loses responses."""

    def __init__(self, content: bytes | None, *, lands: bool, answers: list[Exception | None]) -> None:
        self.content, self.lands, self.answers, self.reads = content, lands, answers, 0

    def create_of(self, data: bytes) -> Callable[[], None]:
        def create() -> None:
            failure = self.answers.pop(0)
            if self.lands and self.content is None:
                self.content = data
            if failure is not None:
                raise failure

        return create

    def read(self) -> Buffer:
        self.reads += 1
        if self.content is None:
            raise FileNotFoundError
        return self.content


@pytest.mark.parametrize("failure", [UnavailableError("lost"), FileExistsError()])
def test_own_content_is_a_success(failure: Exception) -> None:
    place = Place(None, lands=True, answers=[failure])
    create_once(place.create_of(b"mine"), place.read, b"mine")
    assert place.reads == 1


@pytest.mark.parametrize(
    ("content", "data", "failure"),
    [
        (b"theirs", b"mine", FileExistsError()),
        (b"theirs", b"mine", UnavailableError("lost")),
        (None, b"mine", UnavailableError("lost")),  # the request may still be in flight
        (None, b"mine", FileExistsError()),  # deleted meanwhile
        (b"", b"", FileExistsError()),  # of an unknown author
        (b"", b"", UnavailableError("lost")),
    ],
)
def test_otherwise_the_error_stands(content: bytes | None, data: bytes, failure: Exception) -> None:
    place = Place(content, lands=False, answers=[failure])
    with pytest.raises(type(failure)):
        create_once(place.create_of(data), place.read, data)


@pytest.mark.parametrize("failure", [UnavailableError("lost"), FileExistsError("it exists")])
def test_what_cannot_be_read_back_may_be_our_own(failure: Exception) -> None:
    def read() -> Buffer:
        raise UnavailableError("no answer")

    place = Place(None, lands=True, answers=[failure])
    with pytest.raises(UnavailableError):
        create_once(place.create_of(b"mine"), read, b"mine")
