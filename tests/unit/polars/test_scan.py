"""`scan_slate`: what Polars gets is what it would get from all rows, and less is read."""

from __future__ import annotations

import datetime as dt
import functools
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal

from slatespark import OptionError, SlateStore, TableNotFoundError
from slatespark.polars import scan_slate
from slatespark.slate_store.table_snapshot import TableSnapshot

ROWS = pa.table(
    {
        "tenant": ["a'\\b", "a'\\b", "b", "b", "c"],
        "id": [1, 2, 1, 2**62, 5],
        "day": [dt.date(2026, 1, 1), None, dt.date(1969, 12, 31), dt.date(9999, 12, 31), dt.date(2026, 1, 2)],
        "rate": [1.5, float("nan"), None, -0.0, 2.0],
        "a b`c": ["x", None, "y", "z", "é"],
    }
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    store = SlateStore.create(
        tmp_path / "t", "tenant STRING, id BIGINT, day DATE, rate DOUBLE, `a b``c` STRING", "tenant,id"
    )
    store.write(ROWS)
    return tmp_path / "t"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The options of each scan."""
    seen: list[dict[str, Any]] = []
    scan = TableSnapshot.scan

    def noting(self: TableSnapshot, *args: Any, **options: Any) -> pa.RecordBatchReader:
        seen.append(options)
        return scan(self, *args, **options)

    monkeypatch.setattr(TableSnapshot, "scan", noting)
    return seen


PUSHED = [
    (pl.col("tenant") == "a'\\b", "`tenant` = 'a\\'\\\\b'"),
    ((pl.col("tenant") == "b") & (pl.col("id") >= 1), "`tenant` = 'b' AND `id` >= 1"),
    (pl.lit(2) < pl.col("id"), "`id` > 2"),
    (pl.col("id").is_between(1, 2), "`id` >= 1 AND `id` <= 2"),
    (pl.col("id").is_between(1, 2, closed="none"), "`id` > 1 AND `id` < 2"),
    (pl.col("id").is_in([1, 5]), "`id` IN (1, 5)"),
    (pl.col("tenant").is_in(["c", None]), "`tenant` IN ('c')"),
    (pl.col("day") < dt.date(2026, 1, 2), "`day` < DATE '2026-01-02'"),
    ((pl.col("a b`c") == "y") & (pl.col("rate").is_null()), "`a b``c` = 'y'"),
]
NOT_PUSHED = [
    pl.col("rate") > 1,
    pl.col("rate").is_nan(),
    (pl.col("tenant") == "b") | (pl.col("id") == 5),
    ~(pl.col("id") == 1),
    pl.col("id") != 1,
    pl.col("day").eq_missing(None),
    pl.col("id") == 1.0,
    pl.col("id") + 1 == 2,
    pl.col("id").cast(pl.String) == "1",
    pl.col("tenant").str.starts_with("a"),
    pl.col("id") > pl.col("rate"),
    pl.col("id").is_in([]),
]


@pytest.mark.parametrize(
    ("predicate", "pushed"), [*PUSHED, *((predicate, None) for predicate in NOT_PUSHED)], ids=lambda value: str(value)
)
def test_a_predicate_keeps_the_rows_that_polars_keeps(
    path: Path, asked: list[dict[str, Any]], predicate: pl.Expr, pushed: str | None
) -> None:
    everything = pl.from_arrow(ROWS)
    assert isinstance(everything, pl.DataFrame)
    found = scan_slate(path).filter(predicate)
    assert_frame_equal(found.collect(), everything.filter(predicate))
    found_parts, wanted_parts = (set(str(text).split(" AND ")) for text in (asked[-1].get("filter"), pushed))
    assert found_parts == wanted_parts  # Polars decides the order
    assert_frame_equal(found.select("rate").collect(), everything.filter(predicate).select("rate"))


@pytest.mark.parametrize("join", [operator.or_, operator.and_])
def test_a_predicate_of_any_length_keeps_the_rows_that_polars_keeps(
    path: Path, join: Callable[[pl.Expr, pl.Expr], pl.Expr]
) -> None:
    terms = [pl.col("id") == number if join is operator.or_ else pl.col("id") != number + 2 for number in range(700)]
    predicate = functools.reduce(join, terms)
    everything = pl.from_arrow(ROWS)
    assert isinstance(everything, pl.DataFrame)
    assert_frame_equal(scan_slate(path).filter(predicate).collect(), everything.filter(predicate))


def test_only_columns_that_are_used_are_read(path: Path, asked: list[dict[str, Any]]) -> None:
    frame = scan_slate(path)
    assert frame.filter(pl.col("id") == 5).select("rate").collect().rows() == [(2.0,)]
    assert sorted(asked[-1]["columns"]) == ["id", "rate"]
    assert frame.select(pl.len()).collect().item() == 5
    assert frame.head(2).collect().height == 2
    assert frame.filter(pl.col("id") == 1).head(1).collect().height == 1
    assert frame.select("id", "tenant").collect().columns == ["id", "tenant"]


def test_a_frame_shows_the_moment_of_the_call(path: Path) -> None:
    store = SlateStore.open(path)
    before, version = scan_slate(path), store.detail().version
    store.delete("id = 1")
    assert before.collect().height == before.join(before, on=["tenant", "id"]).collect().height == 5
    assert scan_slate(path).collect().height == 3
    assert scan_slate(path, versionAsOf=version, filter="id = 1").collect().height == 2


def test_options_count_however_they_are_spelled(path: Path, asked: list[dict[str, Any]]) -> None:
    version = SlateStore.open(path).detail().version
    SlateStore.open(path).delete("id = 1")
    found = scan_slate(path, version_as_of=version, Filter="id <= 2", COLUMNS="tenant,id").filter(pl.col("id") == 1)
    assert found.select("id").collect().height == 2
    assert (asked[-1]["filter"], asked[-1]["columns"]) == ("id <= 2", ["id"])
    assert scan_slate(path, filter=None).filter(pl.col("id") == 5).collect().height == 1
    assert asked[-1]["filter"] == "`id` = 5"


def test_wrong_calls_are_refused(path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        scan_slate(path / "nothing")
    with pytest.raises(OptionError):
        scan_slate(path, versionAs=1)
