"""Encodings of a columnar copy: what Parquet then stores, and that it reads back."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slatespark.format.copy_encodings import MOST_BITS, encodings_of

ROWS = 1000
NUMBERS = np.arange(ROWS)

DICTIONARY = "RLE_DICTIONARY"
DELTA = "DELTA_BINARY_PACKED"
PLAIN = "PLAIN"

COLUMNS: dict[str, tuple[Any, str]] = {
    "unique numbers": (NUMBERS, DELTA),
    "descending numbers": (-NUMBERS, DELTA),
    "few numbers": (NUMBERS % 250, DICTIONARY),
    "a few numbers too many": (NUMBERS % 251, DELTA),
    "small numbers": (pa.array(NUMBERS, pa.int16()), DELTA),
    "as wide as is worth it": (NUMBERS * (((1 << MOST_BITS) - 1) // (ROWS - 1)), DELTA),
    "wide": (NUMBERS * ((1 << MOST_BITS) // (ROWS - 1) + 1), PLAIN),
    "widest": (np.where(NUMBERS % 2, -(2**63), 2**63 - 1) ^ NUMBERS, PLAIN),
    "unique or null": ([None if number % 2 else number for number in range(ROWS)], DELTA),
    "null": (pa.nulls(ROWS, pa.int64()), DICTIONARY),
    "times": (pa.array(NUMBERS * 1_000_003, pa.timestamp("us", "UTC")), DELTA),
    "dates": (pa.array(NUMBERS.astype(np.int32), pa.date32()), DELTA),
    "doubles": (NUMBERS / 7, PLAIN),
    "few doubles": (NUMBERS % 10 / 7, DICTIONARY),
    "texts": ([f"{number}" for number in range(ROWS)], PLAIN),
    "few texts": ([f"{number % 10}" for number in range(ROWS)], DICTIONARY),
    "bytes": ([b"%d" % number for number in range(ROWS)], PLAIN),
    "decimals": (pa.array(NUMBERS.tolist(), pa.decimal128(20, 2)), PLAIN),
    "truths": (NUMBERS % 2 == 0, PLAIN),
    "lists": ([[{"a": number, "b": {"c.d": str(number)}}, None] for number in range(ROWS)], DICTIONARY),
    "maps": (pa.array([[("k", number)] for number in range(ROWS)], pa.map_(pa.string(), pa.int64())), DICTIONARY),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column(name: str) -> None:
    values, expected = COLUMNS[name]
    rows = pa.table({name: values, "and.another": NUMBERS})
    data = io.BytesIO()
    pq.write_table(rows, data, **encodings_of(rows))
    file = pq.ParquetFile(data)
    group = file.metadata.row_group(0)
    stored = [set(group.column(leaf).encodings) - {"RLE"} for leaf in range(group.num_columns - 1)]
    assert stored == [{DICTIONARY, PLAIN} if expected == DICTIONARY else {expected}] * len(stored)
    assert file.read().equals(rows)


def test_a_column_with_the_name_of_a_part() -> None:
    rows = pa.table({"a": [{"b": number} for number in range(ROWS)], "a.b": NUMBERS})
    data = io.BytesIO()
    pq.write_table(rows, data, **encodings_of(rows))
    assert pq.read_table(data).equals(rows)


def test_no_rows() -> None:
    rows = pa.table({"a": NUMBERS, "b": [[1]] * ROWS}).slice(0, 0)
    data = io.BytesIO()
    pq.write_table(rows, data, **encodings_of(rows))
    assert pq.read_table(data).equals(rows)
