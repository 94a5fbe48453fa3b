"""Small row groups for all tests of this folder, and a table with copies."""

from __future__ import annotations

import pytest

from slatespark.table.columns import write as copy_writing
from tests.unit.table.read.copies.copied_table import GROUP, Place


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_writing, "GROUP_ROWS", GROUP)
    monkeypatch.setattr(copy_writing, "WINDOW_BYTES", 4096)


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Place:
    made = Place(monkeypatch)
    made.load()
    return made
