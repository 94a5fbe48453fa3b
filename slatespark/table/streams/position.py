"""Positions of a stream, and the offsets as which they are stored by whoever runs it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from slatespark.errors import InvalidRequestError, UnsupportedFormatError
from slatespark.table.streams.version_mark import ID_DIGITS, VersionMark

_FIELDS: Final = ("table", "version", "seq", "wal", "part")
_MARK: Final = "mark"  # the first offsets that there were have none
_MARK_ID: Final = re.compile(rf"[0-9a-f]{{{ID_DIGITS}}}", re.ASCII)
_SEPARATOR: Final = "/"


@dataclass(frozen=True, slots=True)
class DeliveredPart:
    """A place within the changes from one version to another.

    Attributes
    ----------
    version : the later one
    key : the changes of keys below it have been delivered
    """

    version: int
    key: bytes


@dataclass(frozen=True, slots=True)
class Position:
    """What has been delivered of a table's changes: a state of the table, and maybe a part of what follows it.

    A position says all that is needed to go on from it, and two of them all that lies in between.

    Attributes
    ----------
    table : identity of the table, and name of the stream, by which a run finds what the one before held
    version : changes up to its state have been delivered; 0 for none, before the first row
    seq : the last sequence number of that state
    wal : the last WAL file that it has seen
    part : how much of the changes that come next was delivered; None if none of them was delivered
    mark : the newest version that is known to belong to the history of the position; None if none is
    """

    table: str
    version: int
    seq: int
    wal: int
    part: DeliveredPart | None = None
    mark: VersionMark | None = None

    @property
    def identity(self) -> str:
        """The identity of the table."""
        return self.table.partition(_SEPARATOR)[0]

    @property
    def stream_id(self) -> str:
        """The name of the stream."""
        return self.table.partition(_SEPARATOR)[2]

    @property
    def versions(self) -> frozenset[int]:
        """The versions that are needed to go on from here."""
        found = {self.version} if self.part is None else {self.version, self.part.version}
        return frozenset(found - {0})


def name_table(identity: str, stream_id: str) -> str:
    """Return the table and the stream as positions name them."""
    return f"{identity}{_SEPARATOR}{stream_id}"


def encode_position(position: Position) -> dict[str, Any]:
    """Return the offset of a position: the same one for equal positions, also in the order of its fields."""
    part, mark = position.part, position.mark
    offset = {
        "table": position.table,
        "version": position.version,
        "seq": position.seq,
        "wal": position.wal,
        "part": None if part is None else {"version": part.version, "key": part.key.hex()},
    }
    return offset if mark is None else {**offset, _MARK: {"version": mark.version, "id": mark.id}}


def decode_position(offset: Mapping[str, Any]) -> Position:
    """Return the position of an offset.

    Raises
    ------
    InvalidRequestError
        When it is none.
    UnsupportedFormatError
        When it says more than this release knows.
    """
    try:
        table, version, seq, wal, part = (offset[name] for name in _FIELDS)
        found = None if part is None else DeliveredPart(part["version"], bytes.fromhex(part["key"]))
        mark = _decode_mark(offset[_MARK]) if _MARK in offset else None
    except (KeyError, TypeError, ValueError) as exc:
        raise _no_offset(offset) from exc
    numbers = [version, seq, wal, *(each.version for each in (found, mark) if each is not None)]
    if (
        not isinstance(table, str)
        or not table.partition(_SEPARATOR)[2]
        or any(type(number) is not int or number < 0 for number in numbers)
    ):
        raise _no_offset(offset)
    unknown = sorted({*offset} - {*_FIELDS, _MARK})
    if unknown:
        raise UnsupportedFormatError(
            f"The stream's offset has {', '.join(unknown)}, which this release does not know.",
            why="A later release of slatespark ran the query.",
            todo="Upgrade slatespark.",
        )
    return Position(table, version, seq, wal, found, mark)


def _decode_mark(member: Mapping[str, Any]) -> VersionMark:
    """Return the mark in an offset; raises `KeyError`, `TypeError` or `ValueError` when it has none."""
    mark_id = member["id"]
    if not _MARK_ID.fullmatch(mark_id):
        raise ValueError(mark_id)
    return VersionMark(member["version"], mark_id)


def no_batch(before: int, after: int) -> InvalidRequestError:
    """Return the error for a batch that a stream has never had, from one version to another."""
    return InvalidRequestError(
        f"No batch of the stream goes from version {before} to version {after}.",
        why="Other options say where the stream starts, or its checkpoint location was changed.",
        todo="Start the query with the options that it had, or with a new checkpoint location.",
    )


def _no_offset(offset: object) -> InvalidRequestError:
    return InvalidRequestError(
        f"{offset!r} is not an offset of a slate stream.",
        why="The checkpoint location of the query belongs to another source.",
        todo="Start the query with a new checkpoint location.",
    )
