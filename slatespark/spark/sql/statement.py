"""A statement as tokens, read from left to right: keywords, names, numbers, and text that Spark will parse."""

from __future__ import annotations

from typing import Final

from slatespark.encoding.predicates.source_span import SourceSpan, filter_error
from slatespark.encoding.predicates.tokens import END, NAME, NUMBER, QUOTED, SIGN, STRING, Token
from slatespark.errors import OptionError
from slatespark.spark.expressions.sql_text import CLOSED_BY, CLOSING, cut_sql, is_operand

ARGUMENT: Final = "sql"
FORMAT: Final = "slate"  # `slate.path` with the path in backticks names a table

_RESERVED: Final = ("AS", "FROM", "JOIN", "ON", "SET", "USING", "VALUES", "WHEN", "WHERE")  # no alias without AS

_MAX_DIGITS: Final = 100  # of a whole number; Python has a limit of its own
QUERY_BEGINS: Final = ("SELECT", "VALUES", "FROM", "TABLE", "WITH")


class Statement:
    """The rest of a statement that is left to read.

    Methods named `take...` return nothing or false where something else comes next; the others raise an `OptionError`
    that shows the place.
    """

    def __init__(self, text: str) -> None:
        text = text.rstrip()
        self.text = text[:-1] if text.endswith(";") else text
        self._tokens = cut_sql(self.text, ARGUMENT)
        self._at = 0

    # --- words --------------------------------------------------------------------------------------------------------

    @property
    def next(self) -> Token:
        """The next token; one of kind `END` behind the last."""
        if self._at < len(self._tokens):
            return self._tokens[self._at]
        return Token(END, "", SourceSpan(self.text, len(self.text), len(self.text), ARGUMENT))

    @property
    def position(self) -> int:
        """The end of what was read, as a place in the text; before any token is read, the place of the first."""
        return self._tokens[self._at - 1].span.end if self._at else self.next.span.start

    def error(self, what: str, *, at: Token | None = None, todo: str = "") -> OptionError:
        """Return the error that shows the next token, or another one."""
        return filter_error(what, (at or self.next).span, todo=todo)

    def take(self, *words: str) -> bool:
        """Read these words if all of them come next."""
        ahead = self._tokens[self._at : self._at + len(words)]
        if len(ahead) < len(words) or not all(token.is_word(word) for token, word in zip(ahead, words, strict=True)):
            return False
        self._at += len(words)
        return True

    def take_sign(self, sign: str) -> bool:
        """Read a sign if it comes next."""
        found = self.next.is_sign(sign)
        self._at += found
        return found

    def opens_query(self) -> bool:
        """Tell whether a query comes next, in parentheses or not."""
        ahead = next((token for token in self._tokens[self._at :] if not token.is_sign("(")), self.next)
        return ahead.is_word(*QUERY_BEGINS)

    def expect(self, *words: str) -> None:
        """Read these words."""
        if not self.take(*words):
            raise self.error(f"expected {' '.join(words)}")

    def expect_sign(self, sign: str) -> None:
        """Read a sign."""
        if not self.take_sign(sign):
            raise self.error(f"expected {sign!r}")

    def end(self) -> None:
        """Refuse whatever is left."""
        if self.next.kind != END:
            raise self.error("this is not understood here")

    # --- names and values ---------------------------------------------------------------------------------------------

    def name(self) -> str:
        """Read a name, in backticks or not."""
        if self.next.kind not in (NAME, QUOTED):
            raise self.error("expected a name")
        return self.skip().text

    def dotted_name(self) -> tuple[str, ...]:
        """Read names with dots between them."""
        parts = [self.name()]
        while self.take_sign("."):
            parts.append(self.name())
        return tuple(parts)

    def table(self) -> tuple[str, ...] | None:
        """Read the name of a table; None for one of Spark's database slate, as the path is in backticks otherwise."""
        parts = self.dotted_name()
        return None if names_path(parts) and self._tokens[self._at - 1].kind != QUOTED else parts

    def alias(self) -> str | None:
        """Read an alias, with or without AS; None if there is none."""
        if self.take("AS"):
            return self.name()
        if self.next.kind == QUOTED or (self.next.kind == NAME and not self.next.is_word(*_RESERVED)):
            return self.name()
        return None

    def whole_number(self) -> int:
        """Read a whole number."""
        if self.next.kind != NUMBER or not self.next.text.isdecimal():
            raise self.error("expected a whole number")
        if len(self.next.text) > _MAX_DIGITS:
            raise self.error("the number is too large")
        return int(self.skip().text)

    def string(self) -> str:
        """Read a string."""
        if self.next.kind != STRING:
            raise self.error("expected a string")
        return self.skip().text

    # --- text for Spark -----------------------------------------------------------------------------------------------

    def text_until(self, *words: str, sign: str | None = None, called: str) -> str:
        """Read up to one of the words, or a sign, outside of brackets and CASE, or up to the end; as it was written.

        Parameters
        ----------
        called : what is expected, for the message
        """
        start, opened = self._at, list[str]()
        while self.next.kind != END:
            token = self.next
            follows_dot = self._at > start and self._tokens[self._at - 1].is_sign(".")
            mark = token.text.upper() if token.kind in (NAME, SIGN) and not follows_dot else ""
            if mark == "END" and opened[-1:] != ["END"]:
                mark = ""  # a name: it closes nothing where no CASE is open
            if not opened and (mark in words or (sign is not None and token.is_sign(sign))):
                break
            if mark in CLOSED_BY:
                opened.append(CLOSED_BY[mark])
            elif mark in CLOSING and not opened:
                break  # of a bracket that the caller has read, or one too many, which the caller refuses
            elif mark in CLOSING and opened.pop() != mark:
                raise self.error("another bracket is open here")
            self._at += 1
        if opened:
            raise self.error(f"expected {opened[-1]!r}")
        if self._at == start:
            raise self.error(f"expected {called}")
        return self.text[self._tokens[start].span.start : self._tokens[self._at - 1].span.end]

    def expression_until(self, *words: str, sign: str | None = None, called: str) -> str:
        """Read an expression as `text_until`, for `enclosed`; refuse one that reads a table by its path."""
        start = self._at
        text = self.text_until(*words, sign=sign, called=called)
        for number in range(start + 1, self._at - 2):
            begun, name, dot, path = self._tokens[number - 1 : number + 3]
            names_ours = dot.is_sign(".") and path.kind == QUOTED and names_path((name.text, path.text))
            if begun.is_word("FROM", "JOIN") and names_ours:
                raise self.error(
                    "a query within an expression reads no table by its path",
                    at=name,
                    todo="Create a temporary view of the table, and name that.",
                )
        return enclosed(text)

    def text_in_parentheses(self, called: str) -> str:
        """Read `(...)`; what stands inside, as it was written."""
        self.expect_sign("(")
        inside = self.text_until(called=called)
        self.expect_sign(")")
        return inside

    def list_in_parentheses(self, called: str) -> list[str]:
        """Read `(..., ...)`; the parts, as they were written."""
        self.expect_sign("(")
        parts = [self.text_until(sign=",", called=called)]
        while self.take_sign(","):
            parts.append(self.text_until(sign=",", called=called))
        self.expect_sign(")")
        return parts

    def skip(self) -> Token:
        """Read a token."""
        token = self.next
        self._at += 1
        return token


def enclosed(text: str) -> str:
    """Return an expression in parentheses, without which Spark takes a word behind it for its name.

    A name or a number alone stays as it is.
    """
    return text if is_operand(cut_sql(text, ARGUMENT)) else f"({text})"


def names_path(name: tuple[str, ...]) -> bool:
    """Tell whether a name is that of a table by its path."""
    return len(name) == 2 and name[0].lower() == FORMAT
