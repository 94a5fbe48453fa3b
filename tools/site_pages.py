"""What the site has besides docs/: its navigation, and pages for files outside docs/. mkdocs calls the `on_` functions.

The navigation is `docs/contents.md`: its headings are the groups, its links the pages. A page is named by its title,
one made of a script or a notebook by the text of the link.

A link to a file of the repository outside docs/ becomes a link to a page made of the file: Markdown as it is, a script
as one block, a notebook with what it prints.
"""

from __future__ import annotations

import ast
import json
import os.path
import re
from pathlib import Path, PurePosixPath
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

REPOSITORY: Final = Path(__file__).resolve().parent.parent
DOCS: Final = "docs"

_NAMED_LINK: Final = re.compile(r"\[(?P<text>[^\]]+)\]\((?P<place>[^)\s#]+)\)")
_LINK: Final = re.compile(r"(?<=\]\()(?P<place>[^)\s#]+)(?P<anchor>#[^)\s]*)?(?=\))")
# Who searches wants to do something: guides come before the format of a file and the records of decisions.
_BOOST: Final = {"tutorial": 2.0, "how-to": 2.0, "adr": 0.5}

_HEADING: Final = re.compile(r"^(?P<marks>##+) (?P<title>.+)$")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Take the navigation from the page of all pages."""
    config.nav = navigation((REPOSITORY / DOCS / "contents.md").read_text())
    return config


def navigation(contents: str) -> list[Any]:
    """Return the groups of the page of all pages: `##` are tabs, `###` sections in them."""
    tabs: list[Any] = [{"Start": "index.md"}]
    group: list[Any] = tabs
    known = set()
    for line in re.sub(r"\n +", " ", contents).splitlines():
        heading = _HEADING.match(line)
        if heading:
            parent = tabs if heading["marks"] == "##" else tabs[-1][next(iter(tabs[-1]))]
            group = []
            parent.append({heading["title"]: group})
        for link in _NAMED_LINK.finditer(line):
            page = site_path(os.path.normpath(f"{DOCS}/{link['place']}"))
            if page and page not in known:
                known.add(page)
                group.append({link["text"]: page} if page.startswith("examples/") else page)
    tabs[-1][next(iter(tabs[-1]))].append("contents.md")
    return tabs


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages made of files outside docs/."""
    for source in sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "examples").iterdir()]):
        name = source.relative_to(REPOSITORY).as_posix()
        page = site_path(name)
        if page and source.is_file():
            text = relink(_page_text(source), name, page)
            files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links that leave docs/ to the pages made of those files; say how a page is shown and found."""
    if page.is_homepage:
        page.meta["hide"] = ["navigation", "toc"]  # it has the width of the screen
    if boost := _BOOST.get(page.file.src_uri.partition("/")[0]):
        page.meta["search"] = {"boost": boost}
    if page.file.generated_by:
        return markdown
    return relink(markdown, f"{DOCS}/{page.file.src_uri}", page.file.src_uri)


def site_path(name: str) -> str | None:
    """Return the page of a file of the repository, by the paths of both; None if it has no page."""
    path = PurePosixPath(name)
    if path.parts[0] == DOCS:
        return path.relative_to(DOCS).as_posix() if path.suffix == ".md" else None
    if path.suffix == ".md" and len(path.parts) == 1 and name != "README.md":
        return f"project/{path.stem.lower()}.md"
    if path.parts[0] == "examples" and path.suffix in (".py", ".ipynb"):
        return f"examples/{path.stem}.md"
    return None


def relink(text: str, name: str, page: str) -> str:
    """Return the text of a file with links that hold on its page."""

    def moved(link: re.Match[str]) -> str:
        target = os.path.normpath(PurePosixPath(name).parent / link["place"])
        place = site_path(target) if (REPOSITORY / target).exists() else None
        if place is None:
            return link[0]
        return os.path.relpath(place, PurePosixPath(page).parent) + (link["anchor"] or "")

    return _LINK.sub(moved, text)


def _page_text(source: Path) -> str:
    if source.suffix == ".py":
        return _script_page(source)
    if source.suffix == ".ipynb":
        return _notebook_page(source)
    return source.read_text()


def _script_page(source: Path) -> str:
    """Return a script under what its docstring says."""
    text = source.read_text()
    title, _, rest = (ast.get_docstring(ast.parse(text)) or source.stem).partition(".")
    return f"# {title}\n\n`examples/{source.name}`.{rest}\n\n{_fenced(text, 'python')}"


def _notebook_page(source: Path) -> str:
    """Return the cells of a notebook, with what they print."""
    cells = json.loads(source.read_text())["cells"]
    return "\n\n".join(part for cell in cells for part in _cell_parts(cell))


def _cell_parts(cell: dict[str, Any]) -> list[str]:
    text = "".join(cell["source"])
    if cell["cell_type"] != "code":
        return [text]
    return [_fenced(text, "python"), *(_output(item) for item in cell["outputs"])]


def _output(output: dict[str, Any]) -> str:
    """Return what a cell shows: a picture, else HTML, else text."""
    data = output.get("data", {})
    if "image/png" in data:
        return f'<img alt="" src="data:image/png;base64,{"".join(data["image/png"]).strip()}">'
    if "text/html" in data:
        lines = "".join(data["text/html"]).splitlines()
        return f'<div class="output">{"".join(line.strip() for line in lines)}</div>'
    return _fenced("".join(data.get("text/plain", output.get("text", ""))), "text")


def _fenced(text: str, language: str) -> str:
    return f"````{language}\n{text.rstrip()}\n````"
