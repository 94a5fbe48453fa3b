"""`pyarrow.compute`, imported at its first use.

The import takes 40 ms, and Spark plans and commits each write in new processes that compute nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """Return a function of `pyarrow.compute`, and keep it."""
    found = globals()[name] = getattr(import_module("pyarrow.compute"), name)
    return found
