"""Reads that Spark's own reader of Parquet would answer in another way, or not at all: our tasks read them."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from slatespark import SlateStore, SlateTable
from slatespark.format.columnar_copy import CopyBuilder
from slatespark.format.paths import copy_path
from slatespark.format.ulid import Ulid
from slatespark.options import ReadOptions
from slatespark.spark.frames import parquet
from slatespark.spark.frames.parquet import refusal
from slatespark.table.columns import write as copy_writing
from slatespark.table.columns.read import fetch_copy
from slatespark.table.read import parquet_share
from tests.spark.test_parquet_frames import assert_same
from tests.support.client import Client, ClientOptions, Location, Put

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64()), ("f", pa.float64())])
ROWS = 400


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_writing, "GROUP_ROWS", 1)
    monkeypatch.setattr(copy_writing, "WINDOW_BYTES", 1)


def filled(path: Path, schema: pa.Schema = SCHEMA, **columns: Any) -> SlateStore:
    """A table of one file with a copy."""
    store = SlateStore.create(str(path), schema, "id", columnar=True, autoCompact=False)
    given = columns or {"n": range(ROWS), "f": [number / 4 for number in range(ROWS)]}
    store.write(pa.table({"id": range(ROWS), **given}, schema))
    store.compact(full=True, blockSize="1k")
    return store


@pytest.mark.parametrize("name", ["a[1]", "a{1}", "a*", "a?"])
def test_paths_that_spark_takes_for_patterns(spark: SparkSession, tmp_path: Path, name: str) -> None:
    filled(tmp_path / "a1")
    filled(tmp_path / name)
    table = SlateTable.forPath(spark, tmp_path / name)
    assert table.explain().as_parquet == {"the path has characters that Spark takes for a pattern": 1}
    assert_same(table, files=0)


def test_a_range_of_raw_keys(spark: SparkSession, tmp_path: Path) -> None:
    """A file would be shown whole of which the range is a part."""
    store = SlateStore.create(str(tmp_path / "t"), columnar=True, autoCompact=False)
    keys = [b"%05d" % number for number in range(ROWS)]
    store.write(pa.table({"key": keys, "value": [b"v" * 50] * ROWS}))
    store.compact(full=True)
    table = SlateTable.forPath(spark, tmp_path / "t")
    assert_same(table, files=1)
    assert table.toDF(startKey=keys[9]).count() == ROWS - 9
    assert_same(table, files=0, startKey=keys[9])


def test_names_in_another_case_for_a_session_that_distinguishes_them(spark: SparkSession, tmp_path: Path) -> None:
    filled(tmp_path / "t")
    session = spark.newSession()
    table = SlateTable.forPath(session, tmp_path / "t")
    assert_same(table, files=1, where="N > 390")
    assert_same(table, files=1, where="n > 390", columns=["id"])
    session.conf.set("spark.sql.caseSensitive", "true")
    assert_same(table, files=0, where="N > 390")
    assert table.explain(filter="N > 390").as_parquet == {"the filter may mean something else to Spark": 1}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.list_(pa.duration("us")), [dt.timedelta(3)]),
        (pa.struct([("a", pa.int8()), ("b", pa.time64("ns"))]), {"a": 1, "b": dt.time(3)}),
        (pa.map_(pa.string(), pa.duration("us")), [("k", dt.timedelta(3))]),
    ],
)
def test_parts_of_types_that_are_stored_in_another_way(
    spark: SparkSession, tmp_path: Path, kind: pa.DataType, value: object
) -> None:
    filled(tmp_path / "t", pa.schema([("id", pa.int64()), ("v", kind)]), v=[value] * ROWS)
    table = SlateTable.forPath(spark, tmp_path / "t")
    reason = "Spark does not read the type of v from Parquet as it is stored"
    assert table.explain().as_parquet == {reason: 1}
    assert_same(table, files=0)
    assert_same(table, files=1, columns=["id"])


def test_newer_rows_with_a_floating_point_number_among_their_key_columns(spark: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("f", pa.float64()), ("n", pa.int64())])
    store = SlateStore.create(str(tmp_path / "t"), schema, "id, f", columnar=True, autoCompact=False)
    store.write(pa.table({"id": range(ROWS), "f": [0.0] * ROWS, "n": range(ROWS)}, schema))
    store.compact(full=True)
    table = SlateTable.forPath(spark, tmp_path / "t")
    assert_same(table, files=1)
    store.write(pa.table({"id": [5], "f": [-0.0], "n": [1000]}, schema))
    assert table.explain().as_parquet == {"Spark compares floating-point keys in another way": 1}
    assert [row.n for row in table.toDF(where="id = 5").collect()] == [1000], "-0.0 is the key 0.0"
    assert_same(table, files=0)


def test_objects_that_spark_does_not_reach(spark: SparkSession) -> None:
    def reason(url: str, **options: str) -> str | None:
        stores: Any = SimpleNamespace(url=url)
        return refusal(session, stores, ReadOptions.parse({"path": url, **options}))

    session = spark.newSession()
    assert reason("file:///t") is None
    assert reason("memory://t") == "Spark has no file system for memory"
    session.conf.set("spark.hadoop.fs.s3a.access.key", "somebody")
    given = {"storage.key": "somebody", "storage.secret": "s"}
    assert reason("s3a://bucket/t", **given) == "its storage options are not the session's"
    session.conf.set("spark.hadoop.fs.s3a.secret.key", "s")
    assert reason("s3a://bucket/t", **given) == "Spark has no file system for s3a"
    session.conf.set("fs.s3a.impl", "org.apache.hadoop.fs.LocalFileSystem")
    assert reason("s3a://bucket/t", **given) is None
    assert reason("s3a://bucket/t") is None


def test_nan_in_a_copy_that_does_not_say_which_columns_have_it(spark: SparkSession, tmp_path: Path) -> None:
    """As copies were written at first: the statistics leave NaN out, which is larger than any number."""
    values = [float("nan") if number == 7 else number / 4 for number in range(ROWS)]
    store = filled(tmp_path / "t", f=values, n=range(ROWS))
    [file] = store.files()
    copy = fetch_copy(store._stores.main, Ulid.parse(file.id))
    assert copy.footer.label.nans is not None
    builder = CopyBuilder(copy.footer.schema)
    for number in range(copy.footer.metadata.num_row_groups):
        builder.add(copy.read_group(number, copy.footer.schema.names).to_batches())
    label = replace(copy.footer.label, nans=None)
    store._stores.main.put(copy_path(Ulid.parse(file.id)), builder.finish(label))
    table = SlateTable.forPath(spark, tmp_path / "t")
    frame = table.toDF()
    assert len(frame.inputFiles()) == 1
    assert [row.id for row in frame.where("f > 99.6").orderBy("id").collect()] == [7, 399]


def test_old_days_in_a_session_that_reads_parquet_by_the_old_calendar(spark: SparkSession, tmp_path: Path) -> None:
    days = [dt.date(1200, 2, 3)] * ROWS
    times = [dt.datetime(1500, 1, 1)] * ROWS  # noqa: DTZ001
    schema = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("at", pa.timestamp("us"))])
    filled(tmp_path / "t", schema, day=days, at=times)
    session = spark.newSession()
    session.conf.set("spark.sql.parquet.datetimeRebaseModeInRead", "LEGACY")
    table = SlateTable.forPath(session, tmp_path / "t")
    assert_same(table, files=1)
    assert table.toDF().where("day = DATE'1200-02-03' AND at = TIMESTAMP_NTZ'1500-01-01'").count() == ROWS


@pytest.mark.parametrize("now", [0, (1 << 63) - 1])
def test_the_ends_of_time(spark: SparkSession, tmp_path: Path, now: int) -> None:
    store = SlateStore.create(str(tmp_path / "t"), SCHEMA, "id", columnar=True, autoCompact=False)
    store.write(pa.table({"id": range(ROWS), "n": range(ROWS), "f": [0.5] * ROWS}, SCHEMA))
    store.write(pa.table({"id": [3], "n": [3], "f": [1.5]}, SCHEMA), ttl="1h")
    store.compact(full=True)
    table = SlateTable.forPath(spark, tmp_path / "t")
    assert_same(table, files=1, now=now)
    assert table.toDF(now=now).count() == ROWS - (now > 0)


# --- how our tasks read them ------------------------------------------------------------------------------------------


def is_of_data_source(rows: DataFrame) -> bool:
    """Tell whether Spark plans a read in a process of its own, at the first action."""
    return "slate" in rows._jdf.queryExecution().logical().toString()


def test_a_read_whose_plan_is_there_is_not_planned_again(spark: SparkSession, tmp_path: Path) -> None:
    store = filled(tmp_path / "t")
    newer = pa.table({"id": range(0, ROWS, 2), "n": [-1] * (ROWS // 2), "f": [0.5] * (ROWS // 2)}, SCHEMA)
    store.write(newer)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet_share, "LEAST_SHADOW_BYTES", 1)
        table = SlateTable.forPath(spark, tmp_path / "t")
        rows = table.toDF(columns=["id", "n"], where="id < 100", splitSize="4k")
        assert table.explain().as_parquet == {"many newer rows, or operands, may lie above": 1}
        assert not is_of_data_source(rows)
        assert is_of_data_source(table.toDF(pushdown=True)), "which takes conditions of Spark"
        assert is_of_data_source(table.toDF(useCopies=False))
        assert_same(table, files=0)
        assert_same(table, files=0, splitSize="4k", where="n < 50")
    store.write(pa.table({"id": [0], "n": [7], "f": [0.5]}, SCHEMA))
    expected = [(number, -1 if number % 2 == 0 else number) for number in range(100)]
    assert sorted(map(tuple, rows.collect())) == expected, "the snapshot is that of the call"


def test_of_a_large_plan_each_task_gets_its_part_alone(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(tmp_path / "t")
    store.write(pa.table({"id": range(ROWS), "n": [-1] * ROWS, "f": [0.5] * ROWS}, SCHEMA))
    monkeypatch.setattr(parquet_share, "LEAST_SHADOW_BYTES", 1)
    monkeypatch.setattr(parquet, "_MOST_SENT", 1)
    table = SlateTable.forPath(spark, tmp_path / "t")
    assert not is_of_data_source(table.toDF())
    assert is_of_data_source(table.toDF(splitSize="1k"))
    assert_same(table, files=0, splitSize="1k")


def test_rows_of_a_wal_are_decoded_once_for_all_tasks(spark: SparkSession, tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "t"), columnar=True, autoCompact=False)
    keys = [b"%05d" % number for number in range(ROWS)]
    store.write(pa.table({"key": keys, "value": [b"v" * 50] * ROWS}))
    store.compact(full=True)
    with Client.open(Location.local(tmp_path / "t"), ClientOptions()) as client:
        client.write([Put(key, b"w" * 6000) for key in keys])
        client.flush_wal()
        client.close(flush=False)
    table = SlateTable.forPath(spark, tmp_path / "t")
    assert is_of_data_source(table.toDF())
    assert_same(table, files=0)
