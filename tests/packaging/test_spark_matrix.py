"""The table that `make test-matrix` prints."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import REPOSITORY


@pytest.fixture(scope="module")
def matrix() -> dict[str, Any]:
    return runpy.run_path(str(REPOSITORY / "tools" / "spark_matrix.py"))


def test_results_are_counted_over_all_suites(matrix: dict[str, Any], tmp_path: Path) -> None:
    report = tmp_path / "results.xml"
    report.write_text(
        '<testsuites><testsuite tests="9" failures="2" errors="1" skipped="3"/><testsuite tests="1"/></testsuites>'
    )
    assert matrix["count_results"](report) == ("4", "2", "1", "3")
    assert matrix["count_results"](tmp_path / "none.xml") == ("-",) * 4


def test_a_row_without_figures_does_not_widen_the_table(matrix: dict[str, Any]) -> None:
    lost = ("4.2", "3.13", "", "the environment could not be built")
    row = ("4.1.4", "3.12.1", "17.0.15", "250", "0", "0", "1", "600")
    assert matrix["format_table"]([matrix["HEADER"], row, lost]).splitlines() == [
        "PySpark  Python  Java     passed  failed  errors  skipped  seconds",
        "4.1.4    3.12.1  17.0.15  250     0       0       1        600",
        "4.2      3.13             the environment could not be built",
    ]


def test_every_supported_release_is_run(matrix: dict[str, Any]) -> None:
    support = (REPOSITORY / "docs" / "reference" / "support.md").read_text()
    for release in matrix["RELEASES"]:
        assert f"| {release}." in support, f"support.md does not say what was run on PySpark {release}"


def test_every_requirement_is_pinned_to_its_lower_bound(matrix: dict[str, Any]) -> None:
    text = "[options]\ninstall_requires =\n    numpy>=1.26\n    # why\n    pyspark>=4.1\n"
    lower_bounds, read_settings = matrix["lower_bounds"], matrix["_read_settings"]
    assert lower_bounds(read_settings(text)) == ("numpy==1.26", "pyspark==4.1")
    assert len(lower_bounds(read_settings((REPOSITORY / "setup.cfg").read_text()))) >= 10
    with pytest.raises(ValueError, match="numpy"):
        lower_bounds(read_settings(text.replace(">=1.26", "")))
