"""The keys that docs/reference/key-encoding.md shows are those that we write."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime
from decimal import Decimal

import fdb.tuple
import pyarrow as pa
import pytest

from slatespark.encoding.column_types import TIMESTAMP
from slatespark.encoding.tuple_key import encode_tuple
from slatespark.encoding.type_names import sql_type
from tests.docs.pages import REPOSITORY

TYPES = {
    sql_type(pa.field("", kind)): kind
    for kind in (
        pa.string(),
        pa.binary(),
        pa.int32(),
        pa.int64(),
        pa.date32(),
        TIMESTAMP,
        pa.decimal128(10, 2),
        pa.decimal128(38, 0),
        pa.float32(),
        pa.float64(),
        pa.bool_(),
        pa.struct([("x", pa.int32()), ("name", pa.string())]),
    )
}
NAMES = {"date": date, "datetime": datetime, "UTC": UTC, "Decimal": Decimal, "nan": math.nan}
PAGE = (REPOSITORY / "docs/reference/key-encoding.md").read_text()
VECTORS = re.findall(r"^\| ([^|]+) \| `(.+)` \| `([0-9A-F ]+)` \|$", PAGE.partition("## Examples")[2], re.MULTILINE)


def test_all_types_are_shown() -> None:
    assert {kind for kind, _, _ in VECTORS} == set(TYPES)


@pytest.mark.parametrize(("kind", "value", "key"), VECTORS)
def test_vectors(kind: str, value: str, key: str) -> None:
    assert encode_tuple([eval(value, NAMES.copy())], [TYPES[kind]]) == bytes.fromhex(key)


def test_one_number_is_written_as_the_package_for_python_does() -> None:
    assert fdb.tuple.pack((2**64 - 1,)).hex() == "1d08" + 8 * "ff"
