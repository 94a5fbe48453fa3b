"""Pages of documentation as what can be checked of them: code blocks, shown output, headings, links, names of files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parent.parent.parent

PYTHON = "python"
SHELLS = ("shell", "console")  # commands alone; and commands behind `$`, with what they print

_FENCE = re.compile(r"^```(?P<language>[a-z]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_NOT_RUN = re.compile(r"<!-- not run: [^>]+ -->\n\s*\Z")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#+ (?P<title>.+)$", re.MULTILINE)
_SOURCE = re.compile(
    r"`(?P<path>(?:slatespark|tests|flatbuffers|examples|benchmarks|tools)/[\w./-]+\.(?:py|txt|ipynb|fbs))`"
)


@dataclass(frozen=True)
class Block:
    """A code block: its language, its text, the line it starts at, and the output that the page shows behind it."""

    language: str
    text: str
    line: int
    shown: str | None

    @property
    def commands(self) -> list[Command]:
        """The parts of a shell block to run one after the other: all of it, or each command of a console."""
        if self.language == "shell":
            return [Command(self.text, self.shown)]
        parts = re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:] if self.language == "console" else []
        return [_console_command(part) for part in parts]


@dataclass(frozen=True)
class Command:
    """Lines for a shell, and what the page shows that they print; None if it does not show it."""

    text: str
    shown: str | None


def _console_command(part: str) -> Command:
    """Cut a command with its continuations, which begin with `> `, from what it prints."""
    first, *others = part.splitlines(keepends=True)
    more = [line for line in others if line.startswith("> ")]
    shown = "".join(others[len(more) :])
    return Command("".join([first, *(line[2:] for line in more)]), shown if shown.strip() else None)


@dataclass(frozen=True)
class Page:
    """A page; `name` is its path in the repository."""

    name: str
    text: str

    @property
    def path(self) -> Path:
        return REPOSITORY / self.name

    @property
    def needs_spark(self) -> bool:
        return any("SparkSession" in block.text for block in self.blocks() if block.language == PYTHON)

    def blocks(self) -> Iterator[Block]:
        """The blocks to run, in order: not those behind a comment that says why not."""
        matches = list(_FENCE.finditer(self.text))
        for at, match in enumerate(matches):
            if match["language"] not in (PYTHON, *SHELLS) or _NOT_RUN.search(self.text[: match.start()]):
                continue
            after = matches[at + 1] if at + 1 < len(matches) else None
            is_output = (
                after is not None and after["language"] == "text" and not self.text[match.end() : after.start()].strip()
            )
            shown = after["text"] if after is not None and is_output else None
            line = self.text.count("\n", 0, match.start()) + 2
            yield Block(match["language"], match["text"], line, shown)

    def languages(self) -> set[str]:
        """The languages of all blocks, also of those that are not run."""
        return {match["language"] for match in _FENCE.finditer(self.text)}

    def links(self) -> list[str]:
        """Targets of links outside code."""
        return [match["target"] for match in _LINK.finditer(_FENCE.sub("", self.text))]

    def sources(self) -> list[str]:
        """Files of this repository that the page names."""
        return [match["path"] for match in _SOURCE.finditer(_FENCE.sub("", self.text))]

    def anchors(self) -> set[str]:
        """What a `#fragment` may name, as GitHub makes it from headings."""
        titles = (match["title"].lower() for match in _HEADING.finditer(_FENCE.sub("", self.text)))
        return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


def read_page(path: Path) -> Page:
    return Page(str(path.relative_to(REPOSITORY)), path.read_text())


def all_pages() -> list[Page]:
    """README, the other pages beside it, and everything below docs/."""
    return [read_page(path) for path in sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")])]
