"""The generated pages are what the code says now."""

from __future__ import annotations

import runpy

from tests.docs.pages import REPOSITORY


def test_reference_pages_are_current() -> None:
    pages = runpy.run_path(str(REPOSITORY / "tools" / "reference_pages.py"))["reference_pages"]()
    for path, text in pages.items():
        is_current = path.exists() and path.read_text() == text
        assert is_current, f"{path.relative_to(REPOSITORY)} is stale: run `python tools/reference_pages.py`"


def test_every_option_and_every_error_is_there() -> None:
    import slatespark
    from slatespark.options import ReadOptions, WriteOptions, option_rows

    options = (REPOSITORY / "docs" / "reference" / "options.md").read_text()
    for key, _, _ in [*option_rows(ReadOptions), *option_rows(WriteOptions)]:
        assert f"`{key}`" in options
    errors = (REPOSITORY / "docs" / "reference" / "errors.md").read_text()
    for name in slatespark.__all__:
        assert not name.endswith("Error") or f"`{name}`" in errors
