"""A scan with a filter returns the rows of a scan without one that the filter lets through."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.encoding.predicates import bind_filter, parse_filter
from tests.support.random_filters import SCHEMA, Dice, random_filter, random_rows

ROWS = 250
FILTERS = 120
TYPED = SCHEMA.insert(0, pa.field("row", pa.int64()))


def numbered_rows(dice: Dice, first: int) -> pa.Table:
    table = random_rows(dice, ROWS)
    return table.add_column(0, TYPED.field("row"), pa.array(range(first, first + ROWS), pa.int64()))


def make_table(path: str, dice: Dice, key_columns: str) -> SlateStore:
    """A table of several commits that overlap, with deleted and expired rows."""
    store = SlateStore.create(path, TYPED, keyColumns=key_columns)
    store.write(numbered_rows(dice, 0), blockSize=1024)
    store.write(numbered_rows(dice, ROWS), ttl="1ms")
    store.write(numbered_rows(dice, 2 * ROWS), blockSize=1024, sstSize=8192)
    store.write(numbered_rows(dice, 3 * ROWS).slice(0, 50).select(key_columns.split(",")), operation="delete")
    return store


@pytest.mark.parametrize(
    "key_columns",
    [
        "text,row",
        "flag,day,row",
        "half,price,wide,row",
        "data,local,tiny,row",
        "number,text",
        "double,flag",
        "text",
        "moment,big",
    ],
)
def test_filters_of_every_kind(tmp_path: Path, key_columns: str) -> None:
    dice = Dice(sum(key_columns.encode()))
    store = make_table(str(tmp_path / "table"), dice, key_columns)
    check(store, [random_filter(dice) for _ in range(FILTERS)], columns="row")


@pytest.mark.parametrize(
    "options", [{"readVersions": "all"}, {"includeDeleted": True}, {"includeExpired": True}], ids=str
)
def test_rows_that_are_usually_hidden(tmp_path: Path, options: dict[str, Any]) -> None:
    dice = Dice(7)
    store = make_table(str(tmp_path / "table"), dice, "text,day,row")
    check(
        store,
        [random_metadata_filter(dice) for _ in range(FILTERS)],
        columns="_key,_seq,_op",
        metadataColumns="key,seq,op,create_ts,expire_ts",
        **options,
    )


def random_metadata_filter(dice: Dice) -> str:
    parts = [
        "_op = 'delete'",
        "_op <> 'merge'",
        "_seq > 1",
        "_seq IN (1, 3)",
        "_expire_ts IS NULL",
        "_create_ts < '2020'",
    ]
    parts += ["_key >= X'0261'", "_key LIKE ''", "_create_ts IS NOT NULL", "text IS NULL", "day >= '1970-01-01'"]
    return f"{dice.choice(parts)} AND {dice.choice([*parts, random_filter(dice)])}"


def check(store: SlateStore, filters: Sequence[str], *, columns: str, **options: Any) -> None:
    whole = store.scan(**options).read_all()
    assert len(whole)
    wrong = []
    for text in filters:
        condition = bind_filter(parse_filter(text), whole.schema)
        mask = condition.mask({name: whole[name].combine_chunks() for name in condition.columns})
        expected = whole.select(columns.split(",")).filter(pa.array(mask))
        found = store.scan(filter=text, columns=columns, **options).read_all()
        if found.to_pylist() != expected.to_pylist():
            wrong.append(text)
    assert not wrong
