"""Where a query names tables, and which version it asks for; expected positions are searched in the text."""

from __future__ import annotations

from typing import Any

import pytest

from slatespark import OptionError
from slatespark.spark.sql import queries
from slatespark.spark.sql.mentions import find_tokens

T = "slate.`/a b/{t}`"


def found(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the text that is replaced for each table of ours, and its options."""
    tables = []
    for mention in queries._mentions(text):
        options, end = queries._version(text, mention, None)  # type: ignore[arg-type]  # for times alone
        tables.append((text[mention.start : end], options))
    return tables


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        (f"SELECT * FROM {T}", [(T, {})]),
        (f"SELECT * FROM {T} VERSION AS OF 3 AS a", [(f"{T} VERSION AS OF 3", {"versionAsOf": 3})]),
        (f"SELECT * FROM {T}\n FOR version as  of 3 a", [(f"{T}\n FOR version as  of 3", {"versionAsOf": 3})]),
        (
            f"SELECT * FROM {T} /* of\nold */ FOR -- it\n VERSION/**/AS OF 3 a",
            [(f"{T} /* of\nold */ FOR -- it\n VERSION/**/AS OF 3", {"versionAsOf": 3})],
        ),
        (f"SELECT * FROM {T} -- VERSION AS OF 3", [(T, {})]),
        (f"SELECT {T} FROM x", [("x", {})]),  # a column
        (f"SELECT '{{}} {T}' /* {T} */ FROM x -- {T}", [("x", {})]),
        (f"SELECT /*+ BROADCAST({T}), MERGE(t) */ * FROM {T} t", [(T, {})]),
        (f"SELECT * FROM x, {T} WHERE EXISTS (SELECT 1 FROM {T} VERSION AS OF 1)", None),
        (f"WITH c AS (SELECT * FROM {T}) SELECT * FROM c UNION ALL SELECT * FROM c VERSION AS OF 2", [(T, {})]),
        ("SELECT * FROM orders VERSION AS OF 2", [("orders VERSION AS OF 2", {"versionAsOf": 2})]),
    ],
)
def test_tables_are_where_they_stand(text: str, tables: list[tuple[str, dict[str, Any]]] | None) -> None:
    wanted = [("x", {}), (T, {}), (f"{T} VERSION AS OF 1", {"versionAsOf": 1})] if tables is None else tables
    assert found(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT * FROM {T} VERSION AS OF 'x'",
        f"SELECT * FROM {T} VERSION AS OF",
        f"SELECT * FROM {T} WHERE (",
        f"DROP {T}",
    ],
)
def test_what_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="sql:"):
        found(text)


def test_an_error_shows_the_place() -> None:
    with pytest.raises(OptionError, match=">>>x<<<"):
        found("SELECT * FRM x WHERE slate.`t`")


def test_a_table_that_is_elsewhere_in_the_text_is_refused() -> None:
    text = f"SELECT * FROM {T}"
    for start, end in ((14, 18), (0, 6), (7, 8), (14, len(text) - 1)):
        with pytest.raises(OptionError, match="was not found in the text"):
            queries._check_mention(text, queries._TableMention(("slate", "/a b/{t}"), start, end, ""))


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (f"/* all */ TABLE {T}", 1),
        (f"((table {T} ) )", 1),
        (f"TABLE {T} LIMIT 1", 1),
        (f"TABLE {T} VERSION AS OF 3", 1),
        (f"TABLE `slate`.`/a b/{{t}}` UNION ALL (TABLE {T}) ORDER BY 1", 2),
        (f"WITH x AS (TABLE {T}) SELECT a AS table, '{{}} TABLE {T}' FROM x JOIN {T} u USING (a)", 2),
    ],
)
def test_a_table_by_itself_is_a_query(text: str, count: int) -> None:
    read = queries._as_select(text, find_tokens(text))
    assert [mention.name for mention in queries._mentions(read) if len(mention.name) > 1] == [
        ("slate", "/a b/{t}")
    ] * count


def test_other_queries_stay() -> None:
    for text in ("SELECT 1, 2", f"SELECT table, a FROM {T}", f"SELECT f(TABLE(x)) FROM {T}", f"SELECT '.TABLE {T}'"):
        assert queries._as_select(text, find_tokens(text)) == text
