from __future__ import annotations

import pickle

import numpy as np

from slatespark.format.row import Row, rows_to_columns
from slatespark.kernels import gather_keys
from slatespark.kernels.columns import ROW_BITS, ROW_MASK, all_rows, packed_rows


def test_a_pickled_copy_has_its_own_addresses() -> None:
    rows = rows_to_columns([Row(b"a", 1, value=b"x"), Row(b"b", 2, value=b"y")])
    order = np.array([1, 0], np.int64)
    expected = gather_keys([rows], order)[1].tobytes()
    copy = pickle.loads(pickle.dumps(rows))
    del rows
    assert not copy.lines
    assert gather_keys([copy], order)[1].tobytes() == expected == b"ba"


def test_packed_rows_follow_each_other_source_by_source() -> None:
    sources = [rows_to_columns([Row(key, 1) for key in keys]) for keys in ([b"a", b"b"], [], [b"c"])]
    found = all_rows(sources)
    assert ((found >> ROW_BITS).tolist(), (found & ROW_MASK).tolist()) == ([0, 0, 2], [0, 1, 0])
    assert found[2:].tolist() == packed_rows(2, 1).tolist()
    assert all_rows([]).tolist() == []
