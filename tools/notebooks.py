"""Run the notebooks of examples/ and keep what they show: `python tools/notebooks.py [NAME ...]`.

What differs from run to run and tells nobody anything is left out: warnings on standard error, bars of progress, and
the path of the temporary folder.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import nbformat
from nbclient import NotebookClient

REPOSITORY: Final = Path(__file__).resolve().parent.parent
EXAMPLES: Final = REPOSITORY / "examples"
SECONDS: Final = 300  # for a cell

# What a command draws in the terminal of a cell and erases at its end, if it is slow enough for a bar, and what Jupyter
# adds because of it.
_BAR: Final = re.compile(r"\x1b\[\?25l.*?\x1b\[\?25h(?:\s|\x1b\[\d*[AK])*|\x1b\[0m", re.DOTALL)


def read(path: Path) -> Any:
    """Return a notebook."""
    return nbformat.read(path, as_version=4)


def execute(notebooks: Iterable[Any], folder: str, **environment: str) -> None:
    """Run notebooks one after the other in one kernel, which forgets all names in between; they keep what they show."""
    joined = nbformat.v4.new_notebook()
    for notebook in notebooks:
        joined.cells += [*notebook.cells, nbformat.v4.new_code_cell("%reset -f")]
    client = NotebookClient(
        joined,
        timeout=SECONDS,
        kernel_name="python3",
        record_timing=False,
        resources={"metadata": {"path": folder}},
    )
    client.execute(env={**os.environ, **environment, "PYTHONPATH": str(REPOSITORY), "TMPDIR": folder})
    count = 0
    for cell in joined.cells:
        if cell.cell_type == "code":
            count = 0 if cell.source == "%reset -f" else count + 1
            cell.execution_count = count
            cell.outputs = _joined([_tidied(item, folder) for item in cell.outputs if not _is_passing(item)])
            for output in cell.outputs:
                if output.output_type == "stream":
                    output.text = _BAR.sub("", output.text)


def _is_passing(output: Any) -> bool:
    """Return whether an output is a warning, or what a bar of progress leaves."""
    data = output.get("data", {})
    is_bar = output.output_type == "display_data" and "image/png" not in data and not data.get("text/html")
    return output.get("name") == "stderr" or is_bar


def _joined(outputs: list[Any]) -> list[Any]:
    """Return outputs with what was printed piece by piece in one."""
    joined: list[Any] = []
    for output in outputs:
        if joined and output.output_type == joined[-1].output_type == "stream":
            joined[-1].text += output.text
        else:
            joined.append(output)
    return joined


def _tidied(output: Any, folder: str) -> Any:
    """Return an output without the name of the temporary folder."""
    if output.output_type == "execute_result":
        output.execution_count = None
    for data in (output, output.get("data", {})):
        for kind in ("text", "text/plain", "text/html"):
            if kind in data:
                data[kind] = re.sub(rf"{re.escape(folder)}(/tmp\w+)?", "/tmp", data[kind])
    return output


if __name__ == "__main__":
    names = sys.argv[1:] or sorted(path.stem for path in EXAMPLES.glob("*.ipynb"))
    for name in names:
        notebook = read(EXAMPLES / f"{name}.ipynb")
        with tempfile.TemporaryDirectory() as temporary:
            execute([notebook], temporary)
        nbformat.write(notebook, EXAMPLES / f"{name}.ipynb")
        print(f"examples/{name}.ipynb")
