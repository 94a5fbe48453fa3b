"""Random rows of every flat type, and random filters on them as Spark SQL takes them."""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

Item = TypeVar("Item")


class Dice:
    """A seeded generator of Python values."""

    def __init__(self, seed: int) -> None:
        self._numbers = np.random.default_rng(seed)

    def random(self) -> float:
        return float(self._numbers.random())

    def randint(self, low: int, high: int) -> int:
        return int(self._numbers.integers(low, high + 1))

    def choice(self, items: Sequence[Item]) -> Item:
        return items[self.randint(0, len(items) - 1)]


UTC = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    [
        ("flag", pa.bool_()),
        ("tiny", pa.int8()),
        ("number", pa.int32()),
        ("big", pa.int64()),
        ("price", pa.decimal128(10, 2)),
        ("wide", pa.decimal128(38, 0)),
        ("half", pa.float32()),
        ("double", pa.float64()),
        ("text", pa.string()),
        ("data", pa.binary()),
        ("day", pa.date32()),
        ("moment", UTC),
        ("local", pa.timestamp("us")),
        ("Mixed Case", pa.int32()),
    ]
)

TEXTS = [
    "",
    "a",
    "ab",
    "a%b",
    "a_b",
    "a\\b",
    "it's",
    'say "x"',
    "b",
    "ä",
    "\U0001f600",
    "\uffff",
    "a\0",
    "a\0b",
    "z" * 20,
]


def local(*parts: int) -> dt.datetime:
    return dt.datetime(*parts)  # type: ignore[arg-type]  # noqa: DTZ001  # UTC, as Arrow takes it


DOUBLES = [0.0, -0.0, 0.1, -0.1, 1.5, 2.0, 16777216.0, 16777217.0, 9007199254740992.0, 1e300, -1e300, 5e-324, 3.4e38]
FLOATS = [*DOUBLES, math.nan, math.inf, -math.inf]
BIGS = [0, 1, -1, 127, 2**31, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 16777217]
DAYS = [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2020, 2, 29), dt.date(9999, 12, 31)]
MOMENTS = [
    local(1, 1, 1),
    local(1969, 12, 31, 23, 59, 59, 999999),
    local(2020, 2, 29),
    local(2020, 2, 29, 12),
    local(2020, 2, 29, 12, 0, 0, 1),
    local(9999, 12, 31, 23, 59, 59, 999999),
]


def to_float32(value: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.inf


def random_value(dice: Dice, name: str) -> Any:
    """A value of a column, often one that its literals name."""
    if dice.random() < 0.12:
        return None
    choices: dict[str, Callable[[], Any]] = {
        "flag": lambda: dice.random() < 0.5,
        "tiny": lambda: dice.choice([-128, -1, 0, 1, 2, 127]),
        "number": lambda: dice.choice([-(2**31), -1, 0, 1, 2, 16777217, 2**31 - 1]),
        "big": lambda: dice.choice(BIGS),
        "price": lambda: Decimal(dice.choice(["0.00", "0.10", "-0.10", "1.50", "2.00", "99999999.99", "-99999999.99"])),
        "wide": lambda: Decimal(dice.choice([0, 1, 2, 2**53, 2**53 + 1, 10**38 - 1, 1 - 10**38])),
        "half": lambda: to_float32(dice.choice(FLOATS)),
        "double": lambda: dice.choice(FLOATS),
        "text": lambda: dice.choice(TEXTS),
        "data": lambda: dice.choice([*(text.encode() for text in TEXTS), b"\xff", b"a\xff", b"\x0a"]),
        "day": lambda: dice.choice(DAYS),
        "moment": lambda: dice.choice(MOMENTS),
        "local": lambda: dice.choice(MOMENTS),
        "Mixed Case": lambda: dice.choice([1, 2, 3]),
    }
    return choices[name]()


def random_rows(dice: Dice, rows: int) -> pa.Table:
    columns = [pa.array([random_value(dice, field.name) for _ in range(rows)], field.type) for field in SCHEMA]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def quoted(dice: Dice, text: str) -> str:
    """A string as SQL, in one of its ways."""
    escaped = text.replace("\\", "\\\\").replace("\0", "\\0")
    return dice.choice(["'" + escaped.replace("'", "''") + "'", '"' + escaped.replace('"', '\\"') + '"'])


def numbers(dice: Dice) -> str:
    """A number as SQL, of any type."""
    whole = dice.choice([0, 1, -1, 2, 127, 128, -129, 2**31, 2**53, 2**53 + 1, 2**63 - 1, 16777217, -99])
    return dice.choice(
        [
            str(whole),
            f"{whole}L",
            f"{whole}BD",
            f"- {abs(whole)}",
            dice.choice(["0.1", "1.5", "-0.10", ".5", "2.", "2.00", "0.1BD", "99999999.99", "1e2BD", "0.100001"]),
            dice.choice(["0.1D", "1.5D", "1e0", "1.6777216e7", "-0.0D", "1e300", "9007199254740992D", "5e-324", "2D"]),
            dice.choice(["0.1F", "1.5F", "16777216F", "-0.0F", "1e-45F", "3.4e38F"]),
        ]
    )


def moments(dice: Dice) -> str:
    return dice.choice(
        [
            "'2020-02-29 12:00:00'",
            "'2020-02-29T13:00:00+01:00'",
            "'2020-2-29 12:0:0.0000019'",
            "'2020'",
            "'1969-12-31 23:59:59.999999Z'",
            "'9999-12-31 23:59:59.999999 UTC'",
            "'0001-01-01'",
            "'-0100-01-01 00:00:00'",
            "'2020-02-29 06:30:00 GMT-05:30'",
        ]
    )


def typed_moments(dice: Dice) -> str:
    word = dice.choice(["TIMESTAMP", "TIMESTAMP_NTZ", "timestamp_ltz"])
    return dice.choice(["DATE '2020-02-29'", "date'1970'", f"{word} {moments(dice)}"])


def literal(dice: Dice, name: str) -> str:
    """A literal that Spark compares with a column."""
    floats = ["'NaN'", "'0.1'", "'inf'", "'-Infinity'", "' 1e300 '", "'-0'", "'.5'"]
    integers = ["'1'", "' -1 '", "'+2'", "'00127'", "'9223372036854775807'"]
    choices: dict[str, Any] = {
        "flag": lambda: dice.choice(["true", "FALSE", "'yes'", "' T '", "'0'"]),
        "price": lambda: numbers(dice) if dice.random() < 0.8 else dice.choice(["'0.1'", "'1.5'", "'NaN'", "'1e9'"]),
        # Spark rounds decimals that need more than 38 digits beside a DECIMAL(38,0)
        "wide": lambda: dice.choice(["0", "1", "9007199254740993", "9007199254740992D", "'9007199254740992'", "1e38"]),
        "text": lambda: quoted(dice, dice.choice(TEXTS)) if dice.random() < 0.8 else dice.choice(["X'61'", "x'C3A4'"]),
        "data": lambda: dice.choice(["X'61ff'", "X'0a'", "X'A'", "X''", quoted(dice, dice.choice(TEXTS))]),
        "day": lambda: (
            typed_moments(dice)
            if dice.random() < 0.5
            else dice.choice(["'2020-02-29'", "'1970'", "'2020-2-29 99'", "'2020-02'"])
        ),
        "moment": lambda: typed_moments(dice) if dice.random() < 0.5 else moments(dice),
        "local": lambda: typed_moments(dice) if dice.random() < 0.5 else moments(dice),
    }
    if name in choices:
        return str(choices[name]())
    if name in ("half", "double"):
        return numbers(dice) if dice.random() < 0.7 else dice.choice(floats)
    return numbers(dice) if dice.random() < 0.8 else dice.choice(integers)


def listed(dice: Dice, name: str) -> str:
    """Literals of one kind, as IN takes them here."""
    strings = dice.random() < 0.3
    found: list[str] = []
    while len(found) < dice.randint(1, 12):
        item = literal(dice, name)
        if name in ("text", "data") or item.startswith(("'", '"')) == strings:
            found.append(item)
    if dice.random() < 0.15:
        found.insert(dice.randint(0, len(found)), "NULL")
    return ", ".join(found)


def random_comparison(dice: Dice) -> str:
    name = dice.choice(SCHEMA.names)
    column = f"`{name}`" if " " in name else dice.choice([name, name.upper(), f"`{name}`"])
    sign = dice.choice(["=", "==", "<>", "!=", "<=>", "<", "<=", ">", ">="])
    value = "NULL" if dice.random() < 0.05 else literal(dice, name)
    shapes = [
        f"{column} {sign} {value}",
        f"{column} {sign} {value}",
        f"{value} {sign} {column}",
        f"{column} in ({listed(dice, name)})",
        f"{column} NOT IN ({listed(dice, name)})",
        f"{column} BETWEEN {value} AND {literal(dice, name)}",
        f"{column} IS {dice.choice(['', 'NOT '])}NULL",
    ]
    if name in ("text", "data"):
        pattern = dice.choice(
            ["'%'", "'a%'", r"'a\%%'", r"'a\\_%'", r"'a\\\\%'", r"r'a\\b'", "''", "'ab'", "'ä%%'", "NULL"]
        )
        shapes.append(f"{column} LIKE {pattern}")
    return dice.choice(shapes)


def random_filter(dice: Dice) -> str:
    parts = [random_comparison(dice) for _ in range(dice.choice([1, 1, 1, 2, 3]))]
    return " AND ".join(f"({part})" if dice.random() < 0.2 else part for part in parts)
