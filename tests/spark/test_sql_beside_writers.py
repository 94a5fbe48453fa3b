"""`slatespark.sql` beside other writers: one query sees one state, and a merge depends on what its source read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pytest

import slatespark
from slatespark import SlateStore, TransactionConflictError
from slatespark.spark.frames.table_frames import TableFrames

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


Run: TypeAlias = "Callable[[str], DataFrame]"
FIRST = [("a", 1, 1), ("a", 2, 2), ("b", 1, 3)]


@pytest.fixture
def run(spark: SparkSession, tmp_path: Path) -> Run:
    """Run a statement in which @T is the table `(tenant, id, n)` with three rows."""
    path = tmp_path / "t"
    store = SlateStore.create(path, "tenant STRING, id BIGINT, n INT", "tenant,id")
    store.write(_table(store, FIRST))
    return lambda text: slatespark.sql(spark, text.replace("@T", f"slate.`{path}`"))


def _table(store: SlateStore, rows: list[tuple[str, int, int]]) -> pa.Table:
    return pa.Table.from_pylist(
        [{"tenant": tenant, "id": id_, "n": n} for tenant, id_, n in rows], schema=store.definition.schema
    )


@pytest.mark.parametrize("is_before", [True, False])
def test_a_merge_of_what_it_reads_conflicts_with_later_commits(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_before: bool
) -> None:
    """Whether its source was read before the merge looked at the table, or after that."""
    begin, store = TableFrames.begin_change, SlateStore.open(tmp_path / "t")
    store.setProperties(columnar=True)
    store.compact(full=True)  # Spark reads the copy, so the source is read at once
    late = _table(store, [("a", 1, 100)])

    def begin_beside_another(frames: TableFrames, *args: Any) -> Any:
        if is_before:
            store.write(late)
        change = begin(frames, *args)
        if not is_before:
            store.write(late)
        return change

    monkeypatch.setattr(TableFrames, "begin_change", begin_beside_another)
    with pytest.raises(TransactionConflictError):
        run(
            "MERGE INTO @T t USING (SELECT 'z' AS tenant, 9L AS id, CAST(sum(n) AS INT) AS n FROM @T) s "
            "ON t.tenant = s.tenant AND t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
    assert [tuple(row) for row in run("SELECT * FROM @T ORDER BY tenant, id").collect()] == [("a", 1, 100), *FIRST[1:]]


def test_an_insert_reads_its_own_table_under_another_path_too(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load, store = TableFrames.load, SlateStore.open(tmp_path / "t")
    (tmp_path / "link").symlink_to(tmp_path / "t")

    def load_late(frames: TableFrames, read: DataFrame, *args: Any, **options: Any) -> None:
        read.count()
        store.write(_table(store, [("z", 9, 9)]))
        load(frames, read, *args, **options)

    monkeypatch.setattr(TableFrames, "load", load_late)
    with pytest.raises(TransactionConflictError):
        run(f"INSERT OVERWRITE @T SELECT * FROM slate.`{tmp_path}/link`")
    assert run("SELECT * FROM @T").count() == 4


@pytest.mark.parametrize("columnar", [True, False])
def test_a_query_that_names_a_table_twice_sees_one_state(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columnar: bool
) -> None:
    select, store = TableFrames.select, SlateStore.open(tmp_path / "t")
    store.setProperties(columnar=columnar)
    store.compact(full=True)
    late = _table(store, [("z", 9, 9)])

    def select_and_write(*args: Any) -> DataFrame:
        frame = select(*args)
        frame.count()
        store.write(late)
        return frame

    monkeypatch.setattr(TableFrames, "select", select_and_write)
    found = run("SELECT count(*), (SELECT count(*) FROM @T AS t WHERE t.id > 0) FROM @T")
    assert [tuple(row) for row in found.collect()] == [(3, 3)]
