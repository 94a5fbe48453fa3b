"""Choice of the implementation: numba or plain Python."""

from __future__ import annotations

import os
import warnings
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Final

from slatespark.errors import OptionError

VARIABLE: Final = "SLATESPARK_KERNELS"


@cache
def implementation() -> str:
    """Return the implementation requested by SLATESPARK_KERNELS, by default numba if it is installed.

    Evaluated once per process. numba itself is not imported here: a driver that only plans does not need it.
    """
    wanted = os.environ.get(VARIABLE, "")
    if wanted in ("numba", "reference"):
        return wanted
    if wanted:
        raise OptionError(f"{VARIABLE} is {wanted!r}, expected 'numba' or 'reference'.")
    # With its compiler disabled, numba cannot run functions that use raw addresses.
    return "numba" if find_spec("numba") and os.environ.get("NUMBA_DISABLE_JIT", "0") == "0" else "reference"


@cache
def kernel_module(name: str) -> ModuleType:
    """Return the module `name` of the chosen implementation."""
    if implementation() == "numba":
        try:
            return import_module(f"slatespark.kernels.{name}")
        except ImportError as error:
            if os.environ.get(VARIABLE):
                raise
            warnings.warn(f"slatespark runs slowly, without compiled kernels: {error}", RuntimeWarning, stacklevel=3)
    return import_module(f"slatespark.kernels.reference.{name}")
