"""The text of a filter as tokens: names, numbers, strings and signs, as Spark SQL cuts them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from slatespark.encoding.predicates.place import Place, filter_error

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
    """A token: its kind, what it means (strings and quoted names without their quotes), and where it stands."""

    kind: str
    text: str
    place: Place

    def is_word(self, *words: str) -> bool:
        """Tell whether it is one of these words, outside backticks, ignoring case."""
        return self.kind == NAME and self.text.upper() in words

    def is_sign(self, *signs: str) -> bool:
        """Tell whether it is one of these signs."""
        return self.kind == SIGN and self.text in signs


def cut_tokens(text: str, *, name: str = "filter", start: int = 0) -> Iterator[Token]:
    """Yield the tokens of a filter from `start` on, at last one of kind END.

    Raises
    ------
    OptionError
        Where no token begins, or a string has no end.
    """
    at = start
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _no_token(text, at, name)
        place = Place(text, at, match.end(), name)
        at = match.end()
        kind, found = str(match.lastgroup), match[0]
        if kind == "string":
            yield Token(STRING, _unescape(found, place), place)
        elif kind == "raw":
            yield Token(STRING, _checked(found[2:-1], place), place)
        elif kind == "quoted":
            yield Token(QUOTED, found[1:-1].replace("``", "`"), place)
        elif kind != "space":
            yield Token(kind, found, place)
    yield Token(END, "", Place(text, len(text), len(text), name))


def _no_token(text: str, at: int, name: str) -> Exception:
    if text[at] in _UNCLOSED:
        return filter_error(f"{_UNCLOSED[text[at]]} is not closed", Place(text, at, len(text), name))
    if text[at].isdecimal():
        found = re.compile(r"[\w.]+").match(text, at)
        end = found.end() if found else at + 1
        place = Place(text, at, end, name)
        return filter_error("this is no number", place, todo="Put a name that begins with a digit into backticks.")
    todo = "Put a name with other letters than a-z into backticks." if text[at].isalpha() else ""
    return filter_error(f"unexpected {text[at]!r}", Place(text, at, at + 1, name), todo=todo)


def _unescape(quoted: str, place: Place) -> str:
    """Return what a quoted string means: doubled quotes and backslashes as Spark SQL reads them."""
    quote = quoted[0]
    # Doubled quotes first would see the second half of `\''` wrongly, so one pass does both.
    pattern = re.compile(f"{re.escape(quote * 2)}|{_ESCAPE.pattern}", re.DOTALL)
    body = pattern.sub(lambda match: quote if match[0] == quote * 2 else _escaped(match, place), quoted[1:-1])
    return _checked(body, place)


def _checked(text: str, place: Place) -> str:
    """Return text that UTF-8 can hold; escapes may spell the two halves of a surrogate pair."""
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise filter_error("half of a surrogate pair is no character", place) from None


def _escaped(match: re.Match[str], place: Place) -> str:
    if code := match["u4"] or match["u8"]:
        if int(code, 16) > _MAX_CODE_POINT:
            raise filter_error("no character has this number", place)
        return chr(int(code, 16))
    if match["octal"]:
        return chr(int(match["octal"], 8))
    return _ESCAPED.get(match["one"], match["one"])
