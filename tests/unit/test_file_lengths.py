"""No module of the package is too long to be read as one concept."""

from __future__ import annotations

from pathlib import Path

import slatespark

MAX_LINES = 500


def test_modules_are_short() -> None:
    package = Path(slatespark.__file__).parent
    modules = [path for path in sorted(package.rglob("*.py")) if path.parent.name != "_generated"]
    lengths = {str(path.relative_to(package)): len(path.read_text().splitlines()) for path in modules}
    assert {name: length for name, length in lengths.items() if length > MAX_LINES} == {}
