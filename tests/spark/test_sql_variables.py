"""Variables of the session in statements of `slatespark.sql`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import slatespark
from slatespark import SlateStore

pytestmark = pytest.mark.spark


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    spark.conf.set("day", "mon")
    spark.conf.set("from.place", "days")
    yield spark
    for name in ("day", "from.place", "spark.sql.variable.substitute"):
        spark.conf.unset(name)


def test_settings_stand_for_themselves_in_every_part(session: SparkSession, tmp_path: Path) -> None:
    place = f"{tmp_path}/days"
    store = SlateStore.create(place, "day STRING, n INT", "day")

    def run(statement: str) -> None:
        slatespark.sql(session, statement.replace("@T", f"slate.`{tmp_path}/${{from.place}}`"))

    def rows() -> list[tuple[str, int]]:
        return [(row["day"], row["n"]) for row in store.scan().read_all().to_pylist()]

    run("INSERT INTO @T VALUES ('${day}', 1), ('${hivevar:day}s', 2), ('$${unknown}', 3)")
    assert rows() == [("$", 3), ("mon", 1), ("mons", 2)]
    run("UPDATE @T SET n = 5 WHERE day = '${day}'")
    run("INSERT INTO @T REPLACE WHERE day = '${sparkconf:day}s' SELECT '${day}s', 6")
    run("MERGE INTO @T AS t USING (SELECT '${day}' AS day) AS s ON t.day = s.day WHEN MATCHED THEN UPDATE SET n = 7")
    assert rows() == [("$", 3), ("mon", 7), ("mons", 6)]
    session.conf.set("spark.sql.variable.substitute", "false")
    slatespark.sql(session, f"DELETE FROM slate.`{place}` WHERE day = '${{day}}'")
    assert len(rows()) == 3
    session.conf.set("spark.sql.variable.substitute", "true")
    run("DELETE FROM @T WHERE day = '${day}'")
    assert rows() == [("$", 3), ("mons", 6)]
