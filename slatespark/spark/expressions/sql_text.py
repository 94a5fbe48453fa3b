"""SQL text of Spark as tokens: the parts that AND joins in a condition, and the names that an expression uses.

Tokens are those of the option `filter` plus the other signs of Spark SQL, without comments. Nothing is resolved or
evaluated. If tokens alone do not settle an answer, functions return none, and callers read more than they may need.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, TypeAlias

from slatespark.encoding.predicates.source_span import SourceSpan, filter_error
from slatespark.encoding.predicates.tokens import NAME, NUMBER, QUOTED, SIGN, STRING, Token, tokenize
from slatespark.errors import OptionError

Tokens: TypeAlias = tuple[Token, ...]

_SPACE: Final = re.compile(r"\s+", re.ASCII)
_LINE_COMMENT: Final = re.compile(r"--(?:\\\n|[^\r\n])*")  # a backslash continues it on the next line
_COMMENT_MARK: Final = re.compile(r"/\*\+?|\*/")
_OTHER_SIGN: Final = re.compile(r"!(?!=)|[*/%|&^~\[\]{}:]")  # signs that filters do not use

CLOSED_BY: Final = {"(": ")", "[": "]", "{": "}", "CASE": "END"}
CLOSING: Final = frozenset(CLOSED_BY.values())
_QUERY_WORDS: Final = ("SELECT", "FROM", "VALUES", "TABLE")  # in parentheses they show a query, not a condition
_EQUALITIES: Final = ("=", "==", "<=>")


def cut_sql(text: str, name: str = "filter") -> Tokens:
    """Return the tokens of an expression or statement.

    Parameters
    ----------
    name : the name of the argument that holds the text, for messages

    Raises
    ------
    OptionError
        When no token begins somewhere, or a string or comment is not closed.
    """
    tokens: list[Token] = []
    at = _skip_gaps(text, 0, name)
    while at < len(text):
        sign = _OTHER_SIGN.match(text, at)
        if sign is None:
            token = next(tokenize(text, name=name, start=at))
        else:
            token = Token(SIGN, sign[0], SourceSpan(text, at, sign.end(), name))
        tokens.append(token)
        at = _skip_gaps(text, token.span.end, name)
    return tuple(tokens)


def join_tokens(tokens: Sequence[Token]) -> str:
    """Return the SQL text of adjacent tokens; spaces and comments between two tokens become one space."""
    spaced = [left.span.end < right.span.start for left, right in pairwise(tokens)]
    return "".join(" " * gap + _source(token) for gap, token in zip([False, *spaced], tokens, strict=False))


def without_qualifier(text: str, qualifier: str | None) -> str:
    """Return an expression with `id` for each `qualifier.id`; as it is without a qualifier, or if it has no tokens."""
    try:
        tokens = () if qualifier is None else cut_sql(text)
    except OptionError:  # whoever reads it will say why
        return text
    pieces, at = list[str](), 0
    for index, (name, dot, column) in enumerate(zip(tokens, tokens[1:], tokens[2:], strict=False)):
        is_first = index == 0 or not tokens[index - 1].is_sign(".")
        if is_first and is_name(name, qualifier) and dot.is_sign(".") and is_name(column):
            pieces.append(text[at : name.span.start])
            at = column.span.start
    return "".join([*pieces, text[at:]])


# --- conditions -----------------------------------------------------------------------------------------------------


def split_condition(text: str) -> list[Tokens]:
    """Return the parts that AND joins in a condition, also inside parentheses around some of them.

    Returns
    -------
    All parts: the condition is true if and only if all of them are. Empty if tokens do not settle that.
    """
    try:
        return _split(cut_sql(text), ("OR",))
    except OptionError:
        return []


def split_equality(part: Tokens) -> tuple[Tokens, str, Tokens] | None:
    """Return both sides and the sign of an equality between operands; None for anything else."""
    signs = [position for position, token in enumerate(part) if token.is_sign(*_EQUALITIES)]
    if len(signs) != 1:
        return None
    left, sign, right = part[: signs[0]], part[signs[0]].text, part[signs[0] + 1 :]
    return (left, sign, right) if is_operand(left) and is_operand(right) else None


def is_operand(tokens: Tokens) -> bool:
    """Tell whether tokens are a name, qualified or not, or a number."""
    if len(tokens) == 1 and tokens[0].kind == NUMBER:
        return True
    dotted = all(token.is_sign(".") if position % 2 else is_name(token) for position, token in enumerate(tokens))
    return dotted and len(tokens) % 2 == 1


def find_operand(text: str) -> str | None:
    """Return the text of an expression that is a name or a number, without comments; None for any other."""
    try:
        tokens = cut_sql(text)
    except OptionError:
        return None
    return join_tokens(tokens) if is_operand(tokens) else None


def is_same_operand(left: Tokens, right: Tokens) -> bool:
    """Tell whether operands are the same, ignoring case and backticks."""
    return [_plain(token) for token in left] == [_plain(token) for token in right]


def is_name(token: Token, name: str | None = None) -> bool:
    """Tell whether a token is a name, or a given name; case does not matter."""
    return token.kind in (NAME, QUOTED) and (name is None or token.text.lower() == name.lower())


# --- expressions ----------------------------------------------------------------------------------------------------


def find_names(text: str) -> frozenset[str] | None:
    """Return all names in an expression, in lower case: columns, but also functions and keywords.

    Returns
    -------
    None if any column may be meant: after `*`, `IDENTIFIER(...)`, or text that cannot be tokenized.
    """
    try:
        tokens = cut_sql(text)
    except OptionError:
        return None
    before: Token | None = None
    names = set()
    for token in tokens:
        source = _source(token)
        named_by_text = token.is_sign("(") and before is not None and before.is_word("IDENTIFIER")
        if named_by_text or (token.is_sign("*") and _begins_expression(before)):
            return None
        if token.kind == STRING and source.startswith('"'):  # a name, if Spark's settings say so
            if "\\" in source:
                return None
            names.add(token.text.lower())
        if is_name(token):
            names.add(token.text.lower())
        before = token
    return frozenset(names)


# --- private helpers ------------------------------------------------------------------------------------------------


def _skip_gaps(text: str, at: int, name: str) -> int:
    """Return where the next token begins, after spaces and comments."""
    while True:
        gap = _SPACE.match(text, at) or _LINE_COMMENT.match(text, at)
        if gap is not None:
            at = gap.end()
        elif text.startswith("/*", at):
            at = _comment_end(text, at, name)
        else:
            return at


def _comment_end(text: str, start: int, name: str) -> int:
    """Return the end of a bracketed comment; such comments nest. Hints are refused."""
    depth = 0
    for mark in _COMMENT_MARK.finditer(text, start):
        if mark[0] == "/*+":
            break
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    raise filter_error("a comment is not closed, or is a hint", SourceSpan(text, start, len(text), name))


def _split(tokens: Tokens, unclear: tuple[str, ...]) -> list[Tokens]:
    """Return the parts that AND joins outside brackets; none if one of the `unclear` words occurs outside brackets."""
    parts: list[list[Token]] = [[]]
    opened: list[str] = []
    betweens = 0
    for token in tokens:
        mark = token.text.upper() if token.kind in (NAME, SIGN) else ""
        if mark in CLOSED_BY:
            opened.append(CLOSED_BY[mark])
        elif mark in CLOSING:
            if not opened or opened.pop() != mark:
                return []
        elif not opened and (mark == "," or mark in unclear):
            return []
        elif not opened and mark == "BETWEEN":
            betweens += 1
        elif not opened and mark == "AND" and betweens:
            betweens -= 1
        elif not opened and mark == "AND":
            parts.append([])
            continue
        parts[-1].append(token)
    if opened or betweens:
        return []
    return [inner for part in parts for inner in _split_group(tuple(part))]


def _split_group(part: Tokens) -> list[Tokens]:
    """Return the parts inside parentheses that enclose a whole part; otherwise the part itself."""
    depth = 0
    for position, token in enumerate(part):
        depth += token.is_sign("(") - token.is_sign(")")
        if depth == 0:
            enclosed = position > 0 and position == len(part) - 1
            return (_split(part[1:-1], ("OR", *_QUERY_WORDS)) if enclosed else []) or [part]
    return [part]


def _begins_expression(before: Token | None) -> bool:
    """Tell whether an expression can begin after a token: then `*` means all columns, not a product."""
    if before is None or before.is_word("SELECT", "DISTINCT", "ALL"):
        return True
    return before.kind == SIGN and not before.is_sign(")", "]", "}")


def _source(token: Token) -> str:
    return token.span.text[token.span.start : token.span.end]


def _plain(token: Token) -> tuple[bool, str]:
    return token.kind == NUMBER, token.text.lower()
