"""No module of the package or of its tests is too long to be read as one concept."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

import slatespark
import tests

MAX_LINES = 500


@pytest.mark.parametrize("package", [slatespark, tests])
def test_modules_are_short(package: ModuleType) -> None:
    folder = Path(str(package.__file__)).parent
    modules = [path for path in sorted(folder.rglob("*.py")) if path.parent.name != "_generated"]
    lengths = {str(path.relative_to(folder)): len(path.read_text().splitlines()) for path in modules}
    assert {name: length for name, length in lengths.items() if length > MAX_LINES} == {}
