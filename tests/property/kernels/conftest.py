from __future__ import annotations

from tests.unit.kernels.conftest import kernels as kernels
