from __future__ import annotations

import pickle

import numpy as np

from slatespark.format.row import Row, rows_to_columns
from slatespark.kernels import gather_keys


def test_a_pickled_copy_has_its_own_addresses() -> None:
    rows = rows_to_columns([Row(b"a", 1, value=b"x"), Row(b"b", 2, value=b"y")])
    order = np.array([1, 0], np.int64)
    expected = gather_keys([rows], order)[1].tobytes()
    copy = pickle.loads(pickle.dumps(rows))
    del rows
    assert not copy.lines
    assert gather_keys([copy], order)[1].tobytes() == expected == b"ba"
