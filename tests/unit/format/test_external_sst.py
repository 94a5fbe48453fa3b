"""External SSTs: an SST with a label. No damage may change the label undetected."""

from __future__ import annotations

import numpy as np

from slatespark.format.external_sst import decode_external_sst, label_sst
from slatespark.format.row import Row, rows_to_columns
from slatespark.format.sst import SstBuilder

LABEL = {"version": 1, "text": "ünïcode", "more": [1, None]}


def built(count: int = 3) -> bytes:
    builder = SstBuilder(created_ms=5)
    rows = [Row(b"%03d" % number, 1, value=b"v", create_ts_ms=number) for number in range(count)]
    builder.add([rows_to_columns(rows)], np.arange(count, dtype=np.int64))
    return b"".join(builder.finish().parts)


def test_a_label_changes_nothing_else() -> None:
    plain = built()
    assert decode_external_sst(plain) is None
    end = decode_external_sst(labelled := label_sst(plain, LABEL))
    assert end is not None
    assert end.label == LABEL
    assert (end.properties.puts, end.properties.created_ms) == (3, 5)
    assert labelled[: end.info.sections_end] == plain[: end.info.sections_end]


def test_another_label_replaces_it() -> None:
    end = decode_external_sst(label_sst(label_sst(built(), LABEL), {"version": 2}))
    assert end is not None
    assert end.label == {"version": 2}
