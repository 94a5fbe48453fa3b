"""Links between pages lead somewhere, files that pages name exist, and every page can be found."""

from __future__ import annotations

import pytest

from tests.docs.pages import REPOSITORY, Page, all_pages, read_page

PAGES = all_pages()


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_links_lead_somewhere(page: Page) -> None:
    for link in page.links():
        if "://" in link:
            continue
        place, _, anchor = link.partition("#")
        target = (page.path.parent / place).resolve() if place else page.path
        assert target.exists(), f"{page.name}: {link}"
        if anchor:
            assert anchor in read_page(target).anchors(), f"{page.name}: {link}"


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_files_that_a_page_names_exist(page: Page) -> None:
    assert not [name for name in page.sources() if not (REPOSITORY / name).exists()]


def test_the_index_leads_to_every_page() -> None:
    """Directly, or by the table of contents of a folder."""
    known = {REPOSITORY / "docs" / "index.md"}
    waiting = list(known)
    while waiting:
        page = read_page(waiting.pop())
        for link in page.links():
            target = (page.path.parent / link.partition("#")[0]).resolve()
            if "://" not in link and target.suffix == ".md" and target not in known and target.exists():
                known.add(target)
                waiting.append(target)
    lost = [page.name for page in PAGES if page.path.is_relative_to(REPOSITORY / "docs") and page.path not in known]
    assert not lost
