"""The pictures of the documentation can be drawn again, and say what the pages say."""

from __future__ import annotations

import re
import runpy
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.docs.pages import REPOSITORY

IMAGES = REPOSITORY / "docs" / "images"


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="matplotlib comes with the extra notebook.")
def test_pictures_are_drawn_from_a_table_and_from_the_figures(tmp_path: Path) -> None:
    files = runpy.run_path(str(REPOSITORY / "tools" / "pictures.py"))["draw"](tmp_path)
    assert {path.name for path in files} == {path.name for path in IMAGES.glob("*-*.svg")}
    for path in files:
        assert words(path) == words(IMAGES / path.name), f"{path.name} is stale: run `python tools/pictures.py`"


def words(picture: Path) -> list[str]:
    """What a picture says; where it says it depends on the release of matplotlib."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", picture.read_text())


def test_pictures_of_pages_exist() -> None:
    for page in [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")]:
        for place in re.findall(r"!\[[^\]]*\]\(([^)#\s]+)|(?:src|srcset)=\"([^\"]+)\"", page.read_text()):
            assert (page.parent / "".join(place)).exists(), f"{page.name}: {place}"
