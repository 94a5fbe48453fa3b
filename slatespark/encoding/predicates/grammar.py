"""The grammar of filters: comparisons of a column with constants, joined by AND."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from slatespark.encoding.predicates.literals import (
    BOOLEAN,
    NULL,
    STRING,
    Literal,
    number_literal,
    typed_literal,
)
from slatespark.encoding.predicates.place import Place, filter_error
from slatespark.encoding.predicates.tokens import (
    END,
    NAME,
    NUMBER,
    QUOTED,
    Token,
    cut_tokens,
)
from slatespark.encoding.predicates.tokens import STRING as STRING_TOKEN
from slatespark.errors import OptionError

# What a comparison does.
EQUAL: Final = "="
NOT_EQUAL: Final = "<>"
SAME: Final = "<=>"  # null is the same as null
LESS: Final = "<"
AT_MOST: Final = "<="
MORE: Final = ">"
AT_LEAST: Final = ">="
IN: Final = "IN"
NOT_IN: Final = "NOT IN"
BETWEEN: Final = "BETWEEN"
IS_NULL: Final = "IS NULL"
IS_NOT_NULL: Final = "IS NOT NULL"
STARTS_WITH: Final = "LIKE prefix%"  # its literal is the prefix
LIKE_EXACTLY: Final = "LIKE"  # a pattern without wildcards; its literal is what it matches

_SIGNS: Final = {"==": EQUAL, "!=": NOT_EQUAL}
_COMPARISONS: Final = (EQUAL, "==", NOT_EQUAL, "!=", SAME, LESS, AT_MOST, MORE, AT_LEAST)
_TURNED: Final = {LESS: MORE, MORE: LESS, AT_MOST: AT_LEAST, AT_LEAST: AT_MOST}  # 1 < x is x > 1
_CONSTANTS: Final = {"TRUE": (BOOLEAN, True), "FALSE": (BOOLEAN, False), "NULL": (NULL, None)}
_TYPES: Final = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "TIME", "X")
_WORDS: Final = ("AND", "OR", "NOT", "IN", "IS", "LIKE", "BETWEEN")  # as names they need backticks

_GRAMMAR: Final = (
    "A filter is `column = literal`, with = <> <=> < <= > >= IN, NOT IN, BETWEEN, IS [NOT] NULL or LIKE 'x%', "
    "joined by AND."
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One comparison of a column with constants.

    Attributes
    ----------
    column : the name as written
    does : one of the words above
    literals : none, one, two, or all of a list
    place : where the column stands; None for a comparison that Spark pushed
    """

    column: str
    does: str
    literals: tuple[Literal, ...] = ()
    place: Place | None = field(default=None, compare=False)


def parse_filter(text: str, *, name: str = "filter") -> tuple[Comparison, ...]:
    """Return the comparisons that a filter joins.

    Parameters
    ----------
    text : `tenant = 'a' AND day >= '2026-01-01' AND id IN (1, 2)`
    name : the option or argument it was given for, for the message

    Raises
    ------
    OptionError
        Where the text leaves the grammar; the message shows the place.
    """
    return _Parser(text, name).conjunction()


class _Parser:
    """Holds the tokens and where in them it stands."""

    def __init__(self, text: str, name: str) -> None:
        self._tokens = list(cut_tokens(text, name=name))
        self._at = 0

    # --- comparisons --------------------------------------------------------------------------------------------------

    def conjunction(self) -> tuple[Comparison, ...]:
        """Read comparisons to the end. Brackets only group what AND joins, so counting them is all they need."""
        found: list[Comparison] = []
        opened: list[Token] = []
        while True:
            while self._next.is_sign("("):
                opened.append(self._take())
            found.append(self._comparison())
            while opened and self._next.is_sign(")"):
                self._take()
                opened.pop()
            if self._next.kind == END:
                break
            if not self._next.is_word("AND"):
                raise self._unexpected("AND" + (" or )" if opened else ""))
            self._take()
        if opened:
            raise self._unexpected(")")
        return tuple(found)

    def _comparison(self) -> Comparison:
        if self._starts_literal():
            return self._turned()
        column = self._column()
        place = column.place
        word = self._next
        if word.is_sign(*_COMPARISONS):
            sign = self._take().text
            return Comparison(column.text, _SIGNS.get(sign, sign), (self._literal(),), place)
        readers: dict[str, Callable[[Token], Comparison]] = {
            "IN": self._in,
            "NOT": self._not_in,
            "BETWEEN": self._between,
            "IS": self._is,
            "LIKE": self._like,
        }
        for name, read in readers.items():
            if word.is_word(name):
                self._take()
                return read(column)
        raise self._unexpected("a comparison")

    def _turned(self) -> Comparison:
        literal = self._literal()
        if not self._next.is_sign(*_COMPARISONS):
            raise self._unexpected("a comparison")
        sign = self._take().text
        column = self._column()
        does = _SIGNS.get(sign, sign)
        return Comparison(column.text, _TURNED.get(does, does), (literal,), column.place)

    def _in(self, column: Token) -> Comparison:
        return Comparison(column.text, IN, self._list(), column.place)

    def _not_in(self, column: Token) -> Comparison:
        if not self._next.is_word("IN"):
            raise self._unexpected("IN")
        self._take()
        return Comparison(column.text, NOT_IN, self._list(), column.place)

    def _between(self, column: Token) -> Comparison:
        low = self._literal()
        if not self._next.is_word("AND"):
            raise self._unexpected("AND and the upper bound")
        self._take()
        return Comparison(column.text, BETWEEN, (low, self._literal()), column.place)

    def _is(self, column: Token) -> Comparison:
        does = IS_NULL
        if self._next.is_word("NOT"):
            self._take()
            does = IS_NOT_NULL
        if not self._next.is_word("NULL"):
            raise self._unexpected("NULL")
        self._take()
        return Comparison(column.text, does, (), column.place)

    def _like(self, column: Token) -> Comparison:
        if self._next.is_word("NULL"):
            return Comparison(column.text, EQUAL, (self._literal(),), column.place)  # never true, for any type
        if self._next.kind != STRING_TOKEN:
            raise self._unexpected("a pattern in quotes")
        token = self._take()
        does, text = _read_pattern(token)
        return Comparison(column.text, does, (Literal(STRING, text, token.place),), column.place)

    # --- names and literals -------------------------------------------------------------------------------------------

    def _column(self) -> Token:
        token = self._next
        if token.kind not in (NAME, QUOTED) or token.is_word(*_WORDS):
            raise self._unexpected("the name of a column")
        self._take()
        if self._next.is_sign("("):
            raise self._unexpected("a comparison: functions are not supported")
        if self._next.is_sign("."):
            raise self._unexpected("a comparison: parts of a struct are not supported")
        return token

    def _list(self) -> tuple[Literal, ...]:
        if not self._next.is_sign("("):
            raise self._unexpected("( and a list")
        self._take()
        found = [self._literal()]
        while self._next.is_sign(","):
            self._take()
            found.append(self._literal())
        if not self._next.is_sign(")"):
            raise self._unexpected(", or )")
        self._take()
        return tuple(found)

    def _starts_literal(self) -> bool:
        token = self._next
        return (
            token.kind in (NUMBER, STRING_TOKEN) or token.is_sign("-", "+") or self._is_constant() or self._is_typed()
        )

    def _is_constant(self) -> bool:
        return self._next.is_word(*_CONSTANTS)

    def _is_typed(self) -> bool:
        """Tell whether a type with a string follows; without a string, `date` is the name of a column."""
        return self._next.is_word(*_TYPES) and self._tokens[self._at + 1].kind == STRING_TOKEN

    def _literal(self) -> Literal:
        token = self._next
        if token.kind == STRING_TOKEN:
            return Literal(STRING, self._take().text, token.place)
        if self._is_constant():
            kind, value = _CONSTANTS[self._take().text.upper()]
            return Literal(kind, value, token.place)
        if self._is_typed():
            word, text = self._take(), self._take()
            return typed_literal(word.text.upper(), text.text, _joined(word, text))
        if token.kind == NUMBER:
            return number_literal(self._take().text, negative=False, place=token.place)
        if token.is_sign("-", "+") and self._tokens[self._at + 1].kind == NUMBER:
            sign, number = self._take(), self._take()
            return number_literal(number.text, negative=sign.text == "-", place=_joined(sign, number))
        raise self._unexpected("a literal")

    # --- tokens -------------------------------------------------------------------------------------------------------

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _unexpected(self, expected: str) -> OptionError:
        return filter_error(f"expected {expected}", self._next.place, todo=_GRAMMAR)


def _joined(first: Token, last: Token) -> Place:
    return Place(first.place.text, first.place.start, last.place.end, first.place.name)


def _read_pattern(token: Token) -> tuple[str, str]:
    r"""Return what a LIKE does and the text it looks for; `\%`, `\_` and `\\` in it stand for themselves."""
    pattern, text, at = token.text, "", 0
    while at < len(pattern):
        letter = pattern[at]
        if letter == "%" and not pattern[at:].strip("%"):
            return STARTS_WITH, text
        if letter in "%_":
            raise filter_error(
                "expected a pattern with one % at its end", token.place, todo="Write \\% or \\_ for the sign itself."
            )
        if letter == "\\":
            at += 1
            if pattern[at : at + 1] not in ("%", "_", "\\"):
                raise filter_error("a backslash in a pattern stands before %, _ or another backslash", token.place)
        text += pattern[at]
        at += 1
    return LIKE_EXACTLY, text
