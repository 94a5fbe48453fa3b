"""Text for the shell and for messages: aligned tables and facts, bytes, numbers and lists of names as text."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from itertools import chain, groupby, islice

GAP = "  "
NOTHING = "-"
MAX_NAMED = 5  # names in a message
MAX_LISTED = 30  # columns in a message, which list what can be chosen from


def align_table(header: Sequence[str], rows: Iterable[Sequence[str]], *, right: Collection[str] = ()) -> str:
    """Return rows as aligned columns below a header; control characters are escaped as by `printable`.

    Parameters
    ----------
    right : names of the columns to right-align, such as numbers
    """
    lines = [[printable(cell) for cell in row] for row in chain([header], rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    aligned = (
        GAP.join(
            cell.rjust(width) if name in right else cell.ljust(width)
            for name, cell, width in zip(header, line, widths, strict=True)
        ).rstrip()
        for line in lines
    )
    return "\n".join(aligned)


def align_facts(facts: Iterable[tuple[str, str]]) -> str:
    """Return names and values in two columns; further lines of a value are indented to its column.

    Other control characters than the ends of these lines are escaped as by `printable`.
    """
    pairs = [(name, printable_lines(value)) for name, value in facts]
    width = max((len(name) for name, _ in pairs), default=0) + len(GAP)
    lines = []
    for name, value in pairs:
        first, *others = value.split("\n")
        lines.append(f"{name.ljust(width)}{first}".rstrip())
        lines.extend(f"{'':{width}}{line}" for line in others)
    return "\n".join(lines)


def bytes_text(data: bytes, *, as_text: bool) -> str:
    """Return bytes for a terminal: hexadecimal, or as UTF-8 where they are.

    As text, control characters are escaped as in JSON, and bytes that are not UTF-8 become `0x...`.
    """
    if not as_text:
        return data.hex()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return f"0x{data.hex()}"
    return printable(text)


def is_encodable(text: str) -> bool:
    """Tell whether a text has no half of a surrogate pair, which UTF-8 cannot write."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def printable(text: str) -> str:
    """Return text with control characters escaped as in JSON, so that it cannot command a terminal."""
    return text if text.isprintable() else "".join(_escaped(letter) for letter in text)


def printable_lines(text: str) -> str:
    """Return text of several lines, each of them `printable`; JSON keeps its meaning."""
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))


def _escaped(letter: str) -> str:
    return letter if letter.isprintable() else json.dumps(letter)[1:-1]


def numbers_text(numbers: Iterable[int]) -> str:
    """Return ascending numbers with consecutive ones joined: `1-4, 7`."""
    runs = []
    for _, members in groupby(enumerate(numbers), key=lambda item: item[1] - item[0]):
        run = [number for _, number in members]
        runs.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
    return ", ".join(runs) or NOTHING


def span_text(low: int | None, high: int | None) -> str:
    """Return the least and the greatest of some numbers: `1-4`, or `7` for one number; nothing if they are unknown."""
    if low is None or high is None:
        return ""
    return str(low) if low == high else f"{low}-{high}"


def cut_middle(text: str, limit: int) -> str:
    """Return text of at most `limit` characters: of a longer one the start and the end.

    Keys next to each other start alike, and so do the two ends of an axis.
    """
    if len(text) <= limit:
        return text
    tail = limit // 2
    return f"{text[: limit - tail - 1]}…{text[-tail:]}"


def plural(count: int, noun: str) -> str:
    """Return a count with its noun: `1 file`, `2 files`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def listed(names: Sequence[str]) -> str:
    """Return the names of columns as a list in a message, of which a wide table has too many to read."""
    others = len(names) - MAX_LISTED
    shown = ", ".join(names[:MAX_LISTED])
    return f"{shown} and {plural(others, 'other')}" if others > 0 else shown


def name_some(names: Iterable[str], separator: str = "; ") -> str:
    """Return the first few names, and whether there are others."""
    first = list(islice(names, MAX_NAMED + 1))
    others = " and others" if len(first) > MAX_NAMED else ""
    return f"{separator.join(first[:MAX_NAMED])}{others}"
