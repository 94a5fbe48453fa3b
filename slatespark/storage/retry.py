"""Which requests may be repeated, how often, and what a failure means to the caller."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from slatespark.errors import InternalError, InvalidRequestError, SlateError, TableNotFoundError, UnavailableError
from slatespark.storage.addressing import no_such_object, object_exists
from slatespark.storage.credentials import BackendOptions
from slatespark.storage.object_store import Buffer

T = TypeVar("T")


class Outcome(Enum):
    """What the answer to a request says."""

    MISSING = "there is no such object"
    NO_BUCKET = "there is no such bucket"
    EXISTS = "there is such an object already"
    PAST_END = "the object ends before the range"
    DENIED = "credentials are missing or do not suffice"
    TRANSIENT = "it may work the next time"
    REFUSED = "it will not work the next time either"


_BY_STATUS = {
    401: Outcome.DENIED,
    403: Outcome.DENIED,
    404: Outcome.MISSING,
    408: Outcome.TRANSIENT,
    409: Outcome.TRANSIENT,  # S3 says so to one of two conditional writes at the same instant
    412: Outcome.EXISTS,
    416: Outcome.PAST_END,
    425: Outcome.TRANSIENT,
    429: Outcome.TRANSIENT,
    501: Outcome.REFUSED,
}

# S3 error codes that say more than the HTTP status they come with, or come with a status of 200 or 400.
_BY_CODE = {
    "NoSuchBucket": Outcome.NO_BUCKET,
    "NoSuchUpload": Outcome.TRANSIENT,  # completed by a request whose answer was lost: upload once more
    "ExpiredToken": Outcome.DENIED,
    "InvalidToken": Outcome.DENIED,
    "InvalidAccessKeyId": Outcome.DENIED,
    "SignatureDoesNotMatch": Outcome.DENIED,
    "PreconditionFailed": Outcome.EXISTS,
    "InvalidRange": Outcome.PAST_END,
    "BadDigest": Outcome.TRANSIENT,
    "IncompleteBody": Outcome.TRANSIENT,
    "InternalError": Outcome.TRANSIENT,
    "RequestLimitExceeded": Outcome.TRANSIENT,
    "RequestTimeout": Outcome.TRANSIENT,
    "ServiceUnavailable": Outcome.TRANSIENT,
    "SlowDown": Outcome.TRANSIENT,
    "Throttling": Outcome.TRANSIENT,
    "ThrottlingException": Outcome.TRANSIENT,
    "XAmzContentSHA256Mismatch": Outcome.TRANSIENT,
}

# Classes of libraries that this module must not import, by name: botocore, aiohttp, urllib3, requests, azure, google.
_BY_NAME = {
    "ClientConnectionError": Outcome.TRANSIENT,
    "ClientPayloadError": Outcome.TRANSIENT,
    "ConnectionError": Outcome.TRANSIENT,  # those of botocore and requests are not Python's own
    "CredentialRetrievalError": Outcome.TRANSIENT,
    "HTTPClientError": Outcome.TRANSIENT,
    "IncompleteRead": Outcome.TRANSIENT,
    "ProtocolError": Outcome.TRANSIENT,
    "ResponseParserError": Outcome.TRANSIENT,
    "ResponseStreamingError": Outcome.TRANSIENT,
    "ServiceRequestError": Outcome.TRANSIENT,
    "ServiceResponseError": Outcome.TRANSIENT,
    "TransportError": Outcome.TRANSIENT,
    "ClientAuthenticationError": Outcome.DENIED,
    "DefaultCredentialsError": Outcome.DENIED,
    "NoAuthTokenError": Outcome.DENIED,
    "NoCredentialsError": Outcome.DENIED,
    "PartialCredentialsError": Outcome.DENIED,
    "ProfileNotFound": Outcome.DENIED,
    "RefreshError": Outcome.DENIED,
    "TokenRetrievalError": Outcome.DENIED,
    "UnauthorizedSSOTokenError": Outcome.DENIED,
}

_PASSING_ERRORS = frozenset(
    {
        errno.EAGAIN,
        errno.EBUSY,
        errno.EIO,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.EREMOTEIO,
        errno.ETIMEDOUT,
    }
)


def judge(error: BaseException) -> Outcome:
    """Return what `error`, as a driver raised it, says about the request.

    Drivers wrap the server's answer in exceptions of their own, with the original as the cause. Error codes count
    first: s3fs turns NoSuchBucket and NoSuchUpload into plain `FileNotFoundError`. Error numbers count last: it gives
    EIO to whatever it does not know.
    """
    links: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in links:
        links.append(link)
        link = link.__cause__  # not __context__: that may be what the caller was handling when it called us
    verdicts = (rule(link) for rule in (_by_code, _by_class, _by_status, _by_errno) for link in links)
    return next((verdict for verdict in verdicts if verdict is not None), Outcome.REFUSED)


def _by_code(error: BaseException) -> Outcome | None:
    response = getattr(error, "response", None)
    details = response.get("Error") if isinstance(response, dict) else None
    return _BY_CODE.get(str(details.get("Code"))) if isinstance(details, dict) else None


def _by_class(error: BaseException) -> Outcome | None:
    if isinstance(error, FileExistsError):
        return Outcome.EXISTS
    if isinstance(error, FileNotFoundError | NotADirectoryError | IsADirectoryError):
        return Outcome.MISSING
    if isinstance(error, PermissionError):
        return Outcome.DENIED
    if isinstance(error, TimeoutError | ConnectionError | EOFError):
        return Outcome.TRANSIENT
    return next((_BY_NAME[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in _BY_NAME), None)


def _by_status(error: BaseException) -> Outcome | None:
    response = getattr(error, "response", None)
    meta = response.get("ResponseMetadata") if isinstance(response, dict) else None
    status = meta.get("HTTPStatusCode") if isinstance(meta, dict) else None
    for name in ("status_code", "status", "code"):
        status = status if isinstance(status, int) else getattr(error, name, None)
    if isinstance(status, int) and status >= 400:
        return _BY_STATUS.get(status, Outcome.TRANSIENT if status >= 500 else Outcome.REFUSED)
    return None


def _by_errno(error: BaseException) -> Outcome | None:
    return Outcome.TRANSIENT if isinstance(error, OSError) and error.errno in _PASSING_ERRORS else None


def _clock_jitter() -> float:
    # Enough to part processes that failed together; what matters is that no two of them keep in step.
    return time.monotonic_ns() % 1_000_003 / 1_000_003


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a request is repeated, and how long is waited in between.

    Parameters
    ----------
    attempts : in all, at least 1
    first_wait_s, longest_wait_s : the wait doubles from the one to the other; each is shortened by up to half by chance
    sleep : waits that many seconds
    jitter : the chance, in [0, 1)
    """

    attempts: int = 7
    first_wait_s: float = 0.1
    longest_wait_s: float = 5.0
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = _clock_jitter

    def waits_s(self) -> Iterator[float]:
        """Yield the wait before each repetition."""
        for repetition in range(self.attempts - 1):
            longest = min(self.first_wait_s * 2**repetition, self.longest_wait_s)
            yield longest * (1 - self.jitter() / 2)


def repeat(request: Callable[[], T], what: str, location: str, *, policy: RetryPolicy, options: BackendOptions) -> T:
    """Return the answer to `request`, repeating it as long as failures look passing.

    Parameters
    ----------
    request : may be repeated
    what, location : a verb and the full address of the object, for messages
    options : keeps secrets out of messages

    Raises
    ------
    FileNotFoundError, FileExistsError, InvalidRequestError, TableNotFoundError, UnavailableError : see `Outcome`;
        other errors of the project pass through.
    """
    waits_s = policy.waits_s()
    while True:
        try:
            return request()
        except SlateError:
            raise
        except Exception as exc:
            outcome = judge(exc)
            wait_s = next(waits_s, None) if outcome in (Outcome.TRANSIENT, Outcome.PAST_END) else None
            if wait_s is None:
                error = _explained(exc, outcome, what, location, options)
                if options.shows_secret(exc):
                    raise error from None
                raise error from exc
        policy.sleep(wait_s)


def create_once(create: Callable[[], None], read: Callable[[], Buffer], data: bytes) -> None:
    """Create an object by `create`, and tell a conflict from our own success whose answer was lost.

    Any layer below may have repeated the request, so after `FileExistsError`, and when the answer never came, the
    object is read back: our content is our success. Empty content has no author and stays what `create` said.
    """
    try:
        create()
    except (FileExistsError, UnavailableError):
        if not data or not _reads(read, data):
            raise


def _reads(read: Callable[[], Buffer], data: bytes) -> bool:
    try:
        return read() == data
    except (FileNotFoundError, SlateError):
        return False


def _explained(exc: Exception, outcome: Outcome, what: str, location: str, options: BackendOptions) -> Exception:
    why = options.mask(f"The driver says: {type(exc).__name__}: {' '.join(str(exc).split())[:500]}")
    cannot = f"Cannot {what} {location}."
    match outcome:
        case Outcome.MISSING if what not in ("create", "write"):
            return no_such_object(location)
        case Outcome.EXISTS:
            return object_exists(location)
        case Outcome.MISSING | Outcome.NO_BUCKET:
            todo = "Create the bucket, or correct the address."
            return TableNotFoundError(f"{cannot} The bucket does not exist.", todo=todo)
        case Outcome.DENIED:
            todo = "Check the credentials (storage.* options or environment) and what they allow, listing included."
            return InvalidRequestError(cannot, why=why, todo=todo)
        case Outcome.TRANSIENT | Outcome.PAST_END:
            return UnavailableError(cannot, why=why, todo="Retry later.")
        case Outcome.REFUSED:
            if isinstance(exc, TypeError | AttributeError | NameError | AssertionError):
                return InternalError(cannot, why=why, todo="Report it.")
            return InvalidRequestError(cannot, why=why)
