"""A clock that notes in a file how often it was read, for processes that a test cannot look into."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Final

# Spark's processes have the environment of the test's, of which several may run at the same time.
_RUN: Final = "-".join(os.environ.get(f"PYTEST_XDIST_{name}", "alone") for name in ("TESTRUNUID", "WORKER"))
READS: Final = Path(tempfile.gettempdir()) / f"slatespark-test-clock-{_RUN}"


def counted_ms() -> int:
    """Return the present in ms; slowly, so that others begin meanwhile."""
    with READS.open("ab") as file:
        file.write(b".")
    time.sleep(0.5)
    return time.time_ns() // 1_000_000
