"""Classification of failed requests, retries, and the resulting errors."""

from __future__ import annotations

import errno
import logging
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from slatespark.errors import InternalError, InvalidRequestError, SlateError, TableNotFoundError, UnavailableError
from slatespark.log_lines import log_event
from slatespark.storage.addressing import no_such_object, object_exists
from slatespark.storage.credentials import BackendOptions
from slatespark.storage.object_store import Buffer

T = TypeVar("T")

_log = logging.getLogger(__name__)


class AttemptOutcome(Enum):
    """Classified result of a request."""

    MISSING = "the object does not exist"
    NO_BUCKET = "the bucket does not exist"
    EXISTS = "the object already exists"
    PAST_END = "the object ends before the range"
    DENIED = "credentials are missing or insufficient"
    ELSEWHERE = "the bucket is in another region, or at another endpoint"
    NO_TLS = "no trusted connection can be made"
    TRANSIENT = "a retry may succeed"
    IS_FOLDER = "a folder has the name of the object, or its folder was just being deleted"
    REFUSED = "a retry will fail, too"


_RETRIED = (AttemptOutcome.TRANSIENT, AttemptOutcome.PAST_END, AttemptOutcome.IS_FOLDER)

_BY_STATUS = {
    301: AttemptOutcome.ELSEWHERE,
    401: AttemptOutcome.DENIED,
    403: AttemptOutcome.DENIED,
    404: AttemptOutcome.MISSING,
    408: AttemptOutcome.TRANSIENT,
    409: AttemptOutcome.REFUSED,  # see the codes below for what passes
    412: AttemptOutcome.EXISTS,
    416: AttemptOutcome.PAST_END,
    425: AttemptOutcome.TRANSIENT,
    429: AttemptOutcome.TRANSIENT,
    501: AttemptOutcome.REFUSED,
}

# Error codes of S3 and Azure that are more specific than their HTTP status, or have the status 200 or 400.
_BY_CODE = {
    "BlobAlreadyExists": AttemptOutcome.EXISTS,
    "ConditionNotMet": AttemptOutcome.EXISTS,
    "ContainerBeingDeleted": AttemptOutcome.TRANSIENT,
    "ContainerNotFound": AttemptOutcome.NO_BUCKET,
    "AuthorizationHeaderMalformed": AttemptOutcome.ELSEWHERE,  # signed for another region
    "IllegalLocationConstraintException": AttemptOutcome.ELSEWHERE,
    "PermanentRedirect": AttemptOutcome.ELSEWHERE,
    "ConditionalRequestConflict": AttemptOutcome.TRANSIENT,  # another conditional write of the object is being made
    "ExistingObjectIsDirectory": AttemptOutcome.IS_FOLDER,  # versitygw, which stores objects as files
    "OperationAborted": AttemptOutcome.TRANSIENT,
    "AccessDenied": AttemptOutcome.DENIED,
    "NoSuchBucket": AttemptOutcome.NO_BUCKET,
    "NoSuchUpload": AttemptOutcome.TRANSIENT,  # completed by a request whose response was lost: upload again
    "ExpiredToken": AttemptOutcome.DENIED,
    "InvalidToken": AttemptOutcome.DENIED,
    "InvalidAccessKeyId": AttemptOutcome.DENIED,
    "SignatureDoesNotMatch": AttemptOutcome.DENIED,
    "XAdminUserNotFound": AttemptOutcome.DENIED,  # versitygw, with the status 404: it does not know the access key
    "PreconditionFailed": AttemptOutcome.EXISTS,
    "InvalidRange": AttemptOutcome.PAST_END,
    "BadDigest": AttemptOutcome.TRANSIENT,
    "IncompleteBody": AttemptOutcome.TRANSIENT,
    "InternalError": AttemptOutcome.TRANSIENT,
    "RequestLimitExceeded": AttemptOutcome.TRANSIENT,
    "RequestTimeout": AttemptOutcome.TRANSIENT,
    "ServiceUnavailable": AttemptOutcome.TRANSIENT,
    "SlowDown": AttemptOutcome.TRANSIENT,
    "Throttling": AttemptOutcome.TRANSIENT,
    "ThrottlingException": AttemptOutcome.TRANSIENT,
    "XAmzContentSHA256Mismatch": AttemptOutcome.TRANSIENT,
}

# Exception classes by name, of libraries that this module must not import: botocore, aiohttp, urllib3, requests, azure,
# google.
_BY_NAME = {
    "ClientConnectionError": AttemptOutcome.TRANSIENT,
    "ClientPayloadError": AttemptOutcome.TRANSIENT,
    "ConnectionError": AttemptOutcome.TRANSIENT,  # botocore and requests have their own classes
    "CredentialRetrievalError": AttemptOutcome.TRANSIENT,
    "HTTPClientError": AttemptOutcome.TRANSIENT,
    "IncompleteRead": AttemptOutcome.TRANSIENT,
    "ProtocolError": AttemptOutcome.TRANSIENT,
    "ResponseParserError": AttemptOutcome.TRANSIENT,
    "ResponseStreamingError": AttemptOutcome.TRANSIENT,
    "ServiceRequestError": AttemptOutcome.TRANSIENT,
    "ServiceResponseError": AttemptOutcome.TRANSIENT,
    "TransportError": AttemptOutcome.TRANSIENT,
    "AlreadyExistsError": AttemptOutcome.EXISTS,
    "PreconditionError": AttemptOutcome.EXISTS,
    "PermissionDeniedError": AttemptOutcome.DENIED,
    "UnauthenticatedError": AttemptOutcome.DENIED,
    "ClientAuthenticationError": AttemptOutcome.DENIED,
    "DefaultCredentialsError": AttemptOutcome.DENIED,
    "NoAuthTokenError": AttemptOutcome.DENIED,
    "NoCredentialsError": AttemptOutcome.DENIED,
    "PartialCredentialsError": AttemptOutcome.DENIED,
    "ProfileNotFound": AttemptOutcome.DENIED,
    "RefreshError": AttemptOutcome.DENIED,
    "SSOError": AttemptOutcome.DENIED,
    "TokenRetrievalError": AttemptOutcome.DENIED,
}

# As obstore quotes an answer.
_CODE_IN_TEXT = re.compile(r"<Code>(\w+)</Code>")
_STATUS_IN_TEXT = re.compile(r"non-2xx status code: (\d{3})")
# The body of an error, to its end: after the message come ids, and everything that was signed.
_XML_BODY = re.compile(
    r"(<\?xml[^>]*>\s*)?<Error>.*?<Code>(?P<code>[^<]*)</Code>\s*<Message>(?P<message>[^<]*)</Message>.*", re.DOTALL
)
_TLS_TEXTS = ("InvalidContentType", "InvalidCertificate", "UnknownIssuer")
_ANSWER_TEXTS = ("HTTP error", "Got invalid list response")  # no answer; one that was changed on its way
_RANGE_TEXTS = ("Wanted range starting at", "value for CONTENT_RANGE header")  # the second of an empty object

# Reasons of OpenSSL that no retry changes: the server speaks plain HTTP, or its certificate is not trusted.
_TLS_REASONS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "CERTIFICATE_VERIFY_FAILED", "UNSUPPORTED_PROTOCOL")


def _error_numbers(*names: str) -> frozenset[int]:
    """Return the numbers of errors by name, without those that this operating system lacks."""
    return frozenset(getattr(errno, name) for name in names if hasattr(errno, name))


_TRANSIENT_ERRNOS = _error_numbers(
    "EAGAIN",
    "EBUSY",
    "EIO",
    "ENETDOWN",
    "ENETUNREACH",
    "EHOSTDOWN",
    "EHOSTUNREACH",
    "EREMOTEIO",
    "ETIMEDOUT",
)
_REDIRECT_ERRNOS = _error_numbers("EREMCHG")  # of s3fs


def classify_error(error: BaseException) -> AttemptOutcome:
    """Classify an error raised by a driver.

    Drivers wrap the server's response in their own exceptions, with the original as the cause. Error codes take
    precedence, because s3fs converts NoSuchBucket and NoSuchUpload to plain `FileNotFoundError`. Error numbers come
    last, because s3fs uses EIO for every unknown error.
    """
    links: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in links:
        links.append(link)
        link = link.__cause__  # not __context__, which may be an error that the caller was handling
    verdicts = (
        rule(link) for rule in (_by_code, _by_tls, _by_text, _by_class, _by_status, _by_errno) for link in links
    )
    return next((verdict for verdict in verdicts if verdict is not None), AttemptOutcome.REFUSED)


def _by_code(error: BaseException) -> AttemptOutcome | None:
    response = getattr(error, "response", None)
    details = response.get("Error") if isinstance(response, dict) else None
    if isinstance(details, dict):
        return _BY_CODE.get(str(details.get("Code")))
    in_text = _CODE_IN_TEXT.search(str(error))
    return None if in_text is None else _BY_CODE.get(in_text[1])


def _by_text(error: BaseException) -> AttemptOutcome | None:
    """Classify an error of obstore, which has what happened in its text alone."""
    if type(error).__module__.partition(".")[0] != "obstore":
        return None
    text = str(error)
    if any(reason in text for reason in _TLS_TEXTS):
        return AttemptOutcome.NO_TLS
    if any(reason in text for reason in _RANGE_TEXTS):
        return AttemptOutcome.PAST_END
    if "Received redirect" in text:
        return AttemptOutcome.ELSEWHERE
    return AttemptOutcome.TRANSIENT if any(reason in text for reason in _ANSWER_TEXTS) else None


def _by_tls(error: BaseException) -> AttemptOutcome | None:
    is_tls = any("SSL" in kind.__name__ or "Certificate" in kind.__name__ for kind in type(error).__mro__)
    return AttemptOutcome.NO_TLS if is_tls and any(reason in str(error) for reason in _TLS_REASONS) else None


def _by_class(error: BaseException) -> AttemptOutcome | None:
    # botocore follows a redirect that names no region to itself, until Python stops it.
    wrapped = getattr(error, "kwargs", None)
    if isinstance(error, RecursionError) or (isinstance(wrapped, dict) and "recursion" in str(wrapped.get("error"))):
        return AttemptOutcome.ELSEWHERE
    if isinstance(error, FileExistsError):
        return AttemptOutcome.EXISTS
    if isinstance(error, FileNotFoundError | NotADirectoryError | IsADirectoryError):
        return AttemptOutcome.MISSING
    if isinstance(error, PermissionError):
        return AttemptOutcome.DENIED
    if isinstance(error, TimeoutError | ConnectionError | EOFError):
        return AttemptOutcome.TRANSIENT
    return next((_BY_NAME[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in _BY_NAME), None)


def _by_status(error: BaseException) -> AttemptOutcome | None:
    response = getattr(error, "response", None)
    meta = response.get("ResponseMetadata") if isinstance(response, dict) else None
    status = meta.get("HTTPStatusCode") if isinstance(meta, dict) else None
    for name in ("status_code", "status", "code"):
        status = status if isinstance(status, int) else getattr(error, name, None)
    in_text = _STATUS_IN_TEXT.search(str(error))
    status = int(in_text[1]) if in_text is not None else status
    if isinstance(status, int) and status >= 300:
        return _BY_STATUS.get(status, AttemptOutcome.TRANSIENT if status >= 500 else AttemptOutcome.REFUSED)
    return None


def _by_errno(error: BaseException) -> AttemptOutcome | None:
    if not isinstance(error, OSError):
        return None
    if error.errno in _REDIRECT_ERRNOS:
        return AttemptOutcome.ELSEWHERE
    return AttemptOutcome.TRANSIENT if error.errno in _TRANSIENT_ERRNOS else None


def _clock_jitter() -> float:
    # Good enough to desynchronize processes that failed at the same time.
    return time.monotonic_ns() % 1_000_003 / 1_000_003


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Number of attempts and the waits between them.

    Parameters
    ----------
    attempts : number of attempts in total, at least 1
    first_wait_s, longest_wait_s : the wait doubles from the first to the longest; each is shortened randomly by up to
        half
    sleep : function that waits for a number of seconds
    jitter : random number in [0, 1)
    """

    attempts: int = 7
    first_wait_s: float = 0.1
    longest_wait_s: float = 5.0
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = _clock_jitter

    def waits_s(self) -> Iterator[float]:
        """Yield the wait before each retry."""
        for retry in range(self.attempts - 1):
            longest = min(self.first_wait_s * 2**retry, self.longest_wait_s)
            yield longest * (1 - self.jitter() / 2)


def call_with_retries(
    request: Callable[[], T], what: str, location: str, *, policy: RetryPolicy, options: BackendOptions
) -> T:
    """Return the result of `request`; retries transient failures.

    Parameters
    ----------
    request : a call that is safe to repeat
    what, location : a verb and the full URL of the object, for error messages
    options : options whose secrets are masked in error messages

    Raises
    ------
    FileNotFoundError, FileExistsError, InvalidRequestError, TableNotFoundError, UnavailableError : see
        `AttemptOutcome`; other `SlateError`s are not changed
    """
    waits_s = policy.waits_s()
    while True:
        log_event(_log, "request", location, level=logging.DEBUG, what=what)
        try:
            return request()
        except SlateError:
            raise
        except BaseException as exc:
            if not isinstance(exc, Exception) and not _is_panic(exc):
                raise
            outcome = classify_error(exc)
            wait_s = next(waits_s, None) if outcome in _RETRIED else None
            if wait_s is None:
                error = _final_error(exc, outcome, what, location, options)
                if options.shows_secret(exc):
                    raise error from None
                raise error from exc
            log_event(_log, "retry", location, what=what, wait_ms=int(wait_s * 1000), error=type(exc).__name__)
        policy.sleep(wait_s)


def create_once(create: Callable[[], None], read: Callable[[], Buffer], data: bytes) -> None:
    """Create an object with `create`; distinguishes a conflict from a success whose response was lost.

    Lower layers may have retried the request. So after `FileExistsError`, or without a response, the object is read
    back: equal content means success. Empty content has no unique author, so the error of `create` stands.

    Raises
    ------
    UnavailableError
        Also when the object exists and cannot be read: a caller who took its own object for that of another
        would do its work twice.
    """
    try:
        create()
    except (FileExistsError, UnavailableError) as exc:
        if not data or not _content_equals(read, data, exc):
            raise


def _content_equals(read: Callable[[], Buffer], data: bytes, error: FileExistsError | UnavailableError) -> bool:
    try:
        return read() == data
    except FileNotFoundError:
        return False
    except SlateError as exc:
        if isinstance(error, UnavailableError):
            return False
        raise UnavailableError(
            f"{error} Whether this process created it is not known.",
            why="The answer may have been lost, and the object cannot be read.",
            todo="Retry later.",
        ) from exc


def _is_panic(error: BaseException) -> bool:
    """Tell whether an error is how a library in Rust reports what it was not written for: it is no `Exception`."""
    return (type(error).__module__, type(error).__name__) == ("pyo3_runtime", "PanicException")


def _driver_text(exc: BaseException) -> str:
    said = str(exc).partition("Debug source:")[0]  # obstore adds its data structures
    said = _XML_BODY.sub(r"\g<code>: \g<message>", said)
    return " ".join(said.split())[:500]


def _final_error(
    exc: BaseException, outcome: AttemptOutcome, what: str, location: str, options: BackendOptions
) -> Exception:
    why = options.mask(f"The driver reports: {type(exc).__name__}: {_driver_text(exc)}")
    cannot = f"Cannot {what} {location}."
    match outcome:
        case AttemptOutcome.MISSING if what == "list":  # an empty folder has no objects, so this is not about one
            todo = "Check the URL, storage.endpoint_url, and the credentials."
            return InvalidRequestError(cannot, why=why, todo=todo)
        case AttemptOutcome.MISSING if what not in ("create", "write"):
            return no_such_object(location)
        case AttemptOutcome.EXISTS if what in ("create", "replace"):
            return object_exists(location)
        case AttemptOutcome.MISSING | AttemptOutcome.NO_BUCKET:
            todo = "Create the bucket or correct the URL."
            return TableNotFoundError(f"{cannot} The bucket does not exist.", todo=todo)
        case AttemptOutcome.DENIED:
            todo = "Check the credentials (storage.* options or environment) and their permissions, including list."
            return InvalidRequestError(cannot, why=why, todo=todo)
        case AttemptOutcome.ELSEWHERE:
            why = f"The server redirects to another region or endpoint. {why}"
            todo = "Set storage.region to the region of the bucket, and storage.endpoint_url to its server if need be."
            return InvalidRequestError(cannot, why=why, todo=todo)
        case AttemptOutcome.NO_TLS:
            todo = "Check storage.endpoint_url (https or http?) and storage.verify."
            return InvalidRequestError(cannot, why=why, todo=todo)
        case AttemptOutcome.TRANSIENT | AttemptOutcome.PAST_END:
            return UnavailableError(cannot, why=why, todo="Retry later.")
        case _:
            return _refusal(exc, cannot, why)


def _refusal(exc: BaseException, cannot: str, why: str) -> SlateError:
    """Return the error for what no retry mends and nothing else explains."""
    if _is_panic(exc):
        todo = "Check the URL, and storage.* options or environment, for characters that do not belong there."
        return InvalidRequestError(cannot, why=why, todo=todo)
    if isinstance(exc, TypeError | AttributeError | NameError | AssertionError):
        return InternalError(cannot, why=why, todo="Report it.")
    return InvalidRequestError(cannot, why=why)
