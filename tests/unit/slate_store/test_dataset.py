"""SlateDataset: engines get from it what they get from a plain Arrow table, and less is read."""

from __future__ import annotations

import datetime as dt
import functools
import itertools
import operator
import pickle
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import datafusion
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

from slatespark import InvalidRequestError, OptionError, SlateStore
from slatespark.slate_store.dataset import SlateDataset
from slatespark.slate_store.table_snapshot import TableSnapshot

ROWS = pa.table(
    {
        "tenant": ["a'\\\"b", "a'\\\"b", "b", "b", "c"],
        "id": [1, 2, 1, 2**62, 5],
        "day": [dt.date(2026, 1, 1), None, dt.date(1969, 12, 31), dt.date(9999, 12, 31), dt.date(2026, 1, 2)],
        "rate": [1.5, float("nan"), None, -0.0, 2.0],
        "price": pa.array([Decimal(1), None, Decimal(3), Decimal(4), Decimal(5)], pa.decimal128(10, 2)),
        "seen": pa.array([1_767_225_600_000_000, None, *[1_767_312_000_000_000] * 3], pa.timestamp("us", tz="UTC")),
        "raw": [b"\x00", b"'", None, b"", b"z"],
        "a b`c": ["x", None, "y", "z", "é"],
        "part": pa.array([{"n": 1}, None, {"n": None}, {"n": 4}, {"n": 5}], pa.struct([("n", pa.int64())])),
    }
)
COLUMNS = (
    "tenant STRING, id BIGINT, day DATE, rate DOUBLE, price DECIMAL(10, 2), seen TIMESTAMP, raw BINARY, "
    "`a b``c` STRING, part STRUCT<n: BIGINT>"
)


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> TableSnapshot:
    store = SlateStore.create(tmp_path_factory.mktemp("dataset") / "t", COLUMNS, "tenant,id")
    store.write(ROWS)
    return store.snapshot()


class Noting:
    """A dataset of a snapshot, and the options of each of its scans."""

    def __init__(self, snapshot: TableSnapshot, **options: Any) -> None:
        self.asked: list[dict[str, Any]] = []
        self._snapshot = snapshot
        self.dataset = SlateDataset(self.scan, options, "")
        self.asked.clear()

    def scan(self, **options: Any) -> pa.RecordBatchReader:
        self.asked.append(options)
        return self._snapshot.scan(**options)


@pytest.fixture
def noting(snapshot: TableSnapshot) -> Noting:
    return Noting(snapshot)


ODD = "a'\\\"b"
# the condition of a query, what is asked of the scan, and the columns that it needs beside `id`
CONDITIONS = [
    (f"tenant = '{ODD.replace(chr(39), chr(39) * 2)}'", "`tenant` = 'a\\'\\\\\"b'", {"tenant"}),
    ("tenant = 'b' AND id >= 1", "`tenant` = 'b' AND `id` >= 1", {"tenant"}),
    ("2 < id", "`id` > 2", set()),
    ("id BETWEEN 1 AND 2", "`id` >= 1 AND `id` <= 2", set()),
    ("NOT id > 2", "`id` <= 2", set()),
    ("id IN (1, 5)", "`id` IN (1, 5)", set()),
    (f"id IN ({', '.join(map(str, range(2, 40)))})", f"`id` IN ({', '.join(map(str, range(2, 40)))})", set()),
    ("id = 1 OR tenant = 'c'", None, {"tenant"}),
    ("id = 1 OR id = 5", "`id` IN (1, 5)", set()),
    ("day < DATE '2026-01-02'", "`day` < DATE '2026-01-02'", {"day"}),
    ("raw = '\\x27'::BLOB", "`raw` = x'27'", {"raw"}),
    ("\"a b`c\" = 'é'", "`a b``c` = 'é'", {"a b`c"}),
    ("\"a b`c\" = 'y' AND rate IS NULL", "`a b``c` = 'y'", {"a b`c", "rate"}),
    ("id <> 1", None, set()),
    ("day IS NULL", None, {"day"}),
    ("day IS NOT NULL", None, {"day"}),
    ("rate > 1", None, {"rate"}),
    ("price >= 3", None, {"price"}),
    ("seen > TIMESTAMPTZ '2026-01-01 12:00:00+00'", None, {"seen"}),
    ("part.n = 4", None, None),
    ("id + 1 = 2", "`id` = 1", set()),
    ("tenant IN ('b', 'c') OR tenant IS NULL", None, {"tenant"}),
]


@pytest.mark.parametrize(("condition", "pushed", "others"), CONDITIONS, ids=[each[0] for each in CONDITIONS])
def test_duckdb_gets_the_rows_of_a_plain_table(
    noting: Noting, condition: str, pushed: str | None, others: set[str] | None
) -> None:
    mine, plain = noting.dataset, ROWS
    with duckdb.connect() as connection:
        query = f"SELECT id FROM {{}} WHERE {condition} ORDER BY tenant, id"
        found = connection.execute(query.format("mine")).fetchall()
        assert found == connection.execute(query.format("plain")).fetchall()
    [asked] = noting.asked
    assert set(str(asked.get("filter")).split(" AND ")) == set(str(pushed).split(" AND "))
    if others is None:
        assert "columns" not in asked
    else:
        assert set(asked["columns"]) >= others
        assert set(asked["columns"]) <= others | {"id", "tenant"}
    del mine, plain


def test_duckdb_joins_counts_and_sorts(noting: Noting) -> None:
    mine, plain = noting.dataset, ROWS
    with duckdb.connect() as connection:
        for query in (
            "SELECT count(*) FROM {0}",
            "SELECT * FROM {0} ORDER BY tenant, id LIMIT 2",
            "SELECT a.id, b.price FROM {0} a JOIN {0} b USING (tenant, id) WHERE a.id > 1 ORDER BY ALL",
            "SELECT tenant, sum(price) FROM {0} GROUP BY tenant ORDER BY tenant",
            "SELECT * FROM {0} WHERE tenant IN (SELECT tenant FROM {0} WHERE id = 5)",
        ):
            found = connection.execute(query.format("mine")).fetchall()
            assert repr(found) == repr(connection.execute(query.format("plain")).fetchall())  # nan is not itself
    del mine, plain


def test_polars_takes_it_as_a_dataset(noting: Noting) -> None:
    frame = pl.scan_pyarrow_dataset(noting.dataset).filter(pl.col("id") == 5).select("tenant")
    assert frame.collect().rows() == [("c",)]
    assert (noting.asked[-1]["filter"], sorted(noting.asked[-1]["columns"])) == ("`id` = 5", ["id", "tenant"])


def test_datafusion_takes_it_as_a_dataset(noting: Noting) -> None:
    context = datafusion.SessionContext()
    context.register_dataset("t", noting.dataset)
    assert context.sql("SELECT tenant FROM t WHERE id = 5").to_pydict() == {"tenant": ["c"]}
    assert (noting.asked[-1]["filter"], sorted(noting.asked[-1]["columns"])) == ("`id` = 5", ["id", "tenant"])


def test_pyarrow_methods(snapshot: TableSnapshot) -> None:
    mine, plain = snapshot.dataset(), ds.dataset(ROWS)
    assert mine.schema.equals(snapshot.scan().schema)
    chosen: list[Any] = [None, ["id"], [], ["id", "tenant"], {"before": pc.field("id") - 1}]
    conditions = [None, pc.field("id") > 1, ~(pc.field("tenant") == "b"), pc.field("part", "n") == 4]
    for columns, condition in itertools.product(chosen, conditions):
        found, wanted = (each.to_table(columns=columns, filter=condition) for each in (mine, plain))
        assert (found.num_rows, repr(found.to_pylist())) == (wanted.num_rows, repr(wanted.to_pylist()))
    assert mine.count_rows() == mine.count_rows(filter=pc.field("id") > 0) == 5
    assert mine.head(2, columns=["id"]).to_pylist() == [{"id": 1}, {"id": 2}]
    assert mine.take(pa.array([4]), columns=["tenant"]).to_pylist() == [{"tenant": "c"}]
    assert sum(map(len, mine.to_batches(columns=["id"]))) == 5
    assert repr(mine) == f"SlateDataset({snapshot!r})"


@pytest.mark.parametrize(
    ("join", "terms", "pushed"),
    [
        (operator.or_, [pc.field("id") == number for number in range(3000)], f"`id` IN {tuple(range(3000))}"),
        (operator.and_, [pc.field("id") > -number for number in range(3000)], "`id` > 0 AND `id` > -1 AND "),
        (operator.or_, [pc.field("rate") == number + 1.5 for number in range(3000)], "None"),
    ],
    ids=["in a list", "all of them", "not known"],
)
def test_conditions_of_any_length(
    noting: Noting, join: Callable[[pc.Expression, pc.Expression], pc.Expression], terms: list[Any], pushed: str
) -> None:
    condition = functools.reduce(join, terms)
    found, wanted = (each.to_table(["tenant"], filter=condition) for each in (noting.dataset, ds.dataset(ROWS)))
    assert found.num_rows > 0
    assert found.to_pylist() == wanted.to_pylist()
    assert str(noting.asked[-1].get("filter")).startswith(pushed)


def test_options_of_the_read_hold_for_every_scan(snapshot: TableSnapshot) -> None:
    noting = Noting(snapshot, filter="id = 1", metadataColumns="seq")
    found = noting.dataset.to_table(columns=["tenant", "_seq"], filter=pc.field("tenant") == "b").to_pylist()
    assert [row["tenant"] for row in found] == ["b"]
    assert noting.asked[-1]["filter"] == "id = 1"
    with pytest.raises(OptionError):
        snapshot.dataset(versionAsOf=1)


def test_options_count_however_they_are_spelled(snapshot: TableSnapshot) -> None:
    noting = Noting(snapshot, FILTER="id = 1", useCopies=None)
    assert noting.dataset.to_table(columns=["id"], filter=pc.field("tenant") == "b").num_rows == 1
    assert noting.asked[-1]["filter"] == "id = 1"
    noting = Noting(snapshot, filter=None)
    noting.dataset.to_table(filter=pc.field("id") == 1)
    assert noting.asked[-1]["filter"] == "`id` = 1"
    with pytest.raises(OptionError, match="twice"):
        Noting(snapshot, filter="id = 1", Filter="id = 2")


def test_a_dataset_shows_its_moment(tmp_path: Path) -> None:
    store = SlateStore.create(tmp_path / "t", "id BIGINT", "id")
    store.write(pa.table({"id": [1, 2]}))
    mine = store.snapshot().dataset()
    store.delete("id = 1")
    assert mine.count_rows() == 2


KNOWN = {
    *("count_rows", "filter", "get_fragments", "head", "join", "join_asof", "partition_expression", "replace_schema"),
    *("scanner", "schema", "sort_by", "take", "to_batches", "to_table"),
}


def test_other_methods_are_refused(snapshot: TableSnapshot) -> None:
    mine = snapshot.dataset()
    assert {name for name in dir(mine) if name[0] != "_"} == KNOWN  # a new one would read the empty table
    for call in (mine.filter, mine.join, mine.join_asof, mine.replace_schema, mine.sort_by):
        with pytest.raises(InvalidRequestError):
            call(None)
    with pytest.raises(InvalidRequestError):
        pickle.dumps(mine)
