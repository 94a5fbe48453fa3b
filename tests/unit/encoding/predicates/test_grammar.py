"""The grammar of filters, and errors that show the position."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import pytest

from slatespark import OptionError
from slatespark.encoding.predicates import Comparison, Literal, parse_alternatives, parse_filter


def only(text: str) -> Comparison:
    (comparison,) = singles(text)
    return comparison


def singles(text: str) -> list[Comparison]:
    found = parse_filter(text)
    assert all(isinstance(item, Comparison) for item in found)
    return [item for item in found if isinstance(item, Comparison)]


def value_of(literal: str) -> tuple[str, Any]:
    found = only(f"x = {literal}").literals[0]
    return found.kind, found.value


def test_comparisons_are_joined_by_and() -> None:
    found = singles("tenant = 'a' AND day >= '2026-01-01' and id IN (1, 2)")
    assert [(item.column, item.operator, len(item.literals)) for item in found] == [
        ("tenant", "=", 1),
        ("day", ">=", 1),
        ("id", "IN", 2),
    ]


@pytest.mark.parametrize(
    ("text", "column", "operator"),
    [
        ("x == 1", "x", "="),
        ("x != 1", "x", "<>"),
        ("x<=>NULL", "x", "<=>"),
        ("1 < x", "x", ">"),
        ("1 >= x", "x", "<="),
        ("-1 <=> `a b`", "a b", "<=>"),
        ("`it``s` is not null", "it`s", "IS NOT NULL"),
        ("x is null", "x", "IS NULL"),
        ("x not in (1)", "x", "NOT IN"),
        ("x between 1 and 2", "x", "BETWEEN"),
        ("x like 'a%'", "x", "LIKE prefix%"),
        ("x like 'a'", "x", "LIKE"),
        ("`and` = 1", "and", "="),
        ("date = '2026-01-01'", "date", "="),
        ("timestamp > DATE'2026-01-01'", "timestamp", ">"),
        ("((x = 1))", "x", "="),
        ("\n x\t=\n1 ", "x", "="),
    ],
)
def test_forms(text: str, column: str, operator: str) -> None:
    found = only(text)
    assert (found.column, found.operator) == (column, operator)


def test_parentheses_group_comparisons() -> None:
    found = singles("(a = 1 AND (b = 2)) AND ((c = 3 AND d = 4))")
    assert [item.column for item in found] == ["a", "b", "c", "d"]
    assert len(parse_filter("(" * 5000 + "a = 1" + ")" * 5000)) == 1


@pytest.mark.parametrize(
    ("literal", "kind", "value"),
    [
        ("12", "number", Fraction(12)),
        ("-12", "number", Fraction(-12)),
        ("+ 12", "number", Fraction(12)),
        ("1.50", "number", Fraction(3, 2)),
        (".5", "number", Fraction(1, 2)),
        ("5.", "number", Fraction(5)),
        ("-128Y", "number", Fraction(-128)),
        ("-9223372036854775808", "number", Fraction(-(2**63))),
        ("1e2BD", "number", Fraction(100)),
        ("0e-9BD", "number", Fraction(0)),
        ("1e2", "double", 100.0),
        ("1D", "double", 1.0),
        ("-1.5d", "double", -1.5),
        ("0.1F", "double", 0.10000000149011612),
        # slightly above the midpoint of two floats: rounding to double first would round down to even
        ("1.00000017881393432617187501F", "double", 1.000000238418579),
        ("1e-999999999F", "double", 0.0),
        ("0e999999999F", "double", 0.0),
        ("true", "boolean", True),
        ("NULL", "null", None),
        ("X'0aF'", "binary", b"\x00\xaf"),
        ("x ''", "binary", b""),
        ("DATE '1970-01-02'", "date", 1),
        ("timestamp '1970-01-01 00:00:01'", "timestamp", 1_000_000),
        ("TIMESTAMP '1970-01-01 01:00:00+01:00'", "timestamp", 0),
        ("TIMESTAMP_NTZ '1970-01-01 01:00:00+01:00'", "timestamp", 3_600_000_000),
        ("TIME '00:00:01'", "time", 1_000_000_000),
    ],
)
def test_literals(literal: str, kind: str, value: Any) -> None:
    assert value_of(literal) == (kind, value)


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("'it''s'", "it's"),
        (r"'it\'s'", "it's"),
        ('"say ""x"""', 'say "x"'),
        ('"it\'s"', "it's"),
        (r"'\''''", "''"),
        (r"'\\''x'", "\\'x"),
        (r"'a\tb\nc\0\Z'", "a\tb\nc\0\x1a"),
        (r"'\u00e4\U0001F600\101'", "ä\U0001f600A"),
        (r"'\ud83d\ude00'", "\U0001f600"),
        (r"'\q\u12'", "qu12"),
        (r"'\%\_'", r"\%\_"),
        (r"r'\n'", r"\n"),
        (r'R"it\'s"', r"it\'s"),
        ("'two\nlines'", "two\nlines"),
        ("'--;/* */'", "--;/* */"),
    ],
)
def test_strings(literal: str, value: str) -> None:
    assert value_of(literal) == ("string", value)


@pytest.mark.parametrize(
    ("pattern", "operator", "text"),
    [
        ("'%'", "LIKE prefix%", ""),
        ("'a%%%'", "LIKE prefix%", "a"),
        (r"'100\%%'", "LIKE prefix%", "100%"),
        (r"'a\\_b%'", "LIKE prefix%", "a_b"),
        (r"r'a\\b%'", "LIKE prefix%", "a\\b"),
        (r"'100\%'", "LIKE", "100%"),
        ("''", "LIKE", ""),
    ],
)
def test_patterns(pattern: str, operator: str, text: str) -> None:
    found = only(f"x LIKE {pattern}")
    assert (found.operator, found.literals[0].value) == (operator, text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id = 1 OR id = 2", "`id = 1 >>>OR<<< id = 2`"),
        ("id = 1 AND", "`id = 1 AND`"),
        ("", "end"),
        ("id", "comparison"),
        ("id = other", "`id = >>>other<<<`"),
        ("1 = 1", "character 5"),
        ("id + 1 = 2", "`id >>>+<<< 1 = 2`"),
        ("lower(x) = 'a'", "functions"),
        ("a.b = 1", "struct"),
        ("NOT x = 1", "`>>>NOT<<< x = 1`"),
        ("x NOT LIKE 'a%'", "character 7"),
        ("x NOT BETWEEN 1 AND 2", "character 7"),
        ("x LIKE 'a%b'", "character 8"),
        ("x LIKE 'a_'", "pattern"),
        (r"x LIKE 'a\\'", "backslash"),
        ("x LIKE 5", "character 8"),
        ("x IN 5", "character 6"),
        ("x IN ()", "character 7"),
        ("x IN (1 2)", "character 9"),
        ("x IS 5", "NULL"),
        ("x BETWEEN 1, 2", "character 12"),
        ("(x = 1", "end"),
        ("x = 1)", "`x = 1>>>)<<<`"),
        ("x = 'a", "`x = >>>'a<<<`"),
        ("`x = 1", "backticks"),
        ("x = 1 -- why", "character 7"),
        ("x = 1; DROP", "`x = 1>>>;<<< DROP`"),
        ("x = 1x", "`x = >>>1x<<<`"),
        ("2x = 1", "backticks"),
        ("ä = 1", "'ä'"),
        ("x = 128Y", "bits"),
        ("x = 1.5L", "number"),
        ("x = 1e400", "DOUBLE"),
        ("x = 1e39F", "FLOAT"),
        ("x = 1e999999999BD", "38"),
        ("x = " + "9" * 39, "38"),
        ("x = 0." + "1" * 39, "38"),
        ("x = X'0g'", "`x = >>>X'0g'<<<`"),
        ("x = DATE '2026-02-30'", "2026-02-30"),
        ("x = TIMESTAMP '2026-01-01 12:00:00 Europe/Berlin'", "zone"),
        ("x = TIME '25:00'", "25:00"),
        ("x = r'\ud83d'", "surrogate"),
        ("x = '\ud83d'", "surrogate"),
        (r"x = '\ud83d'", "surrogate"),
        (r"x = '\UFFFFFFFF'", "code"),
        ("x = INTERVAL '1' DAY", "character 5"),
        ("x LIKE 'a%' ESCAPE '/'", "character 13"),
    ],
)
def test_errors_show_the_position(text: str, message: str) -> None:
    with pytest.raises(OptionError, match=_escaped(message)):
        parse_filter(text)


def _escaped(message: str) -> str:
    """A message as a pattern in which only `.*` and `|` are special."""
    return re.escape(message).replace(r"\.\*", ".*").replace(r"\|", "|")


def test_errors_show_only_the_text_around_the_position() -> None:
    with pytest.raises(OptionError) as error:
        parse_filter("x = 1 AND " * 1000 + "? = 1" + " AND x = 1" * 1000)
    assert "`...x = 1 AND" in str(error.value)
    assert ">>>?<<< = 1 AND" in str(error.value)
    assert len(str(error.value)) < 200


def test_the_argument_is_named() -> None:
    with pytest.raises(OptionError, match=r"^condition"):
        parse_filter("x =", name="condition")


def test_literals_have_spans() -> None:
    literal = only("x = DATE '1970-01-01'").literals[0]
    assert literal == Literal("date", 0)  # the span does not count
    assert (literal.span.start, literal.span.end) == (4, 21)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "alternatives"),
    [
        ("a = 1", ["a"]),
        ("a = 1 OR b = 2", ["a", "b"]),
        ("a = 1 AND b = 2 OR c = 3", ["ab", "c"]),
        ("a = 1 AND (b = 2 OR c = 3)", ["ab", "ac"]),
        ("(a = 1 OR b = 2) and (c = 3 or d = 4)", ["ac", "ad", "bc", "bd"]),
        ("((a = 1) OR ((b = 2 AND c = 3) OR d = 4)) AND e BETWEEN 1 AND 2", ["ae", "bce", "de"]),
        ("(" * 5000 + "a = 1" + " OR b = 1)" + ")" * 4999, ["a", "b"]),
    ],
)
def test_alternatives(text: str, alternatives: list[str]) -> None:
    found = parse_alternatives(text, name="where")
    columns = [[item.column for item in conjunction if isinstance(item, Comparison)] for conjunction in found]
    assert ["".join(names) for names in columns] == alternatives


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("a = 1 OR", "name of a column"),
        ("OR a = 1", "name of a column"),
        ("(a = 1 OR b = 2", r"\)"),
        ("a = 1 b = 2", "AND or OR"),
        ("NOT a = 1", "name of a column"),
        (" OR ".join(["a = 1"] * 1001), "1000"),
        (" AND ".join(["(a = 1 OR b = 2)"] * 11), "1000"),
    ],
)
def test_malformed_alternatives(text: str, word: str) -> None:
    with pytest.raises(OptionError, match=f"^where.*{word}"):
        parse_alternatives(text, name="where")


def test_filters_take_no_or() -> None:
    with pytest.raises(OptionError, match="AND"):
        parse_filter("a = 1 OR b = 2")


@pytest.mark.parametrize("argument", [b"k", 3, ["id = 1"]])
def test_what_is_no_text_is_refused(argument: object) -> None:
    with pytest.raises(OptionError):
        parse_filter(argument)  # type: ignore[arg-type]
