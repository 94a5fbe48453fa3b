"""Choice of the implementation: compiled kernels or plain Python."""

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
def choice() -> str:
    """Return what SLATESPARK_KERNELS asks for; evaluated once per process.

    `prebuilt` is object code made ahead of time and nothing else, `numba` code compiled in this process, `reference`
    plain Python. Empty leaves it to `slatespark`: the first of these that it can have.
    """
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", "prebuilt", "numba", "reference"):
        raise OptionError(f"{VARIABLE} is {wanted!r}, expected 'prebuilt', 'numba' or 'reference'.")
    return wanted


@cache
def implementation() -> str:
    """Return the set of kernels that this process uses: `compiled` or `reference`.

    Nothing is imported or loaded here: a driver that only plans needs no compiled kernel.
    """
    if choice():
        return "reference" if choice() == "reference" else "compiled"
    # With its compiler disabled, numba cannot run functions that use raw addresses.
    return "compiled" if find_spec("llvmlite") and os.environ.get("NUMBA_DISABLE_JIT", "0") == "0" else "reference"


@cache
def kernel_module(name: str) -> ModuleType:
    """Return the module `name` of the chosen implementation."""
    if implementation() == "compiled":
        try:
            return import_module(f"slatespark.kernels.{name}")
        except ImportError as error:
            if choice():
                raise
            warnings.warn(f"slatespark runs slowly, without compiled kernels: {error}", RuntimeWarning, stacklevel=3)
    return import_module(f"slatespark.kernels.reference.{name}")
