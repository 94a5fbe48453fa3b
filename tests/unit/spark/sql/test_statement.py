"""How a statement is read: words, names, and text that is left as it was written."""

from __future__ import annotations

import pytest

from slatespark import OptionError
from slatespark.spark.sql.statement import Statement


def test_words_are_read_whole_or_not_at_all() -> None:
    read = Statement("merge Into t")
    assert not read.take("MERGE", "WITH")
    assert read.take("MERGE", "INTO")
    assert read.dotted_name() == ("t",)
    read.end()


@pytest.mark.parametrize(
    ("text", "found", "rest"),
    [
        ("a = 1 WHEN x", "a = 1", "WHEN"),
        ("CASE WHEN a THEN 1 END = 1 WHEN x", "CASE WHEN a THEN 1 END = 1", "WHEN"),
        ("t.when = 1 AND f((SELECT 1 WHEN), [WHEN]) WHEN", "t.when = 1 AND f((SELECT 1 WHEN), [WHEN])", "WHEN"),
        ("'WHEN' || `when` || \"WHEN\" WHEN", "'WHEN' || `when` || \"WHEN\"", "WHEN"),
        ("a /* WHEN ( */ + 1 -- WHEN\n WHEN", "a /* WHEN ( */ + 1", "WHEN"),
        ("a WHERE b", "a WHERE b", ""),
        ("end > 1 AND (end, CASE WHEN a THEN 1 END) WHEN", "end > 1 AND (end, CASE WHEN a THEN 1 END)", "WHEN"),
    ],
)
def test_text_ends_where_a_clause_begins(text: str, found: str, rest: str) -> None:
    read = Statement(text)
    assert read.text_until("WHEN", called="a condition") == found
    assert read.next.text == rest


@pytest.mark.parametrize("text", ["(a", "a)", "WHEN", "(a]", "CASE WHEN", ""])
def test_text_without_an_end_or_a_beginning_is_refused(text: str) -> None:
    read = Statement(text)

    def read_whole() -> None:
        read.text_until("WHEN", called="a condition")
        read.end()

    with pytest.raises(OptionError, match="sql:"):
        read_whole()


def test_an_expression_reads_no_table_by_its_path() -> None:
    for text in ("id IN (SELECT id FROM slate.`/t`)", "id = (SELECT 1 FROM x JOIN SLATE . `/t` USING (id))"):
        with pytest.raises(OptionError, match="temporary view"):
            Statement(text).expression_until(called="a condition")
    for text in (
        "id IN (SELECT id FROM slate.orders)",
        "slate.`id` = 1",
        "id IN (SELECT id FROM slate)",
        "id IN (SELECT slate.`id` FROM v AS slate)",
    ):
        assert Statement(text).expression_until(called="a condition") == f"({text})"


def test_a_list_is_cut_at_its_own_commas() -> None:
    read = Statement("(a, f(b, c), 'x,y') rest")
    assert read.list_in_parentheses("a value") == ["a", "f(b, c)", "'x,y'"]
    assert read.name() == "rest"


def test_a_column_may_be_called_end() -> None:
    read = Statement("(start INT, end INT, PRIMARY KEY (start)) (CASE end WHEN 1 THEN end END, end)")
    assert read.list_in_parentheses("a column") == ["start INT", "end INT", "PRIMARY KEY (start)"]
    assert read.list_in_parentheses("a value")[-1] == "end"


def test_a_whole_number_has_an_end() -> None:
    assert Statement("9" * 30).whole_number() == 10**30 - 1
    with pytest.raises(OptionError, match="too large"):
        Statement("9" * 5000).whole_number()


@pytest.mark.parametrize(("text", "alias"), [("AS t SET", "t"), ("t SET", "t"), ("`set` SET", "set"), ("SET", None)])
def test_an_alias_is_no_keyword(text: str, alias: str | None) -> None:
    read = Statement(text)
    assert read.alias() == alias
    read.expect("SET")


def test_a_path_is_in_backticks() -> None:
    assert Statement("slate.`a b`").table() == ("slate", "a b")
    assert Statement("slate.t").table() is None  # of a database slate
    assert Statement("slate.s.t").table() == ("slate", "s", "t")


def test_an_error_shows_the_place() -> None:
    read = Statement("UPDATE t SOT a = 1;")
    read.expect("UPDATE")
    read.name()
    with pytest.raises(OptionError, match=">>>SOT<<<"):
        read.expect("SET")
