"""Naive datetimes in calls of `SlateTable`: local time, as in the rows that PySpark collects; `SlateStore` has UTC."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slatespark import HistoryTrimmedError, SlateStore, SlateTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Zone = Callable[[str], None]


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Zone]:
    """Set the time zone of this process; that of the session stays UTC."""

    def choose(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield choose
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("name", ["America/New_York", "Europe/Berlin"])
def test_times_of_the_history_are_taken_back(spark: SparkSession, tmp_path: Path, zone: Zone, name: str) -> None:
    zone(name)
    path = str(tmp_path / "table")
    table = SlateTable.create(spark, path, "id INT", "id")
    for number in range(3):
        table.write(spark.createDataFrame([(number,)], "id INT"))
    newest = table.history().where("operation = 'write'").first()
    assert newest is not None
    when = newest.timestamp
    assert when.tzinfo is None
    assert [row.id for row in table.changes(startingTimestamp=when).collect()] == [2]
    assert table.toDF(timestampAsOf=when).count() == 3
    assert table.resolve(timestampAsOf=when).version == newest.version
    with table.begin(readTimestamp=when) as txn:
        assert txn.readVersion == newest.version
    assert table.restoreToTimestamp(when) > newest.version
    naive_utc = when.astimezone(UTC).replace(tzinfo=None)
    assert SlateStore.open(path).resolve(timestampAsOf=naive_utc).version == newest.version


def test_written_times_and_keys(spark: SparkSession, tmp_path: Path, zone: Zone) -> None:
    zone("America/New_York")
    schema = "at TIMESTAMP, ntz TIMESTAMP_NTZ, n INT"
    table = SlateTable.create(spark, tmp_path / "table", schema, "at,ntz", history=True)
    when, naive = datetime(2026, 1, 31, 7), datetime(2026, 1, 31, 7, 30)  # noqa: DTZ001  # local
    table.write(spark.createDataFrame([(when, naive, 1)], table.toDF().schema), timestamp=datetime(2026, 2, 1, 7))  # noqa: DTZ001
    [row] = table.toDF().collect()
    assert (row.at, row.ntz) == (when, naive)
    utc = datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert table.get(row.at, row.ntz) == table.get(utc, naive) == {"at": utc, "ntz": naive, "n": 1}
    assert table.get(row.at, row.ntz, timestampAsOf="2026-02-01T12:00:00Z") is not None
    with pytest.raises(HistoryTrimmedError, match="there was no row"):
        table.get(row.at, row.ntz, timestampAsOf=datetime(2026, 2, 1, 6, 59))  # noqa: DTZ001
    with table.begin() as txn:
        assert txn.get(row.at, row.ntz) is not None
        assert txn.getForUpdate([(row.at, row.ntz)]).count() == 1
        assert txn.delete(keys=[(row.at, row.ntz)]) == 1
    assert table.toDF().count() == 0
