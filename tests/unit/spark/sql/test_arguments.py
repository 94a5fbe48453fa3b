"""Parameters of a statement, replaced by literals."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any

import numpy as np
import pytest

from slatespark import OptionError
from slatespark.spark.sql.arguments import with_literals
from slatespark.spark.sql.mentions import find_tokens


class Place(str, Enum):  # noqa: UP042  # f-strings show its name
    HOME = "at home"


class Size(int, Enum):
    LARGE = 9


def bound(text: str, args: Any) -> str:
    return with_literals(text, find_tokens(text), args)


@pytest.mark.parametrize(
    ("value", "literal"),
    [
        (None, "NULL"),
        (True, "TRUE"),
        ("plain", "'plain'"),
        ("it's \\ ${x}", "CAST(X'69742773205c20247b787d' AS STRING)"),
        (Place.HOME, "'at home'"),
        (Size.LARGE, " 9 "),
        (b"\x00\xff", "X'00ff'"),
        (-5, " -5 "),
        (1.5, " 1.5D "),
        (np.float64(2.5), " 2.5D "),
        (float("nan"), "CAST('nan' AS DOUBLE)"),
        (Decimal("-1.50"), " -1.50BD "),
        (date(2026, 1, 31), "DATE '2026-01-31'"),
        (datetime(2026, 1, 31, 12, tzinfo=UTC), "TIMESTAMP '2026-01-31T12:00:00+00:00'"),
    ],
)
def test_values(value: Any, literal: str) -> None:
    assert bound("a -:x-1", {"x": value}) == f"a -{literal}-1"
    assert bound("a = ?", [value]) == f"a = {literal}"


def test_what_is_a_parameter() -> None:
    text = "UPDATE t SET s = CAST(:v AS STRUCT<v:INT, w: ARRAY<STRUCT<v:INT>>>), a = ':v' /* :v */, b = :v::INT -- :v"
    assert bound(text, {"v": 1}) == text.replace("(:v", "( 1 ").replace("= :v", "=  1 ")
    assert bound("a = '?' AND b = ? AND c < ?", [1, 2]) == "a = '?' AND b =  1  AND c <  2 "
    assert bound("map < :p AND array<:p AND a.struct < :p", {"p": 1}) == "map <  1  AND array< 1  AND a.struct <  1 "
    assert bound("CREATE TABLE t (id INT, s STRUCT<v:INT>)", {"v": 1}).endswith("STRUCT<v:INT>)")
    assert bound(":a < :b AND :b > :a", {"a": 1, "b": 2, "unused": 3}) == " 1  <  2  AND  2  >  1 "


def test_what_is_refused() -> None:
    for text, args, word in [
        ("a = :y", {"x": 1}, "no argument"),
        ("a = ? AND b = ?", [1], "no argument"),
        ("a = ?", [1, 2], "2 values"),
        ("a = :x", {"x": [1]}, "list"),
        ("a = :x", {"x": Decimal("NaN")}, "Decimal"),
        ("a = :x", "x", "str"),
    ]:
        with pytest.raises(OptionError, match=word):
            bound(text, args)
