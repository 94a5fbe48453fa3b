"""Times that a timestamp of a columnar copy cannot show."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.units import MAX_TIMESTAMP_MS

LEAST, GREATEST = -(2**63), 2**63 - 1
_numbers = itertools.count()


@pytest.mark.parametrize(
    ("time_ms", "is_held"),
    [
        (LEAST, False),
        (LEAST + 1, False),
        (-MAX_TIMESTAMP_MS - 1, False),
        (-MAX_TIMESTAMP_MS, True),
        (MAX_TIMESTAMP_MS, True),
        (MAX_TIMESTAMP_MS + 1, False),
        (GREATEST, False),
    ],
)
def test_a_copy_holds_only_times_that_a_timestamp_can_show(time_ms: int, is_held: bool) -> None:
    """One of the least time of all was written, and showed its rows with another time, after their expiry too."""
    store = SlateStore.create(
        f"memory://far-times/{next(_numbers)}", clock="custom", columnar=True, retention=f"{GREATEST}ms"
    )
    store.write(pa.table({"key": [b"old"], "value": [b"x"]}), timestamp=time_ms)
    store.write(pa.table({"key": [b"new"], "value": [b"y"]}), timestamp=max(time_ms, -1000))
    copies = store.compact(full=True, force=True).copies
    assert [copy.refused is None for copy in copies] == [is_held]
    assert store.scan(now=0).read_all() == store.scan(now=0, useCopies=False).read_all()
