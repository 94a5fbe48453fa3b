"""A clock that notes in a file how often it was read, for processes that a test cannot look into."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Final

READS: Final = Path(tempfile.gettempdir()) / "slatespark-test-clock"


def counted_ms() -> int:
    """Return the present in ms; slowly, so that others begin meanwhile."""
    with READS.open("ab") as file:
        file.write(b".")
    time.sleep(0.5)
    return time.time_ns() // 1_000_000
