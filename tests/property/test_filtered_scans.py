"""A scan with a filter returns the rows of a scan without one that the filter lets through."""

from __future__ import annotations

from pathlib import Path

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
    whole = store.scan().read_all()
    assert len(whole)
    wrong = []
    for _ in range(FILTERS):
        text = random_filter(dice)
        condition = bind_filter(parse_filter(text), whole.schema)
        mask = condition.mask({name: whole[name].combine_chunks() for name in condition.columns})
        expected = whole["row"].filter(pa.array(mask)).to_pylist()
        if store.scan(filter=text, columns="row").read_all()["row"].to_pylist() != expected:
            wrong.append(text)
    assert not wrong
