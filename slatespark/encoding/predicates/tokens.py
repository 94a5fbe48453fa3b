"""The text of a filter as tokens: names, numbers, strings and signs, as in Spark SQL."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from slatespark.encoding.predicates.source_span import SourceSpan, filter_error
from slatespark.errors import OptionError

NAME: Final = "name"
QUOTED: Final = "quoted name"
NUMBER: Final = "number"
STRING: Final = "string"
SIGN: Final = "sign"
END: Final = "end"

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+)
      | (?P<raw>[rR](?:'[^']*'|"[^"]*"))
      | (?P<string>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
      | (?P<quoted>`(?:[^`]|``)+`)
      | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?:[bB][dD]|[lLsSyYfFdD])?(?!\w))
      | (?P<name>[^\W\d]\w*)
      | (?P<sign><=>|<>|<=|>=|!=|==|[=<>(),.+-])""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_ESCAPE: Final = re.compile(
    r"\\(?:u(?P<u4>[0-9a-fA-F]{4})|U(?P<u8>[0-9a-fA-F]{8})|(?P<octal>[01][0-7]{2})|(?P<one>.))", re.DOTALL
)
_ESCAPED: Final = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_UNCLOSED: Final = {"'": "a string", '"': "a string", "`": "a name in backticks"}
_MAX_CODE_POINT: Final = 0x10FFFF


@dataclass(frozen=True, slots=True)
class Token:
    """A token: its kind, its text (strings and quoted names without quotes), and its position."""

    kind: str
    text: str
    span: SourceSpan

    def is_word(self, *words: str) -> bool:
        """Tell whether it is one of these words; case is ignored, names in backticks are not words."""
        return self.kind == NAME and self.text.upper() in words

    def is_sign(self, *signs: str) -> bool:
        """Tell whether it is one of these signs."""
        return self.kind == SIGN and self.text in signs


def tokenize(text: str, *, name: str = "filter", start: int = 0) -> Iterator[Token]:
    """Yield the tokens of a filter from `start` on, ending with one of kind END.

    Raises
    ------
    OptionError
        Where no token begins, or a string has no end, or `text` is no string.
    """
    if not isinstance(text, str):  # an argument of a call
        raise OptionError(f"{name}: {text!r} is not text.", todo='Give a condition like "id = 1".')
    at = start
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _token_error(text, at, name)
        span = SourceSpan(text, at, match.end(), name)
        at = match.end()
        kind, found = str(match.lastgroup), match[0]
        if kind == "string":
            yield Token(STRING, _unescape(found, span), span)
        elif kind == "raw":
            yield Token(STRING, _require_characters(found[2:-1], span), span)
        elif kind == "quoted":
            yield Token(QUOTED, found[1:-1].replace("``", "`"), span)
        elif kind != "space":
            yield Token(kind, found, span)
    yield Token(END, "", SourceSpan(text, len(text), len(text), name))


def _token_error(text: str, at: int, name: str) -> Exception:
    if text[at] in _UNCLOSED:
        return filter_error(f"{_UNCLOSED[text[at]]} is not closed", SourceSpan(text, at, len(text), name))
    if text[at].isdecimal():
        found = re.compile(r"[\w.]+").match(text, at)
        end = found.end() if found else at + 1
        span = SourceSpan(text, at, end, name)
        return filter_error("this is not a number", span, todo="Put names that begin with a digit in backticks.")
    todo = "Put names with letters other than a-z in backticks." if text[at].isalpha() else ""
    return filter_error(f"unexpected {text[at]!r}", SourceSpan(text, at, at + 1, name), todo=todo)


def _unescape(quoted: str, span: SourceSpan) -> str:
    """Return the value of a quoted string: doubled quotes and backslashes have the meaning of Spark SQL."""
    quote = quoted[0]
    # One pass for both: a first pass over doubled quotes would misread the second half of `\''`.
    pattern = re.compile(f"{re.escape(quote * 2)}|{_ESCAPE.pattern}", re.DOTALL)
    body = pattern.sub(lambda match: quote if match[0] == quote * 2 else _escaped(match, span), quoted[1:-1])
    return _require_characters(body, span)


def _require_characters(text: str, span: SourceSpan) -> str:
    """Return text that UTF-8 can encode; escapes may give the two halves of a surrogate pair."""
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise filter_error("half of a surrogate pair is not a character", span) from None


def _escaped(match: re.Match[str], span: SourceSpan) -> str:
    if code := match["u4"] or match["u8"]:
        if int(code, 16) > _MAX_CODE_POINT:
            raise filter_error("there is no character with this code point", span)
        return chr(int(code, 16))
    if match["octal"]:
        return chr(int(match["octal"], 8))
    return _ESCAPED.get(match["one"], match["one"])
