"""The grammar of conditions: comparisons of a column with constants, joined by AND, and by OR for sets of intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias, TypeVar

from slatespark.encoding.predicates.literals import (
    BOOLEAN,
    NULL,
    STRING,
    Literal,
    number_literal,
    typed_literal,
)
from slatespark.encoding.predicates.operators import (
    BETWEEN,
    EQ,
    GE,
    GT,
    IN,
    IS_NOT_NULL,
    IS_NULL,
    LE,
    LIKE_EXACT,
    LT,
    NE,
    NOT_IN,
    NULL_SAFE_EQ,
    STARTS_WITH,
)
from slatespark.encoding.predicates.source_span import SourceSpan, filter_error
from slatespark.encoding.predicates.tokens import (
    END,
    NAME,
    NUMBER,
    QUOTED,
    Token,
    tokenize,
)
from slatespark.encoding.predicates.tokens import STRING as STRING_TOKEN
from slatespark.errors import OptionError

Item = TypeVar("Item")

MAX_ALTERNATIVES: Final = 1000  # conjunctions of one condition

_SYNONYMS: Final = {"==": EQ, "!=": NE}
_COMPARISONS: Final = (EQ, "==", NE, "!=", NULL_SAFE_EQ, LT, LE, GT, GE)
_MIRRORED: Final = {LT: GT, GT: LT, LE: GE, GE: LE}  # 1 < x means x > 1
_CONSTANTS: Final = {"TRUE": (BOOLEAN, True), "FALSE": (BOOLEAN, False), "NULL": (NULL, None)}
_TYPES: Final = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "TIME", "X")
_RESERVED: Final = ("AND", "OR", "NOT", "IN", "IS", "LIKE", "BETWEEN")  # column names like these need backticks

_GRAMMAR: Final = (
    "A filter is `column = literal`, with = <> <=> < <= > >= IN, NOT IN, BETWEEN, IS [NOT] NULL or LIKE 'x%', "
    "or `(column, ...) IN ((literal, ...), ...)`, joined by AND."
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One comparison of a column with constants.

    Attributes
    ----------
    column : the name as written
    operator : one of `operators`
    literals : literals of the comparison: none, one, two, or those of a list
    span : position of the column; None for a comparison that Spark pushed
    """

    column: str
    operator: str
    literals: tuple[Literal, ...] = ()
    span: SourceSpan | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class RowComparison:
    """A row value that is one of several: `(a, b) IN ((1, 2), (3, 4))`.

    Attributes
    ----------
    columns : the names as written, at least two
    rows : at least one row of literals, all of one length
    span : position of the first column
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Literal, ...], ...]
    span: SourceSpan | None = field(default=None, compare=False)

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """What it says of each column by itself."""
        return tuple(
            Comparison(column, IN, literals, self.span)
            for column, literals in zip(self.columns, zip(*self.rows, strict=True), strict=True)
        )


Conjunction: TypeAlias = tuple[Comparison | RowComparison, ...]


def parse_filter(text: str, *, name: str = "filter") -> Conjunction:
    """Return the comparisons of a filter.

    Parameters
    ----------
    text : such as `tenant = 'a' AND day >= '2026-01-01' AND id IN (1, 2)`
    name : the option or argument that holds it, for messages

    Raises
    ------
    OptionError
        When the text does not match the grammar; the message shows where.
    """
    return _Parser(text, name).conditions(allows_or=False)[0]


def parse_alternatives(text: str, *, name: str) -> tuple[Conjunction, ...]:
    """Return conjunctions of comparisons of which one has to be true: a condition with AND, OR and parentheses.

    Parameters
    ----------
    text : such as `day = 1 OR day IN (5, 7) AND shop = 'a'`; AND binds more strongly
    name : the option or argument that holds it, for messages

    Raises
    ------
    OptionError
        When the text does not match the grammar, or makes more than `MAX_ALTERNATIVES` conjunctions.
    """
    return _Parser(text, name).conditions(allows_or=True)


@dataclass(slots=True)
class _Group:
    """What was parsed of the inside of parentheses, or of the whole text: conjunctions joined by OR."""

    finished: list[Conjunction] = field(default_factory=list)
    last: list[list[Comparison | RowComparison]] = field(default_factory=lambda: [[]])

    def join(self, operands: Sequence[Conjunction]) -> None:
        """Add operands, alternatives of each other, by AND."""
        if len(operands) > 1:
            self.last = [[*one, *other] for one in self.last for other in operands]
        else:
            for one in self.last:
                one.extend(operands[0])

    def alternatives(self) -> list[Conjunction]:
        """Return all conjunctions."""
        return [*self.finished, *map(tuple, self.last)]


class _Parser:
    """A parser: the tokens, and the position of the next one."""

    def __init__(self, text: str, name: str) -> None:
        self._tokens = list(tokenize(text, name=name))
        self._position = 0

    # --- comparisons --------------------------------------------------------------------------------------------------

    def conditions(self, *, allows_or: bool) -> tuple[Conjunction, ...]:
        """Parse everything, without recursion: a list of open groups stands for the parentheses."""
        groups = [_Group()]
        while True:
            while self._next.is_sign("(") and not self._starts_row():
                self._take()
                groups.append(_Group())
            self._join(groups[-1], [(self._comparison(),)])
            while len(groups) > 1 and self._next.is_sign(")"):
                self._take()
                inner = groups.pop().alternatives()
                self._join(groups[-1], inner)
            if self._next.kind == END:
                break
            if allows_or and self._next.is_word("OR"):
                groups[-1] = _Group(groups[-1].alternatives())
            elif not self._next.is_word("AND"):
                raise self._unexpected(("AND or OR" if allows_or else "AND") + (" or )" if len(groups) > 1 else ""))
            self._take()
        if len(groups) > 1:
            raise self._unexpected(")")
        return tuple(groups[0].alternatives())

    def _join(self, group: _Group, operands: Sequence[Conjunction]) -> None:
        if len(group.finished) + len(group.last) * len(operands) > MAX_ALTERNATIVES:
            raise filter_error(
                f"the condition has more than {MAX_ALTERNATIVES} alternatives",
                self._next.span,
                todo="Use IN, or split it over several calls.",
            )
        group.join(operands)

    def _comparison(self) -> Comparison | RowComparison:
        if self._next.is_sign("("):
            return self._row_comparison()
        if self._starts_literal():
            return self._mirrored()
        column = self._column()
        word = self._next
        if word.is_sign(*_COMPARISONS):
            sign = self._take().text
            return Comparison(column.text, _SYNONYMS.get(sign, sign), (self._literal(),), column.span)
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

    def _mirrored(self) -> Comparison:
        literal = self._literal()
        if not self._next.is_sign(*_COMPARISONS):
            raise self._unexpected("a comparison")
        sign = self._take().text
        column = self._column()
        operator = _SYNONYMS.get(sign, sign)
        return Comparison(column.text, _MIRRORED.get(operator, operator), (literal,), column.span)

    def _in(self, column: Token) -> Comparison:
        return Comparison(column.text, IN, self._list(), column.span)

    def _not_in(self, column: Token) -> Comparison:
        if not self._next.is_word("IN"):
            raise self._unexpected("IN")
        self._take()
        return Comparison(column.text, NOT_IN, self._list(), column.span)

    def _between(self, column: Token) -> Comparison:
        low = self._literal()
        if not self._next.is_word("AND"):
            raise self._unexpected("AND and the upper bound")
        self._take()
        return Comparison(column.text, BETWEEN, (low, self._literal()), column.span)

    def _starts_row(self) -> bool:
        """Tell whether `(column,` follows."""
        _, column, comma = (self._tokens[self._position : self._position + 3] + [self._tokens[-1]] * 2)[:3]
        return column.kind in (NAME, QUOTED) and comma.is_sign(",")

    def _row_comparison(self) -> RowComparison:
        columns = self._in_brackets(self._column, "( and columns")
        word = self._take()
        if word.is_sign("=", "=="):
            rows = [self._row(len(columns))]
        elif word.is_word("IN"):
            rows = self._in_brackets(lambda: self._row(len(columns)), "( and a list of rows")
        else:
            raise filter_error("expected = or IN after a row of columns", word.span, todo=_GRAMMAR)
        return RowComparison(tuple(column.text for column in columns), tuple(rows), columns[0].span)

    def _row(self, width: int) -> tuple[Literal, ...]:
        span = self._next.span
        found = self._in_brackets(self._literal, "( and a row of literals")
        if len(found) != width:
            raise filter_error(f"expected a row of {width} literals, not {len(found)}", span)
        return tuple(found)

    def _is(self, column: Token) -> Comparison:
        operator = IS_NULL
        if self._next.is_word("NOT"):
            self._take()
            operator = IS_NOT_NULL
        if not self._next.is_word("NULL"):
            raise self._unexpected("NULL")
        self._take()
        return Comparison(column.text, operator, (), column.span)

    def _like(self, column: Token) -> Comparison:
        if self._next.is_word("NULL"):
            return Comparison(column.text, EQ, (self._literal(),), column.span)  # never true, for any type
        if self._next.kind != STRING_TOKEN:
            raise self._unexpected("a pattern in quotes")
        token = self._take()
        operator, text = _read_pattern(token)
        return Comparison(column.text, operator, (Literal(STRING, text, token.span),), column.span)

    # --- names and literals -------------------------------------------------------------------------------------------

    def _column(self) -> Token:
        token = self._next
        if token.kind not in (NAME, QUOTED) or token.is_word(*_RESERVED):
            raise self._unexpected("the name of a column")
        self._take()
        if self._next.is_sign("("):
            raise self._unexpected("a comparison: functions are not supported")
        if self._next.is_sign("."):
            raise self._unexpected("a comparison: parts of a struct are not supported")
        return token

    def _list(self) -> tuple[Literal, ...]:
        return tuple(self._in_brackets(self._literal, "( and a list"))

    def _in_brackets(self, item: Callable[[], Item], expected: str) -> list[Item]:
        """Parse items in brackets, separated by commas."""
        if not self._next.is_sign("("):
            raise self._unexpected(expected)
        self._take()
        found = [item()]
        while self._next.is_sign(","):
            self._take()
            found.append(item())
        if not self._next.is_sign(")"):
            raise self._unexpected(", or )")
        self._take()
        return found

    def _starts_literal(self) -> bool:
        token = self._next
        return (
            token.kind in (NUMBER, STRING_TOKEN) or token.is_sign("-", "+") or self._is_constant() or self._is_typed()
        )

    def _is_constant(self) -> bool:
        return self._next.is_word(*_CONSTANTS)

    def _is_typed(self) -> bool:
        """Tell whether a type and a string follow; without a string, `date` is a column name."""
        return self._next.is_word(*_TYPES) and self._tokens[self._position + 1].kind == STRING_TOKEN

    def _literal(self) -> Literal:
        token = self._next
        if token.kind == STRING_TOKEN:
            return Literal(STRING, self._take().text, token.span)
        if self._is_constant():
            kind, value = _CONSTANTS[self._take().text.upper()]
            return Literal(kind, value, token.span)
        if self._is_typed():
            word, text = self._take(), self._take()
            return typed_literal(word.text.upper(), text.text, _span_of(word, text))
        if token.kind == NUMBER:
            return number_literal(self._take().text, negative=False, span=token.span)
        if token.is_sign("-", "+") and self._tokens[self._position + 1].kind == NUMBER:
            sign, number = self._take(), self._take()
            return number_literal(number.text, negative=sign.text == "-", span=_span_of(sign, number))
        raise self._unexpected("a literal")

    # --- tokens -------------------------------------------------------------------------------------------------------

    @property
    def _next(self) -> Token:
        return self._tokens[self._position]

    def _take(self) -> Token:
        token = self._tokens[self._position]
        self._position += 1
        return token

    def _unexpected(self, expected: str) -> OptionError:
        return filter_error(f"expected {expected}", self._next.span, todo=_GRAMMAR)


def _span_of(first: Token, last: Token) -> SourceSpan:
    return SourceSpan(first.span.text, first.span.start, last.span.end, first.span.name)


def _read_pattern(token: Token) -> tuple[str, str]:
    r"""Return the operator of a LIKE and its text; `\%`, `\_` and `\\` escape the second character."""
    pattern, text, position = token.text, "", 0
    while position < len(pattern):
        letter = pattern[position]
        if letter == "%" and not pattern[position:].strip("%"):
            return STARTS_WITH, text
        if letter in "%_":
            raise filter_error(
                "expected a pattern with one % at its end",
                token.span,
                todo="Write \\% or \\_ for the character itself.",
            )
        if letter == "\\":
            position += 1
            if pattern[position : position + 1] not in ("%", "_", "\\"):
                raise filter_error("a backslash in a pattern must precede %, _ or another backslash", token.span)
        text += pattern[position]
        position += 1
    return LIKE_EXACT, text
