"""Pages of documentation as what can be checked of them: code blocks, shown output, headings, links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parent.parent.parent

_FENCE = re.compile(r"^```(?P<language>[a-z]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_NOT_RUN = re.compile(r"<!-- not run: [^>]+ -->\n\s*\Z")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#+ (?P<title>.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A code block: its language, its text, the line it starts at, and the output that the page shows behind it."""

    language: str
    text: str
    line: int
    shown: str | None

    @property
    def commands(self) -> list[str]:
        """The lines of a shell block that call our command."""
        lines = self.text.replace("\\\n", " ").splitlines() if self.language == "shell" else []
        return [line for line in lines if line.startswith("slatespark ")]


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
        return any("SparkSession" in block.text for block in self.blocks() if block.language == "python")

    def blocks(self) -> Iterator[Block]:
        """The blocks to run, in order: not those behind a comment that says why not."""
        matches = list(_FENCE.finditer(self.text))
        for at, match in enumerate(matches):
            if match["language"] not in ("python", "shell") or _NOT_RUN.search(self.text[: match.start()]):
                continue
            after = matches[at + 1] if at + 1 < len(matches) else None
            is_output = (
                after is not None and after["language"] == "text" and not self.text[match.end() : after.start()].strip()
            )
            shown = after["text"] if after is not None and is_output else None
            line = self.text.count("\n", 0, match.start()) + 2
            yield Block(match["language"], match["text"], line, shown)

    def links(self) -> list[str]:
        """Targets of links outside code."""
        return [match["target"] for match in _LINK.finditer(_FENCE.sub("", self.text))]

    def anchors(self) -> set[str]:
        """What a `#fragment` may name, as GitHub makes it from headings."""
        titles = (match["title"].lower() for match in _HEADING.finditer(_FENCE.sub("", self.text)))
        return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


def read_page(path: Path) -> Page:
    return Page(str(path.relative_to(REPOSITORY)), path.read_text())


def all_pages() -> list[Page]:
    """README, the other pages beside it, and everything below docs/."""
    return [read_page(path) for path in sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")])]
