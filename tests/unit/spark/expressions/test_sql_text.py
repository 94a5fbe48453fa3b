"""SQL text as tokens: conditions split at AND, and names in expressions, despite quotes and comments."""

from __future__ import annotations

import pytest

from slatespark import OptionError
from slatespark.spark.expressions.sql_text import (
    cut_sql,
    find_names,
    is_same_operand,
    join_tokens,
    split_condition,
    split_equality,
    without_qualifier,
)


def parts(condition: str) -> list[str]:
    return [join_tokens(part) for part in split_condition(condition)]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a = 1", ["a = 1"]),
        ("a = 1 and b = 2 AND\n\tc = 3", ["a = 1", "b = 2", "c = 3"]),
        ("a = 1AND b = 2", []),  # Spark reads no number there either
        # literals
        ("a = 'x AND y' AND b = 1", ["a = 'x AND y'", "b = 1"]),
        ("a = '(' AND b = ')'", ["a = '('", "b = ')'"]),
        ("a = 'it''s AND (' AND b = 1", ["a = 'it''s AND ('", "b = 1"]),
        ("a = '\\' AND b = 1 AND \\''", ["a = '\\' AND b = 1 AND \\''"]),
        ("a = '\\\\' AND b = 1", ["a = '\\\\'", "b = 1"]),
        ("a = r'\\' AND b = r' AND '", ["a = r'\\'", "b = r' AND '"]),
        ("a = \" AND 'x\" AND b = '\"'", ['a = " AND \'x"', "b = '\"'"]),
        ("a = DATE'2026-01-01' AND b = X'1F'", ["a = DATE'2026-01-01'", "b = X'1F'"]),
        # names
        ("`a AND b` = 1 AND c = 2", ["`a AND b` = 1", "c = 2"]),
        ("t.`a.``(b` = 1 AND `-- c` = 2", ["t.`a.``(b` = 1", "`-- c` = 2"]),
        ("band = 1 AND nand.and_or = 2", ["band = 1", "nand.and_or = 2"]),
        # comments
        ("a = 1 -- AND b = 2", ["a = 1"]),
        ("a = 1 -- it's (\nAND b = 2", ["a = 1", "b = 2"]),
        ("a = 1 -- x \\\nAND b = 2", ["a = 1"]),
        ("a /* AND ( ' */ = 1 AND/**/b = 2", ["a = 1", "b = 2"]),
        ("a = 1 /* x /* AND y */ AND z */ AND b = 2", ["a = 1", "b = 2"]),
        ("a = '/*' AND b = '*/' AND c = '--'", ["a = '/*'", "b = '*/'", "c = '--'"]),
        ("a = 1 - -1 AND b = 2 /*/ AND c */", ["a = 1 - -1", "b = 2"]),
        # brackets
        ("(a = 1) AND ((b = 2 AND (c = 3)))", ["a = 1", "b = 2", "c = 3"]),
        ("(a = 1 OR b = 2 AND c = 3) AND d = 4", ["(a = 1 OR b = 2 AND c = 3)", "d = 4"]),
        ("(a AND b) = (c AND d)", ["(a AND b) = (c AND d)"]),
        ("NOT (a AND b) AND c", ["NOT (a AND b)", "c"]),
        ("f(a AND b, ')') AND x[a AND b] AND (c, d) = (1, 2)", ["f(a AND b, ')')", "x[a AND b]", "(c, d) = (1, 2)"]),
        ("a IN (1, 2) AND exists(x, y -> y AND z)", ["a IN (1, 2)", "exists(x, y -> y AND z)"]),
        ("EXISTS (SELECT 1 FROM t WHERE a AND b) AND c", ["EXISTS (SELECT 1 FROM t WHERE a AND b)", "c"]),
        ("(SELECT max(x) FROM t WHERE a AND b)", ["(SELECT max(x) FROM t WHERE a AND b)"]),
        ("((SELECT 1) UNION SELECT a AND b)", ["((SELECT 1) UNION SELECT a AND b)"]),
        # casts, subscripts, arithmetic
        ("CAST(a AS INT) = 1 AND b::DATE = c AND v:x.y = 1", ["CAST(a AS INT) = 1", "b::DATE = c", "v:x.y = 1"]),
        ("a % 2 * b = c[0] || d AND !e != f & g", ["a % 2 * b = c[0] || d", "!e != f & g"]),
        # words that have an AND of their own
        ("a BETWEEN 1 AND 2 AND b = 3", ["a BETWEEN 1 AND 2", "b = 3"]),
        ("a NOT BETWEEN 1 AND 2 AND b BETWEEN (c AND d) AND e", ["a NOT BETWEEN 1 AND 2", "b BETWEEN (c AND d) AND e"]),
        ("CASE WHEN a AND b THEN c OR d END AND e", ["CASE WHEN a AND b THEN c OR d END", "e"]),
        ("a BETWEEN CASE WHEN b AND c THEN 1 END AND 2 AND d", ["a BETWEEN CASE WHEN b AND c THEN 1 END AND 2", "d"]),
        # not settled by tokens
        ("a = 1 OR b = 2 AND c = 3", []),
        ("a = t.or AND b = 2", []),
        ("a = 1 AND (b = 2", []),
        ("a = 1) AND (b = 2", []),
        ("(a = 1] AND b = 2", []),
        ("t.case = 1 AND b = 2", []),
        ("t.end = 1 AND b = 2", []),
        ("a = t.between AND b = 2", ["a = t.between AND b = 2"]),
        ("a = 1 AND b, c", []),
        # not cut into tokens
        ("a = 'x AND b = 1", []),
        ("a = `x AND b = 1", []),
        ("a = 1 /* AND b = 2", []),
        ("a = 1 /* x /* y */ AND b = 2", []),
        ("a = 1 /*+ hint */ AND b = 2", []),
        ("größe = 1 AND b = 2", []),
        ("a = $$ AND $$ AND b = 2", []),
        ("a = 1 AND b = ?", []),
    ],
)
def test_conditions_are_cut_at_and(condition: str, expected: list[str]) -> None:
    assert parts(condition) == expected


def test_parts_are_sql_again() -> None:
    expected = ["a = ' AND '", "`b c` = 1", "f(x)[0]"]
    assert parts("(a = ' AND ' -- x\n AND (`b c` /* */ = 1)) AND f(x)[0]") == expected
    assert parts(" AND ".join(expected)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("t.id = s.id", ("t.id", "=", "s.id")),
        ("`t`.`my id`/* ! */<=> 5", ("`t`.`my id`", "<=>", "5")),
        ("id == s.x.y", ("id", "==", "s.x.y")),
        ("t.id = s.id + 1", None),
        ("t.id = 'a'", None),
        ("t.id = s.id = true", None),
        ("NOT t.id = s.id", None),
        ("t.id = f(s.id)", None),
        ("t. = s.id", None),
        ("t.id > s.id", None),
        ("t.id =", None),
    ],
)
def test_equalities_of_operands(text: str, expected: tuple[str, str, str] | None) -> None:
    found = split_equality(cut_sql(text))
    assert (None if found is None else (join_tokens(found[0]), found[1], join_tokens(found[2]))) == expected


def test_operands_are_compared_without_case_and_backticks() -> None:
    assert is_same_operand(cut_sql("S.`Id`"), cut_sql("s.id"))
    assert not is_same_operand(cut_sql("s.`a.b`"), cut_sql("s.a.b"))
    assert not is_same_operand(cut_sql("5"), cut_sql("`5`"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("upper(t.Name) || ' other ' -- third", "upper t name"),
        ("t.`a.b` * 2 + `c``d`", "t a.b c`d"),
        ("s.n*t.n", "s t n"),
        ("(a) * b[0] * c", "a b c"),
        ("a = \"b\" AND c = 'd'", "a b and c"),
        ("struct(t.*)", None),
        ("count( * )", None),
        ("array(a, *)", None),
        ("IDENTIFIER('a' || 'b')", None),
        ('"a\\x62"', None),
        ("größe", None),
        ("a = 'b", None),
    ],
)
def test_names_in_an_expression(text: str, expected: str | None) -> None:
    assert find_names(text) == (None if expected is None else set(expected.split()))


def test_what_is_no_token_is_refused() -> None:
    for text in ("a = 'b", "/* a", "a /*+ b */", "1a"):
        with pytest.raises(OptionError):
            cut_sql(text)
    assert cut_sql(" -- nothing") == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("t.id > 1 AND T . `a.b` = 't.id' -- t.id", "id > 1 AND `a.b` = 't.id' -- t.id"),
        ("(`t`.id, t.n) IN ((1, 2))", "(id, n) IN ((1, 2))"),
        ("s.t.id = 1 AND t.t.id = 2 AND t = 3 AND tt.id = 4", "s.t.id = 1 AND t.id = 2 AND t = 3 AND tt.id = 4"),
        ("t.id = 'open", "t.id = 'open"),
        ("t.", "t."),
    ],
)
def test_a_qualifier_is_left_out(text: str, expected: str) -> None:
    assert without_qualifier(text, "t") == expected
    assert without_qualifier(text, None) == text
