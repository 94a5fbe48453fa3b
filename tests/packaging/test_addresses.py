"""The links of a release lead to the repository, since a package index shows the README without it."""

from __future__ import annotations

import re
import runpy

from tests.docs.pages import REPOSITORY

TOOL = runpy.run_path(str(REPOSITORY / "tools" / "addresses.py"))
URL = "https://example.org/slatespark"
README = (REPOSITORY / "README.md").read_text()


def test_every_link_of_the_readme_is_absolute() -> None:
    text = TOOL["absolute_links"](README, URL, "v1")
    found = re.findall(r"\]\(([^)]+)\)|src(?:set)?=\"([^\"]+)\"", text)
    targets = [link or picture for link, picture in found]
    assert len(targets) > 20
    assert all(target.startswith("https://") for target in targets)
    ours = [target.removeprefix(f"{URL}/") for target in targets if target.startswith(URL)]
    assert all((REPOSITORY / each.split("/", 2)[2].partition("#")[0]).exists() for each in ours)
    assert {each.split("/", 1)[0] for each in ours if each.endswith((".svg", ".png"))} == {"raw"}


def test_without_an_address_nothing_changes() -> None:
    assert TOOL["absolute_links"](README, "", "v1") == README
    assert TOOL["project_urls"]("", "v1") == {}


def test_links_within_the_page_and_to_elsewhere_stay() -> None:
    text = "[one](#here) [two](https://slatedb.io) [three](mailto:a@example.org)"
    assert TOOL["absolute_links"](text, URL, "v1") == text


def test_listed_pages_exist() -> None:
    pages = [page.removeprefix(f"{URL}/blob/v1/") for page in TOOL["project_urls"](URL, "v1").values()]
    assert pages[0] == URL
    assert all((REPOSITORY / page).is_file() for page in pages[1:])
    assert TOOL["release_tag"](REPOSITORY) == "v0.1.0"
