"""Expressions of pyarrow as trees, and what of them a filter can say; queries of DuckDB are in `test_dataset`."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from slatespark.encoding.predicates.arrow_expression import Call, Column, Constant, columns_of, find_filter, find_tree

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("day", pa.date32()), ("ok", pa.bool_())])
ID, NAME = pc.field("id"), pc.field("name")


def test_a_tree() -> None:
    tree = find_tree((ID > 1) & ~pc.starts_with(NAME, "x"))
    assert isinstance(tree, Call)
    above, invert = tree.arguments
    assert (tree.function, above) == ("and_kleene", Call("greater", (Column("id"), Constant(1))))
    assert isinstance(invert, Call)
    [starts] = invert.arguments
    assert isinstance(starts, Call)
    assert (starts.function, starts.arguments) == ("starts_with", (Column("name"),))
    assert starts.options is not None
    assert list(columns_of(tree)) == ["id", "name"]


@pytest.mark.parametrize("expression", [pc.field("a", "b") == 1, pc.field(0) == 1, pa.scalar(2**30, pa.date32()) == ID])
def test_what_is_not_known_has_no_tree(expression: pc.Expression) -> None:
    assert find_tree(expression) is None


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ((ID > 1) & (NAME == "a' OR `id` = '"), "`id` > 1 AND `name` = 'a\\' OR `id` = \\''"),
        (pc.scalar(5) >= ID, "`id` <= 5"),
        ((ID == 1) | ID.isin([2, 3]), "`id` IN (1, 2, 3)"),
        ((ID == 1) | ((ID == 2) | (ID == 3)) | (ID == 4), "`id` IN (1, 2, 3, 4)"),
        ((ID > 1) & ((ID < 9) & (NAME == "a")) & (ID > 2), "`id` > 1 AND `id` < 9 AND `name` = 'a' AND `id` > 2"),
        ((ID == 1) | (NAME == "a"), None),
        ((ID == 1) | (ID > 4), None),
        (ID.isin([1, None]), None),  # rows without an id are among them
        (ID.isin([]), None),
        (~(ID == 1), None),
        (ID == 1.0, None),
        (ID == 2**63 - 1, "`id` = 9223372036854775807"),
        (pa.scalar(2**63, pa.uint64()) < ID, None),
        (pa.scalar(None, pa.int64()) == ID, None),
        (pc.field("ok") == True, None),  # noqa: E712  # an expression
        (pc.field("day") < dt.date(2026, 1, 2), "`day` < DATE '2026-01-02'"),
        (pc.field("day") < dt.datetime(2026, 1, 2, tzinfo=dt.UTC), None),
        (pc.field("other") == 1, None),
        (pc.if_else(ID > 0, NAME == "a", False), None),
    ],
    ids=str,
)
def test_a_filter(expression: pc.Expression, wanted: str | None) -> None:
    tree = find_tree(expression)
    assert tree is not None
    assert find_filter(tree, SCHEMA) == wanted
