"""Which values a column stores, by their types: all, after a cast; those that fit; or none. Without a Spark session."""

from __future__ import annotations

import pytest
from pyspark.sql import types as spark

from slatespark import SchemaError
from slatespark.spark.expressions.stored_values import GivenValue, fit_type, widens

INT, LONG, TEXT = spark.IntegerType(), spark.LongType(), spark.StringType()
DAYS, MONTHS = spark.DayTimeIntervalType(), spark.YearMonthIntervalType()


def array(part: spark.DataType) -> spark.ArrayType:
    return spark.ArrayType(part)


def mapping(key: spark.DataType, value: spark.DataType) -> spark.MapType:
    return spark.MapType(key, value)


def struct(*fields: tuple[str, spark.DataType]) -> spark.StructType:
    return spark.StructType([spark.StructField(*field) for field in fields])


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        (INT, LONG),
        (array(spark.NullType()), array(INT)),
        (mapping(INT, INT), mapping(LONG, LONG)),
        (struct(("a", INT), ("B", INT)), struct(("A", INT), ("b", LONG))),
    ],
)
def test_every_value_of_a_narrower_type_is_stored(kind: spark.DataType, wanted: spark.DataType) -> None:
    assert widens(kind, wanted)
    assert not widens(wanted, kind)
    assert fit_type(GivenValue("v", kind), wanted, where="update sets column v").startswith("CAST(v AS ")


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        (INT, TEXT),
        (TEXT, INT),
        (spark.BooleanType(), INT),
        (array(INT), TEXT),
        (INT, DAYS),
        (MONTHS, DAYS),
        (DAYS, MONTHS),
        (array(LONG), array(INT)),
        (array(INT), mapping(INT, INT)),
        (mapping(INT, INT), array(INT)),
        (mapping(TEXT, INT), mapping(INT, INT)),
        (mapping(INT, INT), mapping(TEXT, LONG)),
        (mapping(INT, LONG), mapping(LONG, INT)),
        (struct(("a", INT)), INT),
        (INT, struct(("a", INT))),
        (struct(("a", INT)), mapping(TEXT, INT)),
        (mapping(TEXT, INT), struct(("a", INT))),
        # by position it would fit
        (struct(("c", INT), ("b", INT)), struct(("a", INT), ("b", INT))),
        # a field would be lost
        (struct(("a", INT), ("b", INT)), struct(("a", INT))),
        (struct(("a", INT), ("A", INT)), struct(("a", INT))),
        (array(struct(("b", INT))), array(struct(("a", INT)))),
        (mapping(TEXT, struct(("b", INT))), mapping(TEXT, struct(("a", INT)))),
        (mapping(struct(("b", INT)), TEXT), mapping(struct(("a", INT)), TEXT)),
        (struct(("s", struct(("b", INT)))), struct(("s", struct(("a", INT))))),
    ],
)
def test_values_of_another_sort_are_refused(kind: spark.DataType, wanted: spark.DataType) -> None:
    assert not widens(kind, wanted)
    with pytest.raises(SchemaError, match="update sets column v"):
        fit_type(GivenValue("v", kind), wanted, where="update sets column v")
