"""Literals of a filter: constants in SQL, before a column determines their type."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

import numpy as np

from slatespark.encoding.predicates.datetimes import parse_date, parse_time, parse_timestamp
from slatespark.encoding.predicates.source_span import SourceSpan, filter_error
from slatespark.errors import OptionError

NULL: Final = "null"
BOOLEAN: Final = "boolean"
NUMBER: Final = "number"  # exact: an integer or a decimal
DOUBLE: Final = "double"
STRING: Final = "string"
BINARY: Final = "binary"
DATE: Final = "date"  # days since 1970
TIMESTAMP: Final = "timestamp"  # microseconds since 1970 in UTC
TIME: Final = "time"  # nanoseconds since midnight

MAX_DIGITS: Final = 38  # of a decimal in Spark

_NUMBER: Final = re.compile(
    r"(?P<digits>\d*)(?:\.(?P<decimals>\d*))?(?:e(?P<exponent>[+-]?\d+))?(?P<suffix>bd|[lsyfd])?"
)
_INTEGER_BITS: Final = {"y": 8, "s": 16, "l": 64}


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant.

    Attributes
    ----------
    kind : one of the kinds above
    value : None, bool, Fraction, float, str or bytes; int for dates, timestamps and times
    span : its position; None if Spark pushed it
    """

    kind: str
    value: Any
    span: SourceSpan | None = field(default=None, compare=False)


def number_literal(text: str, *, negative: bool, span: SourceSpan) -> Literal:
    """Return the value of a number token.

    Raises
    ------
    OptionError
        When it does not fit the type that its suffix or form implies.
    """
    if text.isdigit() and len(text) <= MAX_DIGITS:  # a fast path for long lists
        return Literal(NUMBER, Fraction(-int(text) if negative else int(text)), span)
    match = _NUMBER.fullmatch(text.lower())
    assert match is not None  # the token has this form
    suffix = match["suffix"] or ""
    if suffix in ("f", "d") or (match["exponent"] and suffix != "bd"):
        return _double(text.lower().removesuffix(suffix), suffix, negative=negative, span=span)
    if suffix in _INTEGER_BITS and match["decimals"] is not None:
        raise filter_error(f"the suffix {suffix.upper()} is for whole numbers only", span)
    value = _exact(match["digits"], match["decimals"] or "", match["exponent"] or "0", span)
    signed = -value if negative else value
    bits = _INTEGER_BITS.get(suffix)
    if bits is not None and not -(1 << bits - 1) <= signed < 1 << bits - 1:
        raise filter_error(f"the number does not fit {bits} bits", span)
    return Literal(NUMBER, signed, span)


def _exact(digits: str, decimals: str, exponent: str, span: SourceSpan) -> Fraction:
    """Return a decimal number; one beyond Spark's DECIMAL is refused before it becomes a huge integer."""
    significant = (digits + decimals).lstrip("0")
    if len(exponent) > 4 or len(significant) > MAX_DIGITS:
        raise _too_precise(span)
    scale = len(decimals) - int(exponent)
    if scale > MAX_DIGITS or len(significant) - min(scale, 0) > MAX_DIGITS:
        raise _too_precise(span)
    return Fraction(int(significant or "0")) / Fraction(10) ** scale


def _too_precise(span: SourceSpan) -> OptionError:
    return filter_error(f"the number has more than {MAX_DIGITS} digits", span)


def _double(text: str, suffix: str, *, negative: bool, span: SourceSpan) -> Literal:
    value = float(text)
    if suffix == "f" and value:  # the exponent of what rounds to zero may have any size
        value = _nearest_float32(Fraction(text), value) if len(text) < 400 and abs(value) < 1e39 else math.inf
    if math.isinf(value):
        raise filter_error(f"the number does not fit a {'FLOAT' if suffix == 'f' else 'DOUBLE'}", span)
    return Literal(DOUBLE, -value if negative else value, span)


def _nearest_float32(exact: Fraction, rounded: float) -> float:
    """Return the 32-bit float nearest to a number; rounding its double again could miss it."""
    with np.errstate(over="ignore"):
        guess = np.float32(rounded)
        around = [guess, np.nextafter(guess, np.float32(np.inf)), np.nextafter(guess, np.float32(-np.inf))]
    finite = [item for item in around if np.isfinite(item)]
    if not np.isfinite(guess):
        return math.inf
    return float(min(finite, key=lambda item: (abs(Fraction(float(item)) - exact), int(item.view(np.uint32)) & 1)))


def typed_literal(word: str, text: str, span: SourceSpan) -> Literal:
    """Return the value of `DATE '...'`, `TIMESTAMP '...'`, `TIME '...'` or `X'...'`.

    Parameters
    ----------
    word : the type, in upper case
    text : the string after it
    span : the part of the source that both come from

    Raises
    ------
    OptionError
        When the string does not fit the type.
    """
    if word == "X":
        return Literal(BINARY, _hexadecimal(text, span), span)
    kind, value = {
        "DATE": (DATE, parse_date(text)),
        "TIME": (TIME, parse_time(text)),
    }.get(word) or (TIMESTAMP, parse_timestamp(text, with_offset=word != "TIMESTAMP_NTZ"))
    if value is None:
        raise filter_error(f"{text!r} is not a {kind}", span, todo=EXAMPLES[kind])
    return Literal(kind, value, span)


EXAMPLES: Final = {
    DATE: "Write it like '2026-01-31'.",
    TIMESTAMP: "Write it like '2026-01-31 12:00:00' or '2026-01-31T12:00:00+01:00'; named zones are not supported.",
    TIME: "Write it like TIME '12:30:00'.",
}


def _hexadecimal(text: str, span: SourceSpan) -> bytes:
    if re.fullmatch(r"[0-9a-fA-F]*", text) is None:
        raise filter_error(f"{text!r} is not hexadecimal", span, todo="Write bytes like X'00ff41'.")
    return bytes.fromhex("0" * (len(text) % 2) + text)  # Spark pads an odd number of digits


def describe_literal(literal: Literal) -> str:
    """Return the kind of a constant, for messages."""
    return "NULL" if literal.kind == NULL else f"a {literal.kind}"
