"""Golden text files: cases of (command, input, expected output), with prose between them.

A file is made of paragraphs. One that holds the line `----` is a case: its first line is a command, the lines up to
`----` are its input, and those below are what the command must print. Every other paragraph is prose, and says why the
next case is there. `pytest --rewrite` writes what the code prints now; the difference is reviewed like code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

DATA: Final = Path(__file__).parent.parent / "data"

_RULE: Final = "----"


@dataclass(frozen=True, slots=True)
class Case:
    """One case: `command name=value ...`, its input, and what it must print."""

    command: str
    arguments: Mapping[str, str]
    lines: tuple[str, ...]
    expected: str


Command: TypeAlias = Callable[[Case], str]


def run_golden(path: Path, commands: Mapping[str, Command], *, rewrite: bool) -> None:
    """Run every case of a file and compare, or write down, what it prints.

    Parameters
    ----------
    path : the file
    commands : by name; each takes a case and returns its output
    rewrite : write instead of comparing
    """
    paragraphs = path.read_text(encoding="utf-8").strip().split("\n\n")
    printed = [_run(paragraph, commands) for paragraph in paragraphs]
    if rewrite:
        path.write_text("\n\n".join(printed) + "\n", encoding="utf-8")
    else:
        assert printed == paragraphs, f"{path.name} prints otherwise; see `pytest --rewrite`"


def _run(paragraph: str, commands: Mapping[str, Command]) -> str:
    case = parse_case(paragraph)
    if case is None:
        return paragraph
    printed = commands[case.command](case).strip("\n")
    assert "\n\n" not in printed, f"{case.command} prints an empty line, which would end the case"
    above = paragraph.split(f"\n{_RULE}", 1)[0]
    return f"{above}\n{_RULE}\n{printed}".rstrip("\n")


def parse_case(paragraph: str) -> Case | None:
    """Return the case that a paragraph holds, None for prose."""
    lines = paragraph.split("\n")
    if _RULE not in lines[1:]:
        return None
    at = lines.index(_RULE, 1)
    command, *words = lines[0].split()
    case = Case(command, {}, tuple(lines[1:at]), "\n".join(lines[at + 1 :]))
    return replace(case, arguments=arguments(words))


def arguments(words: Iterable[str]) -> dict[str, str]:
    """Return `name=value` words as a dict."""
    pairs = (word.partition("=") for word in words)
    return {name: value for name, _, value in pairs}


def annotated(parts: Iterable[tuple[bytes, str]]) -> str:
    """Return consecutive bytes one field a line: `00-02: x 0003 # suffix length`; text is shown as text."""
    lines = []
    at = 0
    for data, note in parts:
        if not data:
            continue
        first, last = f"{at:02x}", f"{at + len(data) - 1:02x}"
        span = first if len(data) == 1 else f"{first}-{last}"
        lines.append(f"{span + ':':<7} {_shown(data)} # {note}")
        at += len(data)
    return "\n".join(lines)


def _shown(data: bytes) -> str:
    if re.fullmatch(rb"[a-z][a-z0-9_-]+", data):
        return f"t {data.decode('ascii')}"
    return f"x {data.hex()}"
