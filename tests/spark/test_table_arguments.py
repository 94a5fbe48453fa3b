"""Arguments of `SlateTable`: the options of the table beside those of a call, names with commas, and wrong ones."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

from slatespark import InvalidRequestError, OptionError, SlateStore, SlateTable
from tests.support.named_clocks import NOON_MS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

NOON = "tests.support.named_clocks:noon"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A history table in which a name has a comma, and its parts are names too."""
    place = tmp_path / "table"
    store = SlateStore.create(place, "id BIGINT, `a,b` STRING, a STRING, b STRING", "id", history=True, clock=NOON)
    store.write(pa.table({"id": [1], "a,b": ["ab"], "a": ["a"], "b": ["b"]}), ttl="1h")
    return place


@pytest.fixture
def asked(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(1, NOON_MS)], "id BIGINT, at BIGINT")


@pytest.mark.parametrize("options", [{"clock": NOON}, {"walPath": None, "clock": NOON}, {"root": "/", "clock": NOON}])
def test_joins_and_look_ups_of_a_table_with_options(
    spark: SparkSession, path: Path, asked: DataFrame, options: dict[str, Any]
) -> None:
    given = {name: path if value is None else value for name, value in options.items()}
    table = SlateTable.forPath(spark, path, **given)
    assert [row.a for row in table.asOf(asked, "at", columns="a").collect()] == ["a"]
    assert [row.a for row in table.lookup(asked, "a").collect()] == ["a"]  # it has not expired yet
    for refused in ({"clock": NOON}, {"walPath": str(path)}, {"storage.root": "/"}):
        [name] = refused
        with pytest.raises(OptionError, match=f"{name}: an open table has one"):
            table.asOf(asked, "at", **refused)
        with pytest.raises(OptionError, match=f"{name}: an open table has one"):
            table.lookup(asked, **refused)
        with pytest.raises(OptionError, match=f"{name}: an open table has one"):
            table.toDF(**refused)


def test_a_relative_path_is_resolved_once(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = [tmp_path, tmp_path / "there"]
    for place in places:
        store = SlateStore.create(place / "data" / "table", "id BIGINT, name STRING", "id")
        store.write(pa.table({"id": range(8), "name": [place.stem] * 8}))
    monkeypatch.chdir(places[0])
    table = SlateTable.forPath(spark, "data/table", walPath="data/table", root=".")
    monkeypatch.chdir(places[1])
    new = spark.createDataFrame([(1, "merged"), (8, "merged")], "id BIGINT, name STRING")
    table.alias("t").merge(new.alias("s"), "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    table.deleteRange("id = 3")
    with table.begin() as transaction:
        assert transaction.read(where="id = 3").collect() == []
        transaction.write(spark.createDataFrame([(10, "begun")], "id BIGINT, name STRING"))
    expected = dict.fromkeys((0, 2, 4, 5, 6, 7), tmp_path.stem) | {1: "merged", 8: "merged", 10: "begun"}
    copies = table.clone("clone"), table.copyTo("copy")
    monkeypatch.chdir("/")
    for each in (table, *copies):
        assert {row.id: row.name for row in each.toDF().collect()} == expected
        assert {row.id: row.name for row in each.lookup(each.toDF("id")).collect()} == expected
    assert table.get(1) == {"id": 1, "name": "merged"}
    assert store.scan().read_all()["name"].to_pylist() == ["there"] * 8


def test_names_may_hold_commas(spark: SparkSession, path: Path, asked: DataFrame) -> None:
    table, name = SlateTable.forPath(spark, path, clock=NOON), "a,b"
    spelled: Any = {"Columns": (name,), "filter": "id = 1"}
    for frame in (
        table.toDF([name]),
        table.toDF(f"`{name}`"),
        spark.read.format("slate").options(columns=f"`{name}`", clock=NOON).load(str(path)),
        table.lookup(asked, [name]),
        table.versions(columns=[name]),
        table.versions(**spelled),
        table.asOf(asked, "at", columns=[name]).select(f"`{name}`"),
    ):
        assert [row.asDict() for row in frame.collect()] == [{name: "ab"}]
    assert [tuple(row) for row in table.versions(columns="b, _is_current").collect()] == [("b", True)]


@pytest.mark.parametrize("delimiter", [b"\0", bytearray(b"\0"), memoryview(b"\0"), "X'00'"])
def test_options_take_values_of_python(spark: SparkSession, tmp_path: Path, delimiter: Any) -> None:
    """Those that a `SlateStore` takes."""
    named: Any = {"segmentExtractor": "tenant", "segmentDelimiter": delimiter}
    created: Any = {**named, "versionRetention": timedelta(seconds=30)}
    table = SlateTable.create(spark, tmp_path / "t", "tenant STRING, id BIGINT", "tenant,id", **created)
    store = SlateStore.open(tmp_path / "t")
    rows = spark.sql("SELECT 'a' AS tenant, id FROM range(3)")
    table.write(rows, **created)
    store.write(rows.toArrow(), **created)
    spelled: Any = {"segment_extractor": "tenant", "segment_delimiter": delimiter}
    table.write(rows, **spelled)
    merge = table.alias("t").merge(rows.alias("s"), "t.tenant = s.tenant AND t.id = s.id").whenMatchedUpdateAll()
    merge.execute(**named)
    version: Any = np.int64(store.resolve().version)
    table.delete("id = 2", **named)
    assert table.toDF(versionAsOf=version).count() == 3
    assert table.toDF().count() == 2


def test_wrong_arguments_are_named(spark: SparkSession, path: Path, asked: DataFrame) -> None:
    table = SlateTable.forPath(spark, path, clock=NOON)
    wrong: Any
    for wrong in (None, 5, F.col("at")):
        with pytest.raises(OptionError, match="ts: "):
            table.asOf(asked, wrong)
    for wrong in (5, ["id", None], F.col("id"), [F.col("id")]):
        for call in (table.toDF, table.changes, lambda names: table.lookup(asked, names), table.begin().read):
            with pytest.raises(OptionError, match=r"columns: .* is not a list of names"):
                call(wrong)
        with pytest.raises(OptionError, match=r"keyColumns: .* is not a list of names"):
            SlateTable.create(spark, path / "other", "id BIGINT", wrong)
    reads: Any = (table.toDF, table.begin().read)
    for read in reads:
        with pytest.raises(InvalidRequestError, match="5 is not an expression"):
            read(where=5)
