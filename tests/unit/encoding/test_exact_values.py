"""Tests for Python values of columns: times of numpy, which pyarrow would cast to any type."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.encoding.column_types import DURATION, TIME, TIMESTAMP, TIMESTAMP_NTZ
from slatespark.encoding.exact_values import exact_value
from slatespark.errors import InvalidRequestError

DAY_US = 86_400_000_000


@pytest.mark.parametrize(
    ("value", "kind", "number"),
    [
        (np.datetime64("1970-01-02T12:00"), TIMESTAMP, DAY_US * 3 // 2),
        (np.datetime64("1970-01-02"), TIMESTAMP_NTZ, DAY_US),
        (np.datetime64("1971", "Y"), TIMESTAMP_NTZ, 365 * DAY_US),
        (np.datetime64(-1_000, "ns"), TIMESTAMP, -1),
        (np.datetime64("1970-01-02"), pa.date32(), 1),
        (np.datetime64("1969-12-31T00:00:00.000000000"), pa.date32(), -1),
        (np.datetime64("1970-02", "M"), pa.date32(), 31),
        (np.timedelta64(3, "h"), DURATION, DAY_US // 8),
        (np.timedelta64(-1_000, "ns"), DURATION, -1),
    ],
    ids=str,
)
def test_times_of_numpy(value: object, kind: pa.DataType, number: int) -> None:
    assert exact_value(value, kind) == number


@pytest.mark.parametrize(
    "kind", [TIME, pa.int64(), pa.float64(), pa.string(), pa.binary(), pa.decimal128(38, 0)], ids=str
)
@pytest.mark.parametrize(
    "value", [np.datetime64("2020-01-01"), np.datetime64(5, "ns"), np.timedelta64(5, "s")], ids=str
)
def test_times_of_numpy_for_columns_of_other_types(value: object, kind: pa.DataType) -> None:
    with pytest.raises(TypeError):
        exact_value(value, kind)


@pytest.mark.parametrize(
    ("value", "kind"),
    [(np.timedelta64(1, "D"), TIMESTAMP), (np.timedelta64(1, "D"), pa.date32()), (np.datetime64(1, "D"), DURATION)],
)
def test_a_span_is_no_instant(value: object, kind: pa.DataType) -> None:
    with pytest.raises(TypeError):
        exact_value(value, kind)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (np.datetime64("2020-01-01T12:00"), pa.date32()),
        (np.datetime64(1, "ns"), TIMESTAMP),
        (np.timedelta64(1, "ns"), DURATION),
        (np.timedelta64(1, "M"), DURATION),
        (np.ones(1, "i8").view("m8")[0], DURATION),  # without a unit
        (np.datetime64("NaT", "us"), TIMESTAMP),
        (np.datetime64("NaT", "D"), pa.date32()),
        (np.timedelta64("NaT", "us"), DURATION),
        (np.datetime64(1 << 62, "s"), TIMESTAMP),
        (np.datetime64(1 << 62, "Y"), TIMESTAMP),
        (np.datetime64(1 << 40, "D"), pa.date32()),
        (np.timedelta64(1 << 62, "W"), DURATION),
    ],
    ids=repr,
)
def test_times_of_numpy_that_would_change(value: object, kind: pa.DataType) -> None:
    with pytest.raises(ValueError, match=r"it |months"):
        exact_value(value, kind)


def test_a_time_of_day_finds_no_key_of_a_date() -> None:
    store = SlateStore.create("memory://exact-values-of-numpy", "d DATE, v BIGINT", "d")
    store.write(pa.table({"d": pa.array([18262], pa.date32()), "v": [1]}))
    with pytest.raises(InvalidRequestError):
        store.erase(np.datetime64("2020-01-01T12:00:00"))
    assert store.get(np.datetime64("2020-01-01")) is not None
