"""The columns of CREATE TABLE: which words belong to a type, and which to clauses that a table does not keep."""

from __future__ import annotations

import pytest

from slatespark import OptionError
from slatespark.spark.sql import definitions

NESTED = [
    "s STRUCT<comment: STRING, check: INT>",
    "s STRUCT<a: ARRAY<STRUCT<`a b`: INT, default INT>>, mask: MAP<STRING, STRUCT<unique: INT>>> NOT NULL",
    "comment STRING",
]


@pytest.mark.parametrize("part", NESTED)
def test_fields_may_have_the_names_of_clauses(part: str) -> None:
    columns: list[str] = []
    definitions._read_part(part, columns, [])
    assert columns == [part]


@pytest.mark.parametrize(
    "part",
    [
        "id INT COMMENT 'x'",
        "id INT DEFAULT 1",
        "id STRUCT<a: INT> UNIQUE",
        "id STRUCT<a: INT COMMENT 'x', b: INT>",
        "id STRUCT<a: STRING COLLATE UTF8_LCASE>",
        "id STRUCT<comment: INT COMMENT 'x'>",
        "id DECIMAL(10, 2) CHECK (id > 1)",
    ],
)
def test_clauses_are_refused(part: str) -> None:
    with pytest.raises(OptionError, match="NOT NULL"):
        definitions._read_part(part, [], [])
