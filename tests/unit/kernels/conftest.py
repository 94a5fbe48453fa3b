"""Runs every kernel test on all implementations."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from slatespark.kernels._object_code import ObjectCode, levels
from slatespark.kernels.build import kernels as all_kernels
from tests.unit.kernels.implementations import COMPILED, REFERENCE
from tests.unit.kernels.object_code import load_slowest, needs_object_code

OTHER = "compiled for the least processor"


@pytest.fixture(params=["compiled", pytest.param(OTHER, marks=needs_object_code), "reference"])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the kernels of one implementation."""
    if request.param == "reference":
        return REFERENCE
    if request.param == OTHER:
        for kernel in all_kernels(levels()[-1].name):
            function = _least().function(kernel.symbol, kernel.parameters)
            monkeypatch.setattr(kernel, "_compiled", function)
    return COMPILED


@cache
def _least() -> ObjectCode:
    return load_slowest()
