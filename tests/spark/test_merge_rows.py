"""Rows that a merge writes, compared with the same merge in plain Python, on random rows and clauses."""

from __future__ import annotations

import random  # noqa: TID251  # seeded
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

from slatespark import InvalidRequestError
from slatespark.spark.failures import own_errors
from slatespark.spark.merge.needs import find_unmatched_nulls, needed_columns
from slatespark.spark.merge.rows import OP_COLUMN, MergeClause, MergeSides, merge_rows
from tests.support.effort import THOROUGH
from tests.support.merge_model import Clause, Condition, Key, Refused, Row, merge_in_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCHEMA = "tenant STRING, id INT, n INT, text STRING"
COLUMNS = ("tenant", "id", "n", "text")
KEYS = ("tenant", "id")


def known(function: Callable[..., Any], *values: Any) -> Any:
    """Return a function's value as SQL does: null if any argument is null."""
    return None if any(value is None for value in values) else function(*values)


def conjunction(*parts: bool | None) -> bool | None:
    if any(part is False for part in parts):
        return False
    return None if any(part is None for part in parts) else True


def equal(name: str) -> Callable[[Row, Row], bool | None]:
    return lambda t, s: known(lambda a, b: a == b, t[name], s[name])


TENANT, ID = equal("tenant"), equal("id")

ON = (
    Condition("t.tenant = s.tenant AND t.id = s.id", lambda t, s: conjunction(TENANT(t, s), ID(t, s))),
    Condition(
        "t.tenant = s.tenant AND t.id = s.id AND s.n > 1",
        lambda t, s: conjunction(TENANT(t, s), ID(t, s), known(lambda n: n > 1, s["n"])),
    ),
    Condition("t.tenant <=> s.tenant AND t.id = s.id", lambda t, s: conjunction(t["tenant"] == s["tenant"], ID(t, s))),
    Condition(
        "s.id = t.id AND t.n < s.n", lambda t, s: conjunction(ID(t, s), known(lambda a, b: a < b, t["n"], s["n"]))
    ),
)

MATCHED = (
    Clause("matched", "delete", Condition("t.n = s.n", equal("n"))),
    Clause(
        "matched",
        "update",
        Condition("s.n % 2 = 0", lambda t, s: known(lambda n: n % 2 == 0, s["n"])),
        {"n": Condition("t.n + s.n", lambda t, s: known(lambda a, b: a + b, t["n"], s["n"]))},
    ),
    Clause("matched", "update", Condition("t.text IS NOT NULL", lambda t, s: t["text"] is not None)),
    Clause("matched", "update", None, {"text": Condition("s.text", lambda t, s: s["text"])}),
    Clause("matched", "delete"),
)
NOT_MATCHED = (
    Clause("notMatched", "insert", Condition("n > 2", lambda t, s: known(lambda n: n > 2, s["n"]))),
    Clause(
        "notMatched",
        "insert",
        Condition("s.text LIKE 'a%'", lambda t, s: known(lambda text: text.startswith("a"), s["text"])),
        {
            "tenant": Condition("s.tenant", lambda t, s: s["tenant"]),
            "id": Condition("id + 1", lambda t, s: known(lambda a: a + 1, s["id"])),
            "n": Condition("-1", lambda t, s: -1),
        },
    ),
    Clause("notMatched", "insert"),
)
BY_SOURCE = (
    Clause("notMatchedBySource", "delete", Condition("n < 2", lambda t, s: known(lambda n: n < 2, t["n"]))),
    Clause(
        "notMatchedBySource",
        "update",
        Condition("t.tenant = 'b'", lambda t, s: known(lambda a: a == "b", t["tenant"])),
        {"text": Condition("concat(text, '!')", lambda t, s: known(lambda a: a + "!", t["text"]))},
    ),
    Clause("notMatchedBySource", "delete"),
)


def some_clauses(rng: random.Random, pool: Sequence[Clause]) -> list[Clause]:
    """Return some of them in any order; at most one without a condition, as the last."""
    conditional = [clause for clause in pool if clause.condition is not None]
    chosen = rng.sample(conditional, rng.randint(0, len(conditional)))
    last = [clause for clause in pool if clause.condition is None]
    return chosen + ([rng.choice(last)] if rng.random() < 0.6 else [])


def some_row(rng: random.Random, *, tenants: Sequence[str | None]) -> dict[str, Any]:
    return {
        "tenant": rng.choice(tenants),
        "id": rng.randint(0, 6),
        "n": rng.choice([None, 0, 1, 2, 3, 4]),
        "text": rng.choice([None, "a", "ab", "c"]),
    }


def run(
    spark: SparkSession, target: dict[Key, Row], source: Sequence[Row], on: Condition, clauses: Sequence[Clause]
) -> dict[Key, Row]:
    """Return the target after the rows that the merge writes."""

    def frame(rows: Sequence[Row]) -> Any:
        return spark.createDataFrame([tuple(row[name] for name in COLUMNS) for row in rows], SCHEMA)

    asked = [
        MergeClause(
            clause.kind,
            clause.action,
            None if clause.condition is None else clause.condition.sql,
            None if clause.assigned is None else {name: value.sql for name, value in clause.assigned.items()},
        )
        for clause in clauses
    ]
    rows = frame(list(target.values()))
    types = {field.name: field.dataType for field in rows.schema.fields}
    sides = MergeSides(rows, frame(source).alias("s"), "t", types, KEYS)
    sides = replace(sides, target=rows.select(*needed_columns(sides, on.sql, asked)).alias("t"))
    result = dict(target)
    written = set()
    for row in merge_rows(sides, on.sql, asked, find_unmatched_nulls(sides, on.sql, asked)).collect():
        key = (row.tenant, row.id)
        if row[OP_COLUMN] == "delete":
            result.pop(key)
        else:
            assert key not in written
            result[key] = {name: row[name] for name in COLUMNS}
        written.add(key)
    return result


@pytest.mark.parametrize("seed", range(12 if THOROUGH else 6))
def test_a_merge_does_what_plain_python_does(spark: SparkSession, seed: int) -> None:
    rng = random.Random(seed)
    tenants = ["a", "b", None] if seed % 2 else ["a", "b"]
    target: dict[Key, Row] = {}
    for row in [some_row(rng, tenants=tenants) for _ in range(10)]:
        target[row["tenant"], row["id"]] = row
    source = [some_row(rng, tenants=tenants) for _ in range(8)]
    if seed % 4 < 3:  # else several rows of the source have one key
        source = list({(row["tenant"], row["id"]): row for row in source}.values())
    on = ON[seed % len(ON)] if seed < 8 else ON[0]
    clauses = [clause for pool in (MATCHED, NOT_MATCHED, BY_SOURCE) for clause in some_clauses(rng, pool)]
    clauses = clauses or [MATCHED[3], NOT_MATCHED[2]]
    try:
        expected = merge_in_python(target, source, on, clauses, KEYS)
    except Refused:
        with pytest.raises(InvalidRequestError), own_errors():
            run(spark, target, source, on, clauses)
        return
    with own_errors():
        assert run(spark, target, source, on, clauses) == expected


# --- what a merge reads of the target -------------------------------------------------------------------------------


@pytest.fixture
def sides(spark: SparkSession) -> MergeSides:
    rows = spark.createDataFrame([], SCHEMA)
    source = spark.createDataFrame([], "tenant STRING, id BIGINT, nr DOUBLE").alias("s")
    return MergeSides(rows.alias("t"), source, "t", {field.name: field.dataType for field in rows.schema.fields}, KEYS)


def test_columns_that_nothing_refers_to_are_not_read(sides: MergeSides) -> None:
    def needed(condition: Any, *clauses: MergeClause) -> list[str]:
        return needed_columns(sides, condition, clauses)

    by_key = "t.tenant = s.tenant AND t.id = s.id"
    delete, update = MergeClause("matched", "delete"), MergeClause("matched", "update")
    assert needed(by_key, delete, update) == ["tenant", "id"]
    assert needed(by_key, replace(delete, condition=F.col("t.N").isin(list(range(1000))))) == ["tenant", "id", "n"]
    assert needed(by_key, replace(update, assigned={"n": "upper(t.Text)"})) == ["tenant", "id", "text"]
    assert needed(by_key, replace(update, assigned={"text": "'x'"})) == ["tenant", "id", "n"]
    assert needed(f"{by_key} AND struct(t.*) IS NOT NULL", delete) == list(COLUMNS)


def test_a_condition_that_is_the_whole_key(sides: MergeSides) -> None:
    insert_all = MergeClause("notMatched", "insert")
    insert = replace(insert_all, assigned={"tenant": "S.tenant", "id": "s.id", "n": "1"})

    def nulls(condition: Any, clause: MergeClause = insert_all) -> tuple[str, ...] | None:
        return find_unmatched_nulls(sides, condition, [clause])

    assert nulls("t.tenant = s.tenant AND s.id = T.id") == ("tenant", "id")
    assert nulls("t.tenant <=> s.tenant and t.id == s.id", insert) == ("id",)
    assert nulls("t.tenant <=> s.tenant and t.id <=> s.id") == ()
    for other in (
        "t.tenant = s.tenant",
        "t.tenant = s.tenant AND t.id = s.id AND s.nr > 1",
        "t.tenant = s.tenant AND t.id = s.nr",  # a fraction may be rounded
        "t.tenant = s.tenant AND t.id = s.id + 1",
        "t.tenant = s.tenant OR t.id = s.id",
        "t.tenant = s.tenant AND t.tenant = s.tenant",
        "t.tenant = s.tenant AND t.id > s.id",
        F.expr("t.tenant = s.tenant AND t.id = s.id"),
    ):
        assert nulls(other) is None
    elsewhere = replace(insert, assigned={"tenant": "s.tenant", "id": "7"})
    assert nulls("t.tenant = s.tenant AND t.id = s.id", elsewhere) is None
