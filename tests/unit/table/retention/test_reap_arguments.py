"""What a reap takes: it deletes for good, so nothing that would narrow it is ignored."""

from __future__ import annotations

from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from slatespark import OptionError, Reaper, SlateStore
from tests.support.fake_clock import FakeClock

DAY_MS = 86_400_000
_numbers = count()

REFUSED: list[dict[str, Any]] = [
    {"keyPrefix": b"a"},
    {"startKey": b"a"},
    {"replaceWhere": "key = X'61'"},
    {"retention": "90d"},
    {"timestamp": 5},
    {"ttl": "1d"},
    {"opColumn": "op"},
    {"ifLastSeq": 1},
    {"maxBatchRow": 5},
]


@pytest.mark.parametrize("given", REFUSED, ids=[next(iter(given)) for given in REFUSED])
def test_what_it_would_ignore_is_refused(given: dict[str, Any]) -> None:
    clock = FakeClock()
    store = SlateStore.create(f"memory://reap-arguments/{next(_numbers)}", retention="7d", clock=clock)
    store.write(pa.table({"key": [b"a", b"b"], "value": [b"1", b"2"]}))
    clock.advance(8 * DAY_MS)
    for call in (store.reap, lambda **options: store.explain("reap", **options)):
        with pytest.raises(OptionError):
            call(**given)
    with pytest.raises(OptionError):
        Reaper([store.url], options=given)
    assert store.scan(includeExpired=True).read_all().num_rows == 2
    assert store.reap(compression="zstd", ifClientActive="fence", commitRewriteLimit="1m").rows == 2
