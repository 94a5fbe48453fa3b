"""Spark types as the columns of a table: which ones there are, and what to use instead of the others."""

from __future__ import annotations

import json
from typing import Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
    VarcharType,
    VariantType,
)

from slatespark.encoding.collations import BYTE_ORDER, COLLATION
from slatespark.encoding.column_types import (
    DURATION,
    SPARK_METADATA,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    list_of,
    map_of,
)
from slatespark.encoding.spark_schema import spark_json
from slatespark.errors import SchemaError

# Not PySpark's own mapping: it is internal, and its arguments differ between releases.
_ARROW: Final[tuple[tuple[type[DataType], pa.DataType], ...]] = (
    (BooleanType, pa.bool_()),
    (ByteType, pa.int8()),
    (ShortType, pa.int16()),
    (IntegerType, pa.int32()),
    (LongType, pa.int64()),
    (FloatType, pa.float32()),
    (DoubleType, pa.float64()),
    (StringType, pa.string()),
    (CharType, pa.string()),
    (VarcharType, pa.string()),
    (BinaryType, pa.binary()),
    (DateType, pa.date32()),
    (TimestampType, TIMESTAMP),
    (TimestampNTZType, TIMESTAMP_NTZ),
    (DayTimeIntervalType, DURATION),
    (TimeType, TIME),
    (VariantType, VARIANT),
)

# Types that no table has, and what to do instead; by name, since not every release of Spark has all of them.
_REFUSED: Final[tuple[tuple[str, str], ...]] = (
    ("NullType", "Cast it to the type it shall have, as in CAST(NULL AS STRING)."),
    ("CalendarIntervalType", "Use INTERVAL DAY TO SECOND, or a number of months beside a number of days."),
    ("YearMonthIntervalType", "Store the number of months as an INT."),
    ("GeometryType", "Store it as BINARY, in well-known binary form."),
    ("GeographyType", "Store it as BINARY, in well-known binary form."),
    ("UserDefinedType", "Convert it to the plain type it is made of."),
)


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow columns of a Spark schema; char and varchar become string, times UTC.

    Raises
    ------
    SchemaError
        When a column, or a part of one, has a type that no table holds.
    """
    return pa.schema([_arrow_field(field, field.name) for field in schema.fields])


def spark_schema(schema: pa.Schema) -> StructType:
    """Return the Spark columns of a table's Arrow schema, comments included."""
    return StructType.fromJson(spark_json(schema))


def _arrow_field(field: StructField, path: str) -> pa.Field:
    metadata = {SPARK_METADATA: json.dumps(field.metadata).encode()} if field.metadata else {}
    if isinstance(field.dataType, StringType) and field.dataType.collation != BYTE_ORDER:
        metadata[COLLATION] = field.dataType.collation.encode()
    return pa.field(field.name, _arrow_type(field.dataType, path), field.nullable, metadata or None)


def _arrow_type(kind: DataType, path: str) -> pa.DataType:
    """Return the Arrow type of a Spark type; `path` leads to it."""
    for known, arrow in _ARROW:
        if isinstance(kind, known):
            return arrow
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, StructType):
        return pa.struct([_arrow_field(field, f"{path}.{field.name}") for field in kind.fields])
    if isinstance(kind, ArrayType):
        return list_of(_arrow_type(kind.elementType, f"{path}.element"), nullable=kind.containsNull)
    if isinstance(kind, MapType):
        key, value = _arrow_type(kind.keyType, f"{path}.key"), _arrow_type(kind.valueType, f"{path}.value")
        return map_of(key, value, nullable=kind.valueContainsNull)
    names = {cls.__name__ for cls in type(kind).__mro__}
    todo = next((todo for refused, todo in _REFUSED if refused in names), "Cast it to a type that a table has.")
    raise SchemaError(f"Column {path} has type {kind.simpleString()}, which no table holds.", todo=todo)


def without_lengths(kind: DataType) -> DataType:
    """Return a type with STRING instead of CHAR and VARCHAR, which PySpark does not convert to Arrow."""
    if isinstance(kind, CharType | VarcharType):
        return StringType()
    if isinstance(kind, ArrayType):
        return ArrayType(without_lengths(kind.elementType), kind.containsNull)
    if isinstance(kind, MapType):
        return MapType(without_lengths(kind.keyType), without_lengths(kind.valueType), kind.valueContainsNull)
    if isinstance(kind, StructType):
        fields = [StructField(part.name, without_lengths(part.dataType), part.nullable) for part in kind.fields]
        return StructType(fields)
    return kind
