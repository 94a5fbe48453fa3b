"""Functions that options name as `module:function`."""

from __future__ import annotations

import math
import os.path
from pathlib import Path

import pytest

from slatespark.errors import OptionError
from slatespark.options.named_function import import_function


def test_a_function_of_a_module() -> None:
    assert import_function("math:sqrt", "clock") is math.sqrt
    assert import_function("os.path:join", "clock") is os.path.join


@pytest.mark.parametrize(
    "name",
    ["math:nothing", "no_such_module_at_all:f", "math:pi", "math:sqrt.more", "math", "math.sqrt", ":f", ".x:f", ""],
)
def test_what_is_no_function(name: str) -> None:
    with pytest.raises(OptionError, match="clock"):
        import_function(name, "clock")


@pytest.mark.parametrize("code", ["1 / 0", "def f(:", "raise KeyError('setting')", "import no_such_module_at_all"])
def test_a_module_that_fails_while_it_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    (tmp_path / "failing_module.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(OptionError, match="mergeOperator: 'failing_module:f' cannot be imported"):
        import_function("failing_module:f", "mergeOperator")
