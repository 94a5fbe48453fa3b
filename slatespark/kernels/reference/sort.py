"""Sort of rows by key."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels.columns import RowColumns


def sort_rows(rows: RowColumns) -> NDArray[np.int64]:
    """See `slatespark.kernels.sort_rows`."""
    return np.array(sorted(range(len(rows)), key=rows.key), np.int64)
