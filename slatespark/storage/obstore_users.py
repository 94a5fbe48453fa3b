"""Which process uses obstore: its threads do not survive a fork, so a forked child would hang."""

from __future__ import annotations

import os

_USERS: list[int] = []  # the first process; a forked child inherits the entry


def mark_user() -> None:
    """Note that this process uses obstore."""
    if not _USERS:
        _USERS.append(os.getpid())


def is_forked_user() -> bool:
    """Tell whether this process was forked from one that has used obstore."""
    return bool(_USERS) and os.getpid() not in _USERS
