"""What any text of SQL mentions: a SlateDB table by its path, or names with a version behind them.

Unlike those of `Statement`, tokens here are found in every text, also in one that only Spark can read. Strings stay
whole, comments are left out, and what stands in a hint counts as text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from slatespark.encoding.predicates.source_span import SourceSpan
from slatespark.encoding.predicates.tokens import NAME, QUOTED, SIGN, STRING, Token
from slatespark.spark.expressions.sql_text import is_name
from slatespark.spark.sql.statement import ARGUMENT, FORMAT

_PIECE: Final = re.compile(
    r"""(?P<gap>\s+|--(?:\\\n|[^\r\n])*)
      | (?P<comment>/\*(?!\+))
      | (?P<string>[rR](?:'[^']*'|"[^"]*")|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
      | (?P<quoted>`(?:[^`]|``)*`)
      | (?P<name>\w+)
      | (?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)
_COMMENT_MARK: Final = re.compile(r"/\*|\*/")
_KINDS: Final = {"string": STRING, "quoted": QUOTED, "name": NAME, "sign": SIGN}


def find_tokens(text: str) -> list[Token]:
    """Return the tokens of a text; strings, and names in backticks, with their quotes."""
    found: list[Token] = []
    at = 0
    while match := _PIECE.match(text, at):
        at = match.end()
        if match.lastgroup == "comment":
            at = _comment_end(text, at)
        elif match.lastgroup != "gap":
            kind = _KINDS[str(match.lastgroup)]
            found.append(Token(kind, match[0], SourceSpan(text, match.start(), at, ARGUMENT)))
    return found


def _comment_end(text: str, at: int) -> int:
    """Return the end of a bracketed comment, which may hold others; that of the text if it is not closed."""
    depth = 1
    for mark in _COMMENT_MARK.finditer(text, at):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(text)


def mentions_path(tokens: Sequence[Token]) -> bool:
    """Tell whether ``slate.`path` `` occurs; it may be a table, or a column of something called slate."""
    return any(starts_path(tokens, at) and not (at and tokens[at - 1].is_sign(".")) for at in range(len(tokens)))


def starts_path(tokens: Sequence[Token], at: int) -> bool:
    """Tell whether the tokens from a place on are ``slate.`path` ``."""
    ahead = tokens[at : at + 3]
    return len(ahead) == 3 and _is_format(ahead[0]) and ahead[1].is_sign(".") and ahead[2].kind == QUOTED


def unquoted_path(tokens: Sequence[Token]) -> Token | None:
    """Return the name in the first `slate.name` without backticks, which is a table of a database slate; else None."""
    for name, dot, format_name in zip(tokens[2:], tokens[1:], tokens, strict=False):
        if name.kind == NAME and dot.is_sign(".") and _is_format(format_name):
            return name
    return None


def find_insert(tokens: Sequence[Token]) -> int | None:
    """Return where the INSERT of `WITH name AS (...) INSERT ...` begins in the text; None for any other statement."""
    if not tokens or not tokens[0].is_word("WITH"):
        return None
    depth = 0
    for before, token in pairwise(tokens):
        depth += before.is_sign("(") - before.is_sign(")")
        if depth == 0 and before.is_sign(")") and token.is_word("INSERT"):
            return token.span.start
    return None


def mentions_using(tokens: Sequence[Token]) -> bool:
    """Tell whether `USING slate` occurs."""
    return any(tokens[at].is_word("USING") and _is_format(tokens[at + 1]) for at in range(len(tokens) - 1))


def _is_format(token: Token) -> bool:
    """Tell whether a token is the name of slatespark's format, in backticks or not."""
    return is_name(token, FORMAT) or is_name(token, f"`{FORMAT}`")


def versioned_names(tokens: Sequence[Token]) -> Iterator[str]:
    """Yield names without dots that have `VERSION AS OF` or `TIMESTAMP AS OF` behind them."""
    for at in range(1, len(tokens) - 2):
        word, second, third = tokens[at : at + 3]
        if not (word.is_word("VERSION", "TIMESTAMP") and second.is_word("AS") and third.is_word("OF")):
            continue
        name = at - 2 if tokens[at - 1].is_word("FOR") else at - 1
        if name >= 0 and is_name(tokens[name]) and not (name and tokens[name - 1].is_sign(".")):
            text = tokens[name].text
            yield text[1:-1].replace("``", "`") if tokens[name].kind == QUOTED else text
