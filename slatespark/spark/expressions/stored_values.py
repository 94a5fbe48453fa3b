"""Values as a column stores them, as SQL text: cast to its type, checked, and fields of structs matched by name.

Text, since a merge of wide tables has a value per column and clause, and each function of PySpark is a call to the JVM.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    ByteType,
    CharType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    IntegralType,
    LongType,
    MapType,
    NullType,
    NumericType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VarcharType,
)

from slatespark.errors import SchemaError
from slatespark.spark.frame_columns import quoted

_WIDTHS: Final[dict[type[DataType], tuple[type[DataType], ...]]] = {
    ByteType: (ShortType, IntegerType, LongType, FloatType, DoubleType),
    ShortType: (IntegerType, LongType, FloatType, DoubleType),
    IntegerType: (LongType, DoubleType),
    FloatType: (DoubleType,),
}


@dataclass(frozen=True)
class GivenValue:
    """A value that a column shall store.

    Attributes
    ----------
    text : the name of a column, which may be repeated
    kind : its type
    """

    text: str
    kind: DataType


def fit_values(values: Mapping[str, GivenValue], types: Mapping[str, DataType], *, called: str) -> dict[str, str]:
    """Return values by column as SQL text, cast to the types of the table's columns.

    Raises
    ------
    SchemaError
        When a value has another sort of type.
    """
    return {name: fit_type(value, types[name], where=f"{called} sets column {name}") for name, value in values.items()}


def fit_type(value: GivenValue, wanted: DataType, *, where: str) -> str:
    """Return a value as a column's type, as SQL stores numbers: what does not fit fails the job with a `SchemaError`.

    Fractions are rounded to what a decimal or floating-point column holds, but never to a whole number. Fields of
    structs go by their names; those that are missing are null.

    Parameters
    ----------
    where : how the message of the error begins, as in `whenMatchedUpdate sets column n`

    Raises
    ------
    SchemaError
        When the types are of different sorts.
    """
    text, kind = value.text, value.kind
    if kind.simpleString() == wanted.simpleString():  # else a cast, since branches of a CASE need one type
        return text
    ordered = _ordered(kind, wanted)
    if widens(ordered, wanted):
        return f"CAST({_rebuilt(text, kind, wanted)} AS {sql_type(wanted)})"
    if isinstance(kind, StructType) and isinstance(wanted, StructType) and ordered is not kind:
        return _fit_fields(value, kind, wanted, where=where)
    if not (isinstance(kind, NumericType) and isinstance(wanted, NumericType)):
        raise SchemaError(
            f"{where}, which is {wanted.simpleString()}, to a value of type {kind.simpleString()}.",
            todo="Make it with the column's names and types, as named_struct does: a cast of a struct goes by position."
            if _holds_struct(kind) and _holds_struct(wanted)
            else "Cast it.",
        )
    fits = f"TRY_CAST({text} AS {sql_type(wanted)})"
    lost = [f"({fits} IS NULL AND {text} IS NOT NULL)"]
    if isinstance(wanted, IntegralType) != isinstance(kind, IntegralType) and not isinstance(wanted, DecimalType):
        lost.append(f"NOT (TRY_CAST({fits} AS {sql_type(kind)}) <=> {text})")  # a whole number stays what it is
        if not isinstance(kind, DecimalType):  # Spark casts a float of 2^63 or more to the largest BIGINT
            lost.append(f"({fits if isinstance(kind, IntegralType) else text}) >= {2**63}D")
    elif isinstance(wanted, FloatType):
        lost.append(f"({_is_infinite(fits)} AND NOT {_is_infinite(f'CAST({text} AS DOUBLE)')})")
    message = f"SchemaError: {where} to a value that {wanted.simpleString()} cannot hold: "
    return (
        f"CASE WHEN {' OR '.join(lost)} "
        f"THEN CAST(raise_error(concat({sql_string(message)}, CAST({text} AS STRING))) AS {sql_type(wanted)}) "
        f"ELSE {fits} END"
    )


def _fit_fields(value: GivenValue, kind: StructType, wanted: StructType, *, where: str) -> str:
    """Return a struct whose fields are stored by the same rule as columns; all of them are fields of the column's."""

    def fitted(text: str, own: DataType, field: StructField) -> str:
        return fit_type(GivenValue(text, own), field.dataType, where=f"{where}.{field.name}")

    return f"CAST({_struct_text(value.text, kind, wanted, fitted)} AS {sql_type(wanted)})"


def sql_string(text: str) -> str:
    """Return text as a literal, whatever the settings of Spark about quotes and backslashes are."""
    is_plain = not any(sign in text for sign in "'\\$")
    return f"'{text}'" if is_plain else f"CAST(X'{text.encode().hex()}' AS STRING)"


def sql_type(kind: DataType) -> str:
    """Return the SQL text of a type, all of whose parts may be null; names of fields may be any.

    A setting of Spark says which type the word TIMESTAMP is, so the text does not have it.
    """
    if isinstance(kind, ArrayType):
        return f"ARRAY<{sql_type(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"MAP<{sql_type(kind.keyType)}, {sql_type(kind.valueType)}>"
    if isinstance(kind, StructType):
        return f"STRUCT<{', '.join(f'{quoted(field.name)}: {sql_type(field.dataType)}' for field in kind.fields)}>"
    return "TIMESTAMP_LTZ" if isinstance(kind, TimestampType) else kind.simpleString()


def widens(kind: DataType, wanted: DataType) -> bool:
    """Tell whether every value of a type is one of the other type, part by part; so `array()` is any array."""
    is_text = isinstance(kind, StringType | CharType | VarcharType)  # neither of these is one of the others
    if _same(kind, wanted) or isinstance(kind, NullType) or (is_text and wanted == StringType()):
        return True
    if isinstance(kind, ArrayType) and isinstance(wanted, ArrayType):
        return widens(kind.elementType, wanted.elementType)
    if isinstance(kind, MapType) and isinstance(wanted, MapType):
        return widens(kind.keyType, wanted.keyType) and widens(kind.valueType, wanted.valueType)
    if isinstance(kind, StructType) and isinstance(wanted, StructType):
        names = [name.lower() for name in kind.names] == [name.lower() for name in wanted.names]
        parts = zip(kind.fields, wanted.fields, strict=False)
        return names and all(widens(part.dataType, field.dataType) for part, field in parts)
    if isinstance(kind, DayTimeIntervalType) and isinstance(wanted, DayTimeIntervalType):
        return True  # a column has the widest of them
    return type(kind) in _WIDTHS and type(wanted) in _WIDTHS[type(kind)]


# --- fields of structs by name --------------------------------------------------------------------------------------


def _ordered(kind: DataType, wanted: DataType) -> DataType:
    """Return a type with the fields of its structs as the other type has them; as it is where that loses a field."""
    if isinstance(kind, ArrayType) and isinstance(wanted, ArrayType):
        return ArrayType(_ordered(kind.elementType, wanted.elementType))
    if isinstance(kind, MapType) and isinstance(wanted, MapType):
        return MapType(_ordered(kind.keyType, wanted.keyType), _ordered(kind.valueType, wanted.valueType))
    if not (isinstance(kind, StructType) and isinstance(wanted, StructType)):
        return kind
    own = {field.name.lower(): field for field in kind.fields}
    if len(own) < len(kind.fields) or not own.keys() <= {name.lower() for name in wanted.names}:
        return kind
    return StructType([_ordered_field(own.get(field.name.lower()), field) for field in wanted.fields])


def _ordered_field(own: StructField | None, wanted: StructField) -> StructField:
    if own is None:
        return StructField(wanted.name, NullType())
    return StructField(own.name, _ordered(own.dataType, wanted.dataType))


def _rebuilt(text: str, kind: DataType, wanted: DataType, depth: int = 0) -> str:
    """Return a value with the fields of its structs as `_ordered` has them."""
    if _ordered(kind, wanted).simpleString() == kind.simpleString():
        return text
    part, other = f"__slate_part{depth}", f"__slate_other{depth}"
    if isinstance(kind, ArrayType) and isinstance(wanted, ArrayType):
        return f"transform({text}, {part} -> {_rebuilt(part, kind.elementType, wanted.elementType, depth + 1)})"
    if isinstance(kind, MapType) and isinstance(wanted, MapType):
        values = _rebuilt(part, kind.valueType, wanted.valueType, depth + 1)
        keys = _rebuilt(part, kind.keyType, wanted.keyType, depth + 1)
        text = text if values == part else f"transform_values({text}, ({other}, {part}) -> {values})"
        return text if keys == part else f"transform_keys({text}, ({part}, {other}) -> {keys})"
    assert isinstance(kind, StructType)
    assert isinstance(wanted, StructType)

    def ordered(field_text: str, own: DataType, field: StructField) -> str:
        return _rebuilt(field_text, own, field.dataType, depth)

    return _struct_text(text, kind, wanted, ordered)


def _struct_text(
    text: str, kind: StructType, wanted: StructType, value_of: Callable[[str, DataType, StructField], str]
) -> str:
    """Return a struct with the fields of another one, by name; missing ones are null.

    Parameters
    ----------
    value_of : takes the text and the type of a field, and the wanted field; returns the text of its value
    """
    own = {field.name.lower(): field for field in kind.fields}
    parts = []
    for field in wanted.fields:
        found, value = own.get(field.name.lower()), "NULL"
        if found is not None:
            value = value_of(f"{text}{_step_into(found.name)}", found.dataType, field)
        parts.append(f"{sql_string(field.name)}, {value}")
    return f"IF({text} IS NULL, NULL, named_struct({', '.join(parts)}))"


def _step_into(field: str) -> str:
    """Return the text behind a struct that takes a field; `quotedRegexColumnNames` makes patterns of backticks."""
    literal = sql_string(field)
    return f"[{literal}]" if literal.startswith("'") else f".{quoted(field)}"


# --- private helpers ------------------------------------------------------------------------------------------------


def _is_infinite(text: str) -> str:
    return f"abs({text}) = CAST('Infinity' AS DOUBLE)"


def _same(kind: DataType, wanted: DataType) -> bool:
    return kind.simpleString().lower() == wanted.simpleString().lower()


def _holds_struct(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return _holds_struct(kind.elementType)
    if isinstance(kind, MapType):
        return _holds_struct(kind.keyType) or _holds_struct(kind.valueType)
    return isinstance(kind, StructType)
