"""A stream of which a driver and workers are killed; `python -m tests.faults.killed_streams` does it more often."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.faults.killed_streams import KilledStream
from tests.faults.streaming_child import ROWS


@pytest.mark.cluster
@pytest.mark.slow
def test_every_row_is_there_once(tmp_path: Path) -> None:
    stream = KilledStream(tmp_path, np.random.default_rng(7))
    assert stream.run(kills=3, of_drivers=1) > 3 * ROWS
    assert stream.kills == {"driver": 1, "worker": 2}
