"""Spark's types as Arrow's and back, without a Spark session."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import types as spark

from slatespark import SchemaError
from slatespark.encoding.collations import require_byte_order
from slatespark.encoding.column_types import TIMESTAMP, TIMESTAMP_NTZ, VARIANT, canonical_schema
from slatespark.spark.expressions.stored_values import widens
from slatespark.spark.type_mapping import arrow_schema, spark_schema, without_lengths

FLAT: list[tuple[spark.DataType, pa.DataType]] = [
    (spark.BooleanType(), pa.bool_()),
    (spark.ByteType(), pa.int8()),
    (spark.ShortType(), pa.int16()),
    (spark.IntegerType(), pa.int32()),
    (spark.LongType(), pa.int64()),
    (spark.FloatType(), pa.float32()),
    (spark.DoubleType(), pa.float64()),
    (spark.DecimalType(10, 2), pa.decimal128(10, 2)),
    (spark.DecimalType(38, 38), pa.decimal128(38, 38)),
    (spark.StringType(), pa.string()),
    (spark.BinaryType(), pa.binary()),
    (spark.DateType(), pa.date32()),
    (spark.TimestampType(), TIMESTAMP),
    (spark.TimestampNTZType(), TIMESTAMP_NTZ),
    (spark.DayTimeIntervalType(), pa.duration("us")),
    (spark.TimeType(), pa.time64("ns")),
    (spark.VariantType(), VARIANT),
]


class Point(spark.UserDefinedType):
    @classmethod
    def sqlType(cls) -> spark.DataType:  # noqa: N802  # Spark's name
        return spark.StringType()


def columns(*kinds: spark.DataType) -> spark.StructType:
    return spark.StructType([spark.StructField(f"c{number}", kind) for number, kind in enumerate(kinds)])


@pytest.mark.parametrize(("kind", "arrow"), FLAT, ids=lambda kind: str(kind))
def test_flat_types(kind: spark.DataType, arrow: pa.DataType) -> None:
    schema = spark.StructType([spark.StructField("c", kind), spark.StructField("n", kind, nullable=False)])
    assert arrow_schema(schema).equals(pa.schema([pa.field("c", arrow), pa.field("n", arrow, nullable=False)]))
    assert spark_schema(arrow_schema(schema)) == schema


def test_nested_types_keep_which_parts_may_be_null() -> None:
    part = spark.StructType([*columns(*(kind for kind, _ in FLAT)), spark.StructField("n", spark.ByteType(), False)])
    kind = spark.ArrayType(spark.MapType(spark.StringType(), part, False), False)
    schema = columns(kind, spark.ArrayType(kind), spark.MapType(spark.DateType(), part))
    arrow = arrow_schema(schema)
    assert arrow.equals(canonical_schema(arrow))  # one Arrow type for each type of Spark, as everywhere below
    assert not arrow.field("c0").type.value_field.nullable
    assert spark_schema(arrow) == schema


def test_comments_of_columns_and_of_parts_stay() -> None:
    part = spark.StructType([spark.StructField("x", spark.StringType(), metadata={"comment": "inside"})])
    schema = spark.StructType([spark.StructField("s", part, metadata={"comment": "outside"})])
    back = spark_schema(arrow_schema(schema))
    assert back == schema
    assert back["s"].metadata == {"comment": "outside"}
    inside = back["s"].dataType
    assert isinstance(inside, spark.StructType)
    assert inside["x"].metadata == {"comment": "inside"}


def test_kinds_of_strings_times_and_intervals_become_one() -> None:
    strings = [spark.CharType(3), spark.VarcharType(9), spark.StringType("UTF8_LCASE")]
    given = columns(*strings, spark.TimeType(3), spark.DayTimeIntervalType(1, 2))
    plain = columns(*[spark.StringType()] * 3, spark.TimeType(6), spark.DayTimeIntervalType(0, 3))
    assert spark_schema(arrow_schema(given)) == plain


@pytest.mark.parametrize(
    "kind", [spark.NullType(), spark.CalendarIntervalType(), spark.YearMonthIntervalType(), Point()], ids=str
)
def test_types_that_no_table_holds_are_refused_with_their_place(kind: spark.DataType) -> None:
    with pytest.raises(SchemaError, match="Column c0 "):
        arrow_schema(columns(kind))
    deep = spark.StructType([spark.StructField("deep", spark.MapType(spark.StringType(), spark.ArrayType(kind)))])
    with pytest.raises(SchemaError, match=r"c0\.deep\.value\.element"):
        arrow_schema(columns(deep))


def test_key_columns_must_sort_as_bytes_do() -> None:
    collated = spark.StringType("UTF8_LCASE")
    inner = spark.StructType([spark.StructField("a", spark.StringType()), spark.StructField("b", collated)])
    plain, text, struct = arrow_schema(columns(spark.StringType(), collated, inner))
    require_byte_order(plain)
    for field, name in ((text, "c1"), (struct, r"c2\.b")):
        with pytest.raises(SchemaError, match=name):
            require_byte_order(field)


@pytest.mark.parametrize("text", [spark.CharType(5), spark.VarcharType(5), spark.StringType()])
def test_text_of_every_type_is_a_string(text: spark.DataType) -> None:
    assert widens(text, spark.StringType())
    assert widens(spark.ArrayType(text), spark.ArrayType(spark.StringType()))
    assert not widens(text, spark.BinaryType())


@pytest.mark.parametrize("text", [spark.CharType(5), spark.VarcharType(5)])
def test_text_has_no_length_in_arrow(text: spark.DataType) -> None:
    def nested(kind: spark.DataType) -> spark.DataType:
        inner = spark.StructType([spark.StructField("a", spark.ArrayType(kind, False), False)])
        return spark.MapType(kind, inner, False)

    assert without_lengths(nested(text)) == nested(spark.StringType())
    assert without_lengths(spark.StringType("UNICODE_CI")) == spark.StringType("UNICODE_CI")
