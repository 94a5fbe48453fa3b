"""Names of columns and of fields in them, as assignments spell them. Without a Spark session."""

from __future__ import annotations

import pytest
from pyspark.sql.types import IntegerType, StructField, StructType

from slatespark import SchemaError
from slatespark.spark.expressions.nested_fields import resolve_path, split_path


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a", ["a"]),
        ("t.a.b", ["t", "a", "b"]),
        ("`t.a`.b", ["t.a", "b"]),
        ("a.`b``.c`", ["a", "b`.c"]),
        ("```a`", ["`a"]),
        ("a b.c,d", ["a b", "c,d"]),
        # no dotted names, but columns may be called so
        ("", [""]),
        ("a.", ["a."]),
        (".a", [".a"]),
        ("a..b", ["a..b"]),
        ("a`b", ["a`b"]),
        ("a`b`", ["a`b`"]),
        ("`a`b", ["`a`b"]),
        ("``", ["``"]),
    ],
)
def test_parts_of_a_name(text: str, parts: list[str]) -> None:
    assert split_path(text) == parts


def test_fields_are_spelt_as_their_structs_do() -> None:
    inner = StructType([StructField("Aa", IntegerType()), StructField("b.c", IntegerType())])
    kind = StructType([StructField("Inner", inner), StructField("n", IntegerType())])

    def path(*parts: str) -> tuple[str, ...]:
        return resolve_path(kind, parts, where="update sets s.x")

    assert path("n") == ("n",)
    assert path("inner", "AA") == ("Inner", "Aa")
    assert path("INNER", "B.C") == ("Inner", "b.c")
    twins = StructType([StructField("aa", IntegerType()), StructField("AA", IntegerType())])
    assert resolve_path(twins, ["AA"], where="update sets s.x") == ("AA",)
    for wrong, reason in ((("a",), "Inner, n"), (("inner", "n"), "Aa, b.c"), (("n", "a"), "Only a struct")):
        with pytest.raises(SchemaError, match=f"no field {wrong[-1]}") as refused:
            path(*wrong)
        assert reason in refused.value.why
