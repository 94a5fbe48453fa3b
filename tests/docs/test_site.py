"""The site builds without a warning, loads nothing from elsewhere, and shows each page as GitHub does."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from tests.docs.pages import REPOSITORY

pytestmark = [
    pytest.mark.xdist_group("site"),
    pytest.mark.skipif(find_spec("mkdocs") is None, reason="mkdocs comes with the extra docs."),
]

TOOLS = REPOSITORY / "tools"
SCREENSHOTS = runpy.run_path(str(TOOLS / "screenshots.py"))
BUILD_S = 300
LOADS = {"script": "src", "link": "href", "img": "src", "iframe": "src"}
BLOCKS = ("li", "table", "tr", "h2", "h3", "h4", "pre", "blockquote")


class Elements(HTMLParser):
    """The elements of a page: how often each tag occurs, what the page loads, in the whole or in the article alone."""

    def __init__(self, text: str, *, only: str | None = None) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.loaded: list[str] = []
        self._only, self._is_in = only, only is None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._is_in = self._is_in or tag == self._only
        if self._is_in:
            self.tags[tag] += 1
            self.loaded += [value or "" for name, value in attrs if name == LOADS.get(tag)]

    def handle_endtag(self, tag: str) -> None:
        if tag == self._only:
            self._is_in = False


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=REPOSITORY,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def html_pages(site: Path) -> Iterator[Path]:
    yield from site.rglob("*.html")


def test_every_page_is_in_the_site(site: Path) -> None:
    docs = REPOSITORY / "docs"
    pages = [page.relative_to(docs).with_suffix(".html") for page in docs.rglob("*.md")]
    others = [Path("project", f"{name}.html") for name in ("changelog", "contributing", "security")]
    others += [Path("examples", f"{item.stem}.html") for item in (REPOSITORY / "examples").glob("*.[ip]*")]
    assert not [page for page in [*pages, *others] if not (site / page).exists()]


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    loaded = {place for page in html_pages(site) for place in Elements(page.read_text()).loaded}
    assert loaded
    assert not [place for place in loaded if re.match(r"(https?:)?//", place)]
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert not re.findall(r"url\([\"']?(?:https?:)?//[^)]*\)|@import[^;]*", styles)


def test_pages_have_the_blocks_that_github_shows(site: Path) -> None:
    """Python-Markdown and CommonMark differ in lists without a blank line in front, and in what is indented."""
    github = MarkdownIt("commonmark").enable("table")
    differing = {}
    for page in sorted((REPOSITORY / "docs").rglob("*.md")):
        text = page.read_text()
        if re.search(r"^::: |^<div", text, re.MULTILINE):  # filled by mkdocstrings; cards
            continue
        html = site / page.relative_to(REPOSITORY / "docs").with_suffix(".html")
        there = Elements(github.render(text)).tags
        here = Elements(html.read_text(), only="article").tags
        unequal = {tag: (there[tag], here[tag]) for tag in BLOCKS if there[tag] != here[tag]}
        if unequal:
            differing[page.name] = unequal
    assert not differing


def test_a_search_finds_guides_before_decisions(site: Path) -> None:
    found = json.loads((site / "search" / "search_index.json").read_text())["docs"]
    weights = {item["location"]: item.get("boost", 1) for item in found}
    decision = weights["adr/0016-a-compaction-claims-nothing-before-its-commit.html"]
    assert weights["how-to/compact.html"] > weights["reference/format/compactions.html"] > decision


def test_the_reference_has_the_methods_of_the_code(site: Path) -> None:
    from slatespark import SlateStore, SlateTable

    for page, item in {"slate-table": SlateTable, "slate-store": SlateStore}.items():
        text = (site / "reference" / "api" / f"{page}.html").read_text()
        names = [name for name in dir(item) if not name.startswith("_")]
        assert len(names) > 20
        assert not [name for name in names if f".{name}" not in text]
        assert "Parameters" in text


@pytest.mark.slow
@pytest.mark.skipif(SCREENSHOTS["chromium"]() is None, reason="There is no chromium on the path.")
def test_screenshots(site: Path, tmp_path: Path) -> None:
    """The pictures stay in the folder of the test, or where SLATESPARK_SCREENSHOTS says."""
    folder = Path(os.environ.get("SLATESPARK_SCREENSHOTS", tmp_path))
    pictures = SCREENSHOTS["take_screenshots"](SCREENSHOTS["chromium"](), site, folder)
    assert len(pictures) == len(SCREENSHOTS["SHOTS"])
    assert len({picture.read_bytes() for picture in pictures}) == len(pictures)
