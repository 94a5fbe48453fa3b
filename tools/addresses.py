"""Links of the README for a place that shows it without the repository, as a package index does."""

from __future__ import annotations

import re
from configparser import ConfigParser
from pathlib import Path
from typing import Final

_LINK: Final = re.compile(r'(\]\(|src="|srcset=")(?![a-z]+:|#)([^)"]+)')
_PICTURE: Final = re.compile(r"\.(svg|png)$")
_PAGES: Final = {
    "Documentation": "docs/index.md",
    "Changelog": "CHANGELOG.md",
    "Security": "SECURITY.md",
}


def absolute_links(text: str, url: str, tag: str) -> str:
    """Return a page of the top folder whose links and pictures lead to a repository.

    Parameters
    ----------
    url : of the repository; without it the text stays as it is
    tag : of the release that the links are for

    Examples
    --------
    >>> absolute_links("[Install](docs/install.md)", "https://example.org/slatespark", "v1")
    '[Install](https://example.org/slatespark/blob/v1/docs/install.md)'
    """

    def absolute(link: re.Match[str]) -> str:
        kind = "raw" if _PICTURE.search(link[2]) else "blob"
        return f"{link[1]}{url}/{kind}/{tag}/{link[2]}"

    return _LINK.sub(absolute, text) if url else text


def project_urls(url: str, tag: str) -> dict[str, str]:
    """Return the addresses that a package index lists; none without the URL of the repository."""
    if not url:
        return {}
    return {"Source": url, **{name: f"{url}/blob/{tag}/{page}" for name, page in _PAGES.items()}}


def release_tag(folder: Path) -> str:
    """Return the tag of the release that a folder holds."""
    parser = ConfigParser()
    parser.read(folder / "setup.cfg", encoding="utf-8")
    return f"v{parser['metadata']['version']}"
