"""Proof that a server honors the conditions of writes, on an object made for it.

A server without support ignores the headers If-None-Match and If-Match, and concurrent commits would silently overwrite
each other. So no object of a table is written on a condition before the server has refused one that does not hold.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Hashable
from contextlib import suppress
from threading import Lock
from typing import Final

from slatespark.errors import InvalidRequestError
from slatespark.fork_lock import fork_lock
from slatespark.storage.retry import AttemptOutcome, classify_error

CONTENT: Final = b"Shows whether this server honors conditional writes."

# `vacuum` deletes marks of ended jobs, and so what a killed process leaves here.
_FOLDER: Final = "slatespark/leases"

_PROVEN: set[tuple[Hashable, str]] = set()  # by this process
_PROVING: Final[dict[Hashable, Lock]] = {}  # for each server: a silent one keeps no other waiting
_ATTEMPTS: Final = 2  # versitygw may lose an object that is created while the last one of its folder is deleted


def prove_once(
    server: Hashable,
    condition: str,
    url: str,
    *,
    create: Callable[[str], None],
    break_condition: Callable[[str], None],
    delete: Callable[[str], None],
) -> None:
    """Verify, once per process and server, that a write is refused whose condition does not hold.

    Costs three requests.

    Parameters
    ----------
    server : identifies process, server and bucket
    condition : its kind
    url : URL of the bucket
    create : function that creates the object at a path with `CONTENT` unless it exists
    break_condition : function that writes it on a condition that does not hold
    delete : function that deletes it

    Raises
    ------
    InvalidRequestError
        When the server ignored the condition.
    Exception
        Of the driver, when the server did not answer, or refused for another reason.
    """
    if (server, condition) in _PROVEN:
        return
    with _PROVING.setdefault(server, fork_lock()):
        is_proven = (server, condition) in _PROVEN
        if is_proven or any(_is_refused(create, break_condition, delete) for _ in range(_ATTEMPTS)):
            _PROVEN.add((server, condition))
            return
    raise InvalidRequestError(
        f"Tables in {url} are read-only.",
        why="The server ignores If-None-Match or If-Match, so concurrent writers could overwrite each other.",
        todo="Use a server version that supports conditional writes.",
    )


def _is_refused(
    create: Callable[[str], None], break_condition: Callable[[str], None], delete: Callable[[str], None]
) -> bool:
    path = f"{_FOLDER}/{secrets.token_hex(8)}-conditional-write"
    try:
        create(path)
    except Exception as exc:
        if classify_error(exc) is not AttemptOutcome.EXISTS:  # the driver repeated a request whose answer was lost
            raise
    try:
        break_condition(path)
    except Exception as exc:
        if classify_error(exc) is not AttemptOutcome.EXISTS:
            raise
        return True
    finally:
        with suppress(Exception):  # an object that stays behind does no harm
            delete(path)
    return False
