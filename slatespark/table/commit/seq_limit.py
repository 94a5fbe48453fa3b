"""The end of the sequence numbers: a SlateDB client takes any number for a write, also the last one."""

from __future__ import annotations

from typing import Final

from slatespark.errors import InvalidRequestError

LAST_SEQ: Final = 2**64 - 1


def check_seq(seq: int) -> None:
    """Refuse a sequence number that there is not; raises `InvalidRequestError`."""
    if seq > LAST_SEQ:
        raise InvalidRequestError(
            f"The sequence numbers of the database are used up: the next one would be {seq}, the last one there is "
            f"{LAST_SEQ}.",
            why="A SlateDB client was given a high number for one of its writes.",
            todo="Write the rows into a new database, whose numbers begin anew.",
        )
