"""The least key at or above a bound. Two bounds with the same least key divide the keys of a table in the same way.

Many byte strings lie between two neighbouring keys: with a column INT, no key lies between `3 FF` and `4`. An interval
that ends at one of them and another that begins at the other would leave a gap in which no row can ever be. So
intervals get the least key as their bound, whatever condition they come from.

A column at the end of a key may always be null, which is lowest. So nulls at the end of a bound are left out:
`shop = 'a'` and `shop = 'a' AND day IS NULL` begin at the same bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Protocol

import pyarrow as pa

from slatespark.encoding.arrow_columns import flat_kind
from slatespark.encoding.predicates.ordering import as_double, has_bytes, universe
from slatespark.encoding.row_codec import RowCodec
from slatespark.encoding.tuple_key import key_program
from slatespark.kernels.reference.tuple_encode import encode_item
from slatespark.kernels.tuple_program import (
    BYTES_CODE,
    LONG_NEGATIVE_CODE,
    LONG_POSITIVE_CODE,
    NULL_CODE,
    STRUCT_CODE,
    TEXT_CODE,
    ZERO_CODE,
    TupleStep,
    read_program,
)
from slatespark.ranges import KeyRange, key_after, merge_ranges

_NULL: Final = bytes([NULL_CODE])
_NO_KEY_BELOW: Final = b"\0"  # of plain bytes: no key is empty
_BEHIND: Final = b"\xff"  # sorts an element behind everything that begins with it; no type code is this high
_ESCAPED: Final = b"\0\xff"  # a zero byte within a string
_CODE_POINTS: Final = 0x11_0000
_SURROGATES: Final = range(0xD800, 0xE000)  # not characters


def least_key(bound: bytes, codec: RowCodec) -> bytes | None:
    """Return the least key at or above a bound, without nulls at its end; None if no key is as high.

    Parameters
    ----------
    bound : bound of keys, of any bytes
    codec : codec of the table
    """
    if codec.key_format == "tuple":
        try:
            return _least_tuple(bound, _elements(tuple(item.type for item in codec.key_fields)))
        except _UnknownElementError:
            return bound
    least = least_text(bound) if codec.key_format == "utf8" else bound
    return b"" if least == _NO_KEY_BELOW else least


def tight_ranges(ranges: Sequence[KeyRange], codec: RowCodec) -> tuple[KeyRange, ...]:
    """Return the same keys as ascending, disjoint ranges between least keys; ranges that meet are joined.

    A range in which no key can lie is left out, so the result may be empty.
    """
    return merge_ranges(found for keys in ranges if (found := _tight(keys, codec)) is not None)


def can_hold_keys(keys: KeyRange, codec: RowCodec) -> bool:
    """Tell whether any key of a table can lie in a range."""
    return _tight(keys, codec) is not None


def _tight(keys: KeyRange, codec: RowCodec) -> KeyRange | None:
    start = least_key(keys.start, codec)
    end = None if keys.end is None else least_key(keys.end, codec)
    if start is None or (end is not None and end <= start):
        return None
    return KeyRange(start, end)


def sole_key(keys: KeyRange, codec: RowCodec) -> bytes | None:
    """Return the only key that can lie in a range; None if there may be others, or none.

    Requires: the range ends at a least key, as those of `tight_ranges` do.
    """
    key = keys.start
    if codec.key_format == "tuple":
        elements = _elements(tuple(item.type for item in codec.key_fields))
        parts, rest = _leading_elements(key, elements)
        key += _NULL * (len(elements) - len(parts))
        if rest:
            return None
    return key if key and keys.end is not None and least_key(key_after(key), codec) == keys.end else None


# --- tuples -----------------------------------------------------------------------------------------------------------


def _least_tuple(bound: bytes, elements: Sequence[_Element]) -> bytes | None:
    found, rest = _leading_elements(bound, elements)
    if not rest:
        return _without_nulls(found)
    following = elements[len(found)].least(rest) if len(found) < len(elements) else None
    return _joined_least(found, following, elements)


def _leading_elements(data: bytes, elements: Sequence[_Element]) -> tuple[list[bytes], bytes]:
    """Return the valid elements with which a tuple begins, and what follows them."""
    found: list[bytes] = []
    while data and len(found) < len(elements) and (size := _valid_size(data, elements[len(found)])) is not None:
        found.append(data[:size])
        data = data[size:]
    return found, data


def _joined_least(found: list[bytes], element: bytes | None, elements: Sequence[_Element]) -> bytes | None:
    """Return the least tuple with some leading elements and the next one; if that is None, behind all of them."""
    while element is None:
        if not found:
            return None
        before = found.pop()
        element = elements[len(found)].after(before)
    return _without_nulls([*found, element])


def _without_nulls(found: list[bytes]) -> bytes:
    while found and found[-1] == _NULL:
        found.pop()
    return b"".join(found)


def _valid_size(data: bytes, element: _Element) -> int | None:
    """Return the size of the element with which some bytes begin; None if it is not valid."""
    if data[0] == NULL_CODE:
        return 1
    size = element.size(data)
    if size is None or size > len(data) or element.least(data[:size]) != data[:size]:
        return None
    return size


class _UnknownElementError(Exception):
    """A bound lies within an element of which no least one is known."""


class _Element(Protocol):
    """The elements of a column that are not null."""

    def size(self, data: bytes) -> int | None:
        """Return the size of the element with which some bytes begin, or would if they did; None if unknown."""

    def least(self, bound: bytes) -> bytes | None:
        """Return the least element at or above a bound, null aside; None if there is none."""

    def after(self, element: bytes) -> bytes | None:
        """Return the least element above one, which may be null; None if there is none."""


@cache
def _elements(types: tuple[pa.DataType, ...]) -> tuple[_Element, ...]:
    return tuple(map(_element, types))


def _element(kind: pa.DataType) -> _Element:
    if has_bytes(kind):
        return _Strings(pa.types.is_string(kind))
    if flat_kind(kind) is None:
        return _Structs()
    (step,) = read_program(key_program((kind,)))
    return _Numbers(kind, step)


@dataclass(frozen=True, slots=True)
class _Numbers:
    """Elements with integer ordinals: numbers, dates, timestamps, booleans.

    Attributes
    ----------
    kind : kind of the column
    step : step of the encoder of keys
    """

    kind: pa.DataType
    step: TupleStep

    def size(self, data: bytes) -> int | None:
        """Return the size by type code; all elements that are not integers are as long as the least one."""
        code = data[0]
        if code in (LONG_NEGATIVE_CODE, LONG_POSITIVE_CODE):
            return 2 + (data[1] if code == LONG_POSITIVE_CODE else data[1] ^ 0xFF) if len(data) > 1 else None
        if LONG_NEGATIVE_CODE < code < LONG_POSITIVE_CODE:
            return 1 + abs(code - ZERO_CODE)
        return len(self._encode(universe(self.kind)[0]))

    def least(self, bound: bytes) -> bytes | None:
        """Return the bound itself if it is an element, else the next one."""
        return bound if self._known_ordinal(bound) is not None else self._at(self._first_at_least(bound))

    def after(self, element: bytes) -> bytes | None:
        """Return the element of the next ordinal."""
        ordinal = self._known_ordinal(element)
        return self._at(self._first_at_least(element + _BEHIND) if ordinal is None else ordinal + 1)

    def _known_ordinal(self, element: bytes) -> int | None:
        """Return the ordinal of an integer of up to 8 bytes; None for other bytes. Faster than a search."""
        code, size = element[0], len(element) - 1
        if not LONG_NEGATIVE_CODE < code < LONG_POSITIVE_CODE or abs(code - ZERO_CODE) != size:
            return None
        number = int.from_bytes(element[1:]) - ((1 << 8 * size) - 1 if code < ZERO_CODE else 0)
        low, high = universe(self.kind)
        return number if low <= number < high and self._encode(number) == element else None

    def _first_at_least(self, bound: bytes) -> int:
        low, high = universe(self.kind)
        while low < high:
            middle = (low + high) // 2
            if self._encode(middle) < bound:
                low = middle + 1
            else:
                high = middle
        return int(low)

    def _at(self, ordinal: int) -> bytes | None:
        return self._encode(ordinal) if ordinal < universe(self.kind)[1] else None

    def _encode(self, ordinal: int) -> bytes:
        value: Any = as_double(ordinal, self.kind) if pa.types.is_floating(self.kind) else ordinal
        encoded = encode_item(self.step, value)
        assert encoded is not None  # the ordinals are those of the type
        return encoded


@dataclass(frozen=True, slots=True)
class _Strings:
    """Strings and binaries: a type code, the bytes with each zero byte escaped, and a zero byte."""

    is_text: bool

    @property
    def _code(self) -> int:
        return TEXT_CODE if self.is_text else BYTES_CODE

    def size(self, data: bytes) -> int | None:
        """Return the size with the closing zero byte; None if it is missing."""
        at = 1
        while (at := data.find(_NULL, at)) >= 0:
            if data[at : at + 2] != _ESCAPED:
                return at + 1
            at += 2
        return None

    def least(self, bound: bytes) -> bytes | None:
        """Return the bound itself as a string, or the next one that is valid."""
        if bound[0] != self._code:
            return None if bound[0] > self._code else self._encode(b"")
        size = self.size(bound)
        content = bound[1 : None if size is None else size - 1].replace(_ESCAPED, b"\0")
        least = least_text(content) if self.is_text else content
        return None if least is None else self._encode(least)

    def after(self, element: bytes) -> bytes | None:
        """Return the string with a zero byte appended."""
        return self.least(element + _BEHIND)

    def _encode(self, content: bytes) -> bytes:
        return bytes([self._code]) + content.replace(b"\0", _ESCAPED) + b"\0"


class _Structs:
    """Structs, of which conditions only tell whether they are null: the type code stands for the least one."""

    def size(self, data: bytes) -> int | None:
        """Return the size of the type code; what follows it is unknown."""
        return 1 if len(data) == 1 else None

    def least(self, bound: bytes) -> bytes | None:
        """Return the type code; raises `_UnknownElementError` for a bound within the structs."""
        first = bytes([STRUCT_CODE])
        if bound <= first:
            return first
        if bound < first + _BEHIND:
            raise _UnknownElementError
        return None

    def after(self, element: bytes) -> bytes | None:
        """Return the type code behind null; nothing is known to follow a struct."""
        return self.least(element + _BEHIND)


# --- text -------------------------------------------------------------------------------------------------------------


def least_text(bound: bytes) -> bytes | None:
    """Return the least UTF-8 text at or above a bound; None if there is none."""
    try:
        bound.decode()
    except UnicodeDecodeError as exc:
        text, rest = bound[: exc.start].decode(), bound[exc.start :]
    else:
        return bound
    while (following := _least_character(rest)) is None:
        if not text:
            return None
        text, rest = text[:-1], text[-1].encode() + _BEHIND
    return text.encode() + following


def _least_character(bound: bytes) -> bytes | None:
    """Return the least character whose bytes are at or above a bound; code points are in the order of their bytes."""
    low, high = 0, _CODE_POINTS
    while low < high:
        middle = (low + high) // 2
        if chr(middle).encode(errors="surrogatepass") < bound:
            low = middle + 1
        else:
            high = middle
    if low in _SURROGATES:
        low = _SURROGATES.stop
    return chr(low).encode() if low < _CODE_POINTS else None
