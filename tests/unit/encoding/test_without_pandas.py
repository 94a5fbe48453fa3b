from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slatespark.encoding.plain_values import first_value, python_values
from slatespark.encoding.without_pandas import array_of, array_of_numpy, numpy_of, words_of
from slatespark.errors import InternalError


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([True, None, False], pa.bool_()),
        ([-128, None, 127], pa.int8()),
        ([-(1 << 63), (1 << 63) - 1], pa.int64()),
        ([1.5, None, float("nan"), -0.0, float("inf")], pa.float32()),
        ([0.1, -0.0, 5e-324], pa.float64()),
        (["", None, "ä€😀", "a\0b"], pa.string()),
        ([b"", None, b"\xff\0"], pa.binary()),
        ([b"", None, b"\xff\0"], pa.large_binary()),
        ([Decimal("1.25"), None, Decimal("-99.9"), Decimal(0)], pa.decimal128(4, 2)),
        ([Decimal(10**38 - 1), Decimal(1 - 10**38)], pa.decimal128(38, 0)),
        ([date(1, 1, 1), None, date(9999, 12, 31), 5], pa.date32()),
        ([-(1 << 63), None, 1], pa.timestamp("us", tz="UTC")),
        ([datetime(2026, 1, 1, tzinfo=UTC), None], pa.timestamp("us", tz="UTC")),
        ([5, None], pa.duration("us")),
        ([5, None], pa.time64("ns")),
        ([[1, None], None], pa.list_(pa.int64())),
        ([{"a": 1}, None], pa.struct([("a", pa.int64())])),
    ],
)
def test_arrays_are_those_of_pyarrow(values: list[Any], kind: pa.DataType) -> None:
    for some in (values, values[:1], [value for value in values if value is not None], [None], []):
        found, expected = array_of(some, kind), pa.array(some, kind)
        found.validate(full=True)
        assert (found.type, repr(python_values(found))) == (expected.type, repr(python_values(expected)))
        assert found.null_count == expected.null_count


@pytest.mark.parametrize(
    ("value", "kind"), [(128, pa.int8()), (1 << 63, pa.int64()), (1 << 31, pa.date32()), ("\ud800", pa.string())]
)
def test_what_does_not_fit_is_refused(value: Any, kind: pa.DataType) -> None:
    with pytest.raises((ValueError, OverflowError)):
        array_of([value], kind)


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.int32, np.int64, np.float32, np.float64])
def test_numpy_there_and_back(dtype: Any) -> None:
    values = np.arange(21).astype(dtype)
    there = np.arange(21) % 3 != 0
    for part in (slice(None), slice(3, 17), slice(0, 0), slice(None, None, 2)):
        whole = array_of_numpy(values[part])
        assert whole.equals(pa.array(values[part]))
        assert numpy_of(whole).tolist() == values[part].tolist()
        assert numpy_of(pa.chunked_array([whole, whole])).tolist() == [*values[part], *values[part]]
        gaps = array_of_numpy(values[part], there[part])
        assert gaps.equals(pa.array(values[part], mask=~there[part]))
        assert numpy_of(gaps, 0).tolist() == np.where(there[part], values[part], 0).tolist()
    assert numpy_of(array_of_numpy(values)[5:14]).tolist() == values[5:14].tolist()
    assert numpy_of(array_of_numpy(values, there)[5:14], 0).dtype == dtype


def test_nulls_need_a_value() -> None:
    with pytest.raises(InternalError):
        numpy_of(pa.array([1, None]))


def test_words() -> None:
    assert words_of(np.array([1, 0, 1], np.int8), ("a", "b")).equals(pa.array(["b", "a", "b"]))


def test_the_first_value_is_that_of_pyarrow() -> None:
    zoned, plain = pa.timestamp("us", tz="UTC"), pa.timestamp("us")
    moment = datetime(2026, 1, 1, 1, 2, 3, 4, tzinfo=UTC)
    for value, kind in [(moment, zoned), (None, zoned), (moment.replace(tzinfo=None), plain), (1 << 62, zoned)]:
        assert first_value(pa.array([value], kind)) == value
