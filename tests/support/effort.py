"""How much a test tries: little, the same in every run, or much.

`HYPOTHESIS_PROFILE=thorough` asks for much; `make test-long` sets it. A usual run of all tests has ten minutes of
processor time for each of two cores, so it takes samples of what a thorough run tries in full.
"""

from __future__ import annotations

import os
from typing import Final

THOROUGH: Final = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
FACTOR: Final = 20  # a thorough run tries forty times as many examples


def examples(few: int) -> int:
    """Return how many examples a test tries: half of `few` in a usual run, in which they are always the same ones."""
    return few * FACTOR if THOROUGH else (few + 1) // 2


def points(count: int, stride: int, *, first: int = 1) -> range:
    """Return at which of the calls 1 to `count` a test tries something: at each one, or at one of `stride`.

    Parameters
    ----------
    first : the first one that a usual run tries, so that parametrized tests share the calls among them
    """
    return range(1, count + 1) if THOROUGH else range(1 + (first - 1) % stride, count + 1, stride)
