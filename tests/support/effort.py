"""How much a random test tries: few examples, the same in every run, or many.

`HYPOTHESIS_PROFILE=thorough` asks for many; `make test-long` sets it.
"""

from __future__ import annotations

import os
from typing import Final

THOROUGH: Final = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
FACTOR: Final = 10  # how many times as many a thorough run tries


def examples(few: int) -> int:
    """Return how many examples a test tries that is worth `few` of them in a usual run."""
    return few * FACTOR if THOROUGH else few
