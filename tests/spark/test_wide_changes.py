"""Wide tables: how often a merge and an update call the JVM does not grow with columns times clauses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from py4j.java_gateway import GatewayClient  # type: ignore[import-untyped]

from slatespark import SlateTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COLUMNS = 120
_RELEASES = "m\n"  # how py4j's commands begin that release objects, at times of Python's choosing


@contextmanager
def counted_calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Collect the calls of the JVM."""
    calls: list[str] = []
    send = GatewayClient.send_command

    def count(self: Any, command: str, *args: Any, **kwargs: Any) -> Any:
        if not command.startswith(_RELEASES):
            calls.append(command)
        return send(self, command, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(GatewayClient, "send_command", count)
        yield calls


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> SlateTable:
    columns = ", ".join(f"c{number} INT" for number in range(COLUMNS))
    table = SlateTable.create(spark, tmp_path / "table", f"id INT, {columns}", "id")
    values = [f"CAST(id + {number} AS INT) AS c{number}" for number in range(COLUMNS)]
    table.write(spark.range(6).selectExpr("CAST(id AS INT) AS id", *values))
    return table


def test_a_merge_of_many_clauses(spark: SparkSession, table: SlateTable, monkeypatch: pytest.MonkeyPatch) -> None:
    values = [f"CAST(id * {number} AS INT) AS c{number}" for number in range(COLUMNS)]
    source = spark.range(3, 9).selectExpr("CAST(id AS INT) AS id", *values)
    merge = table.alias("t").merge(source.alias("s"), "t.id = s.id")
    named = {f"c{number}": f"s.c{number}" for number in range(COLUMNS)}
    merge = (
        merge.whenMatchedUpdateAll("s.id = 3")
        .whenMatchedUpdate("s.id = 4", {**named, "c0": "-s.id"})
        .whenMatchedDelete()
        .whenNotMatchedInsertAll("s.id = 6")
        .whenNotMatchedInsert("s.id = 7", {"id": "s.id", **named})
        .whenNotMatchedInsert(values={"id": "s.id"})
        .whenNotMatchedBySourceUpdate("t.id = 1", {"c1": "-1"})
    )
    with counted_calls(monkeypatch) as calls:
        merge.execute()
    assert len(calls) < 40 * COLUMNS, len(calls)
    assert [tuple(row) for row in table.toDF("id,c0,c1,c2").orderBy("id").collect()] == [
        (0, 0, 1, 2),
        (1, 1, -1, 3),
        (2, 2, 3, 4),
        (3, 0, 3, 6),
        (4, -4, 4, 8),
        (6, 0, 6, 12),
        (7, 0, 7, 14),
        (8, None, None, None),
    ]
