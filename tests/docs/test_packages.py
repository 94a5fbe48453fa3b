"""A page whose blocks import a package that slatespark does not bring says how to install it."""

from __future__ import annotations

import ast
import configparser
import re
import sys
from collections.abc import Iterator

import pytest

from tests.docs.pages import PYTHON, REPOSITORY, Page, all_pages

DISTRIBUTIONS = {"fdb": "foundationdb"}  # where its name is not that of the module


def requirements() -> set[str]:
    config = configparser.ConfigParser()
    config.read(REPOSITORY / "setup.cfg")
    return {re.split(r"[><=~]", line)[0] for line in config["options"]["install_requires"].split()}


def imported(page: Page) -> Iterator[str]:
    """The packages that a page imports."""
    for block in page.blocks():
        for node in ast.walk(ast.parse(block.text)) if block.language == PYTHON else ():
            if isinstance(node, ast.Import):
                yield from (item.name.partition(".")[0] for item in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield node.module.partition(".")[0]


@pytest.mark.parametrize("page", all_pages(), ids=lambda page: page.name)
def test_packages_of_a_page_are_named(page: Page) -> None:
    ours = {"slatespark", *requirements(), *sys.stdlib_module_names}
    others = {DISTRIBUTIONS.get(name, name) for name in imported(page) if name not in ours}
    installed = " ".join(re.findall(r"pip\s+install\s+([^`]+)`", page.text))
    assert not [name for name in others if name not in installed]


def test_pages_install_nothing_that_is_not_there() -> None:
    """slatespark is in no registry yet: its extras are installed from a clone."""
    assert not [page.name for page in all_pages() if re.search(r"pip\s+install\s+'?slatespark", page.text)]
