"""Row times from a column: milliseconds, rounded down, all of them in range."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from slatespark.errors import SchemaError
from slatespark.table.rows.row_times import check_timestamp_type, times_of

MAX_MS = 2**63 - 1


@pytest.mark.parametrize(
    ("kind", "fits"),
    [
        (pa.timestamp("us", "UTC"), True),
        (pa.timestamp("s"), True),
        (pa.int64(), True),
        (pa.uint8(), True),
        (pa.date32(), False),
        (pa.string(), False),
        (pa.float64(), False),
        (pa.duration("ms"), False),
        (pa.bool_(), False),
    ],
)
def test_types_that_hold_times(kind: pa.DataType, fits: bool) -> None:
    field = pa.field("at", kind)
    if fits:
        check_timestamp_type(field)
    else:
        with pytest.raises(SchemaError, match="timestampColumn: at"):
            check_timestamp_type(field)


@pytest.mark.parametrize(
    ("numbers", "kind", "times"),
    [
        ([], pa.timestamp("us"), []),
        ([-1, 0, 999, 1000, 1999], pa.timestamp("us", "UTC"), [-1, 0, 0, 1, 1]),
        ([-1_000_001, -1_000_000, 999_999], pa.timestamp("ns"), [-2, -1, 0]),
        ([-2, 3], pa.timestamp("s", "Europe/Berlin"), [-2000, 3000]),
        ([-(2**63), MAX_MS], pa.timestamp("ms"), [-(2**63), MAX_MS]),
        ([-(2**63), MAX_MS], pa.int64(), [-(2**63), MAX_MS]),
        ([0, MAX_MS], pa.uint64(), [0, MAX_MS]),
        ([-128], pa.int8(), [-128]),
        ([MAX_MS // 1000, -(MAX_MS // 1000)], pa.timestamp("s"), [MAX_MS // 1000 * 1000, -(MAX_MS // 1000 * 1000)]),
    ],
)
def test_milliseconds(numbers: list[int], kind: pa.DataType, times: list[int]) -> None:
    column = pa.chunked_array([pa.array(numbers[:1], kind), pa.array(numbers[1:], kind)])
    assert times_of(column, "at").tolist() == times


@pytest.mark.parametrize(
    ("numbers", "kind"),
    [
        ([0, None], pa.int64()),
        ([0, 2**63], pa.uint64()),
        ([0, MAX_MS // 1000 + 1], pa.timestamp("s")),
        ([0, -(MAX_MS // 1000) - 1], pa.timestamp("s")),
    ],
)
def test_rows_without_a_time(numbers: list[Any], kind: pa.DataType) -> None:
    with pytest.raises(SchemaError, match="timestampColumn: at"):
        times_of(pa.chunked_array([pa.array(numbers, kind)]), "at")
