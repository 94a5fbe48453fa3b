"""Functions that options name as `module:function`."""

from __future__ import annotations

import math
import os.path

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
