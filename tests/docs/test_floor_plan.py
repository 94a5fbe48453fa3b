"""The floor plan in the documentation is that of the code."""

from __future__ import annotations

import configparser
import itertools
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "architecture.md").read_text()
TABLE = ROOT / "slatespark" / "table"


def layers() -> list[str]:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    return config["importlinter:contract:table"]["layers"].split()


def test_every_part_is_a_layer() -> None:
    parts = {path.stem for path in TABLE.iterdir() if path.name != "__init__.py" and not path.name.startswith("__")}
    assert set(layers()) == parts


def test_the_picture_has_every_part_in_the_order_of_the_imports() -> None:
    picture = PAGE.partition("## Inside `table/`")[2].partition("```text")[2].partition("```")[0]
    rows = [re.findall(r"[a-z_]{2,}(?=/|\s|$)", line[:55]) for line in picture.splitlines()]
    drawn = [[name for name in row if (TABLE / name).exists() or (TABLE / f"{name}.py").exists()] for row in rows]
    assert sorted(name for row in drawn for name in row) == sorted(layers())
    order = {name: place for place, name in enumerate(layers())}
    places = [[order[name] for name in row] for row in drawn if row]
    assert all(max(upper) < min(lower) for upper, lower in itertools.pairwise(places))


def test_the_files_that_are_named_exist() -> None:
    rows = PAGE.partition("| To change | open |")[2].partition("\n\n")[0]
    named = re.findall(r"`([a-z_]+/[a-z_]*(?:\.py)?)`", rows)
    assert len(named) > 15
    for name in named:
        if name == "slatespark/":  # of a database
            continue
        assert (TABLE / name).exists() or (ROOT / "slatespark" / name).exists(), name
