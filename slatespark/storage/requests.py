"""Requests to an object store by kind, as stores bill them, and the bytes that they move."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Final

PAGE_OBJECTS: Final = 1000  # of one listing request
MOST_DELETED: Final = 1000  # objects, by one request

# Larger objects are uploaded in parts of this size, a few at a time, so only the parts in flight are copied.
PART_BYTES: Final = 16 << 20
PARTS_IN_FLIGHT: Final = 4
MOST_PARTS: Final = 10_000  # do not change: a limit of S3


@dataclass(frozen=True, slots=True)
class Requests:
    """Numbers of requests, and bytes.

    Attributes
    ----------
    get : number of reads of objects, parts of objects, or their metadata
    put : number of writes of objects or parts of an upload; copies on the server
    list : number of pages of listings
    delete : number of deletions of objects, up to 1,000 at a time
    read_bytes, written_bytes : sizes of content received and sent
    """

    get: int = 0
    put: int = 0
    list: int = 0
    delete: int = 0
    read_bytes: int = 0
    written_bytes: int = 0

    def __add__(self, other: Requests) -> Requests:
        return Requests(*(one + two for one, two in zip(self._values(), other._values(), strict=True)))

    def __sub__(self, other: Requests) -> Requests:
        return Requests(*(one - two for one, two in zip(self._values(), other._values(), strict=True)))

    def __le__(self, other: Requests) -> bool:
        """Tell whether none of the numbers is larger than the other's."""
        return all(one <= two for one, two in zip(self._values(), other._values(), strict=True))

    def least(self, other: Requests) -> Requests:
        """Return the lower one of each number."""
        return Requests(*map(min, self._values(), other._values()))

    def most(self, other: Requests) -> Requests:
        """Return the higher one of each number."""
        return Requests(*map(max, self._values(), other._values()))

    @property
    def count(self) -> int:
        """The number of all requests."""
        return self.get + self.put + self.list + self.delete

    def _values(self) -> Iterator[int]:
        return (getattr(self, item.name) for item in fields(self))


def list_requests(objects: int) -> int:
    """Return the pages of a listing of so many objects."""
    return max(1, -(-objects // PAGE_OBJECTS))


def delete_requests(objects: int) -> int:
    """Return the requests that delete so many objects together."""
    return -(-objects // MOST_DELETED)


def upload_requests(size: int) -> int:
    """Return the requests for an upload of so many bytes."""
    part_bytes = part_size(size)
    return 1 if size < 2 * part_bytes else 2 + -(-size // part_bytes)  # begin, parts, complete


def part_size(size: int) -> int:
    """Return the bytes of one part of an upload."""
    return max(PART_BYTES, -(-size // MOST_PARTS))
