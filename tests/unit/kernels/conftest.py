"""Runs every kernel test on both implementations."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.kernels.implementations import COMPILED, REFERENCE


@pytest.fixture(params=["compiled", "reference"])
def kernels(request: pytest.FixtureRequest) -> Any:
    """Return the kernels of one implementation."""
    return COMPILED if request.param == "compiled" else REFERENCE
