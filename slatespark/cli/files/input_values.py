"""JSON values and text -> Arrow arrays of a table's types, without loss: the inverse of `display.values`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, Inexact, InvalidOperation
from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slatespark.cli.files.input_times import parse_days, parse_duration_us, parse_time_ns, parse_timestamp_us
from slatespark.encoding.type_names import sql_type
from slatespark.encoding.without_pandas import array_of, numpy_of
from slatespark.errors import SchemaError
from slatespark.texts import is_encodable

_CAST_AT_ONCE: Final = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_boolean,
    pa.types.is_date,
    pa.types.is_timestamp,
)
_AT_ONCE: Final = (
    (pa.types.is_string, {str}),
    (pa.types.is_integer, {int}),
    (pa.types.is_boolean, {bool}),
    (pa.types.is_floating, {float}),
    (pa.types.is_date, {str}),
    (pa.types.is_timestamp, {str}),
)
_HALF_PAIR: Final = "Half of a surrogate pair is not a character."
_NON_FINITE: Final = ("NaN", "Infinity", "-Infinity")
_WHOLE: Final = r"\s*[+-]?[0-9]+\s*"


def array_of_json(values: Sequence[Any], field: pa.Field, *, as_text: bool, first_row: int = 1) -> pa.Array:
    """Return values from `json.loads` as an array of a field's type.

    Parameters
    ----------
    values : those of one column; None is null
    field : field with the wanted canonical type
    as_text : bytes are UTF-8 text, not hexadecimal
    first_row : the number of the first value, for messages

    Raises
    ------
    SchemaError
        Naming row, column and the first value that does not fit the type.
    """
    found = _at_once(values, field)
    if found is not None:
        return found
    plain = [
        None if value is None else _convert(value, field, f"Row {row}, column {field.name}", as_text=as_text)
        for row, value in enumerate(values, first_row)
    ]
    return _as_array(plain, field, first_row)


def _at_once(values: Sequence[Any], field: pa.Field) -> pa.Array | None:
    """Return values as an array if all have the matching Python type; ten times faster than one by one."""
    found = {type(value) for value in values} - {type(None)}
    for fits, accepted in _AT_ONCE:
        if fits(field.type) and found <= accepted:
            try:
                if pa.types.is_temporal(field.type):
                    return pa.array(values, pa.string()).cast(field.type)
                array = pa.array(values, field.type)
            except (pa.ArrowInvalid, OverflowError, UnicodeEncodeError):
                return None  # then one by one, to name the wrong value, or to accept one that Arrow does not
            return None if pa.types.is_floating(field.type) and _has_infinity(array) else array
    return None


def _has_infinity(floats: pa.Array) -> bool:
    return bool(pc.any(pc.is_inf(floats)).as_py())


def array_of_text(texts: pa.Array, field: pa.Field, *, as_text: bool, first_row: int = 1) -> pa.Array:
    """Return text from CSV or a command line as an array of a field's type; nested values are JSON.

    Parameters and errors as for `array_of_json`.
    """
    if texts.type == field.type:
        return texts
    if any(fits(field.type) for fits in _CAST_AT_ONCE):
        found = _cast_at_once(texts, field.type)
        if found is not None:
            return found
    plain = [
        None if text is None else _parse_text(text, field, f"Row {row}, column {field.name}", as_text=as_text)
        for row, text in enumerate(texts.to_pylist(), first_row)
    ]
    return _as_array(plain, field, first_row)


def _cast_at_once(texts: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Return text as an array if Arrow converts all of it, and none to another value; much faster than one by one."""
    is_float, is_integer = pa.types.is_floating(kind), pa.types.is_integer(kind)
    if is_float or is_integer:
        texts = pc.ascii_trim_whitespace(texts)
    try:
        array = texts.cast(kind)
    except pa.ArrowInvalid:
        return None
    if (is_float and _may_be_changed(texts, array)) or (is_integer and _has_hexadecimal(texts)):
        return None
    return array


def _has_hexadecimal(numbers: pa.Array) -> bool:
    """Tell whether one was read like 0xff, which Arrow takes for the bits of an integer: -1 as a TINYINT."""
    return any(pc.any(pc.match_substring(numbers, mark)).as_py() for mark in "xX")


def _may_be_changed(texts: pa.Array, floats: pa.Array) -> bool:
    """Tell whether a number may have become infinite, or a whole number another one."""
    exact = 2.0 ** (24 if floats.type == pa.float32() else 53)
    if not (np.abs(numpy_of(floats, 0.0)) >= exact).any():
        return False
    return _has_infinity(floats) or bool(pc.any(pc.match_substring_regex(texts, f"^{_WHOLE}$")).as_py())


def _as_array(plain: list[Any], field: pa.Field, first_row: int) -> pa.Array:
    try:
        return array_of(plain, field.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, ValueError) as exc:
        for row, value in enumerate(plain, first_row):  # Arrow does not say which
            try:
                array_of([value], field.type)
            except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, ValueError):
                raise _mismatch(value, field, f"Row {row}, column {field.name}") from exc
        raise SchemaError(f"Column {field.name}: {exc}.") from exc


def _mismatch(value: Any, field: pa.Field, where: str, todo: str = "") -> SchemaError:
    shown = str(value) if isinstance(value, Decimal) else repr(value)
    shown = shown if len(shown) <= 100 else f"{shown[:99]}…"
    return SchemaError(f"{where}: {shown} is not a {sql_type(field)}.", todo=todo)


# --- text -----------------------------------------------------------------------------------------------------------


def _parse_text(text: str, field: pa.Field, where: str, *, as_text: bool) -> Any:
    """Return one value from text, in the form that `pa.array` takes."""
    kind = field.type
    stripped = text.strip()
    if pa.types.is_string(kind):
        return text
    if pa.types.is_boolean(kind) and stripped.lower() in ("true", "false"):
        return stripped.lower() == "true"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        try:
            _refuse_python(stripped)
            number = int(stripped) if pa.types.is_integer(kind) else _exact_number(stripped)
        except (ValueError, ArithmeticError):
            raise _mismatch(text, field, where) from None
        return _convert(number, field, where, as_text=as_text)
    if pa.types.is_nested(kind):
        try:
            value = json.loads(text, parse_float=Decimal, parse_constant=Decimal)
        except (ValueError, ArithmeticError, RecursionError) as exc:
            raise _mismatch(text, field, where, "Write nested values as JSON.") from exc
        return None if value is None else _convert(value, field, where, as_text=as_text)
    return _convert(text, field, where, as_text=as_text)


def _refuse_python(number: str) -> None:
    """Raise `ValueError` for what only Python takes for a number: 12_34 is the id of something else, not 1234."""
    if "_" in number or not number.isascii():
        raise ValueError


def _exact_number(text: str) -> int | Decimal:
    if re.fullmatch(_WHOLE, text):
        return int(text)
    float(text)  # refuses what only `Decimal` takes
    return Decimal(text)


# --- JSON -----------------------------------------------------------------------------------------------------------


def _convert(value: Any, field: pa.Field, where: str, *, as_text: bool) -> Any:
    """Return one JSON value in the form that `pa.array` takes for the type; None stays None."""
    if value is None:
        return None
    kind = field.type
    if pa.types.is_list(kind):
        if not isinstance(value, list):
            raise _mismatch(value, field, where, "Give a JSON array.")
        return [_convert(item, kind.value_field, where, as_text=as_text) for item in value]
    if pa.types.is_map(kind):
        return _map_items(value, field, where, as_text=as_text)
    if pa.types.is_struct(kind):
        return _struct_members(value, field, where, as_text=as_text)
    if pa.types.is_binary(kind):
        return _bytes(value, field, where, as_text=as_text)
    for fits, convert in _LEAVES:
        if fits(kind):
            try:
                return convert(value, kind)
            except (ValueError, ArithmeticError) as exc:
                raise _mismatch(value, field, where, str(exc)) from None
    raise _mismatch(value, field, where)


def _map_items(value: Any, field: pa.Field, where: str, *, as_text: bool) -> list[tuple[Any, Any]]:
    if isinstance(value, dict):
        pairs = list(value.items())
    elif isinstance(value, list) and all(isinstance(item, dict) and {"key", "value"} == set(item) for item in value):
        pairs = [(item["key"], item["value"]) for item in value]
    else:
        raise _mismatch(value, field, where, 'Give a JSON object, or a list of {"key": ..., "value": ...}.')
    key, item_field = field.type.key_field, field.type.item_field
    return [
        (_convert(name, key, where, as_text=as_text), _convert(item, item_field, where, as_text=as_text))
        for name, item in pairs
    ]


def _struct_members(value: Any, field: pa.Field, where: str, *, as_text: bool) -> dict[str, Any]:
    parts = {part.name: part for part in field.type}
    if not isinstance(value, dict):
        raise _mismatch(value, field, where, "Give a JSON object.")
    if unknown := sorted(set(value) - set(parts)):
        raise _mismatch(value, field, where, f"It has no member {unknown[0]!r}.")
    return {name: _convert(value.get(name), part, where, as_text=as_text) for name, part in parts.items()}


def _bytes(value: Any, field: pa.Field, where: str, *, as_text: bool) -> bytes:
    is_hex = not as_text
    if isinstance(value, dict) and set(value) == {"hex"}:  # bytes that are not UTF-8 are printed like this
        value, is_hex = value["hex"], True
    if not isinstance(value, str):
        raise _mismatch(value, field, where, "Give bytes as hexadecimal text.")
    if not is_hex:
        try:
            return value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise _mismatch(value, field, where, _HALF_PAIR) from None
    try:
        return bytes.fromhex(value)
    except ValueError:
        raise _mismatch(value, field, where, "Write bytes in hexadecimal like 00ff41, or use --text.") from None


# --- flat types: (value, type) -> a value for `pa.array`, or ValueError with a hint -----------------------------------


def _boolean(value: Any, kind: pa.DataType) -> bool:
    del kind
    if not isinstance(value, bool):
        raise ValueError  # noqa: TRY004  # every refusal here is a ValueError
    return value


def _integer(value: Any, kind: pa.DataType) -> int:
    del kind
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError  # noqa: TRY004
    return value


def _number(value: Any, kind: pa.DataType) -> float:
    """Return a number as the type has it; a fraction may be rounded, but a whole number is not changed.

    An infinite float was a number with too many digits: `json.loads` is told to give infinity itself as `Decimal`.
    """
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    if not is_number and value not in _NON_FINITE:
        raise ValueError
    number = float(pa.scalar(float(value), kind).as_py())
    if math.isinf(number) and is_number and (isinstance(value, float) or Decimal(value).is_finite()):
        raise ValueError("It is too large.")
    if isinstance(value, int) and value != number:
        shown = str(np.float32(number)) if kind == pa.float32() else repr(number)
        if value != Decimal(shown):  # a whole number that is the shortest text of its float is kept
            raise ValueError(f"It would become {shown}; with a fraction, like .0, it is rounded.")
    return number


def _string(value: Any, kind: pa.DataType) -> str:
    del kind
    if not isinstance(value, str):
        raise ValueError  # noqa: TRY004
    if not is_encodable(value):
        raise ValueError(_HALF_PAIR)
    return value


def _decimal(value: Any, kind: pa.DataType) -> Decimal:
    """Return a number with exactly its digits; for a float, those of its shortest text.

    It gets the scale of the type here: Arrow takes some numbers with far more digits after the point for 0.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise ValueError  # noqa: TRY004
    text = str(value).strip()
    _refuse_python(text)
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise ValueError from None
    if not number.is_finite():
        raise ValueError
    unit, exactly = _fixed_point(kind.precision, kind.scale)
    try:
        return number.quantize(unit, context=exactly)
    except Inexact:
        raise ValueError(f"It has more than {kind.scale} digits after the point.") from None
    except InvalidOperation:
        raise ValueError(f"It has more than {kind.precision - kind.scale} digits before the point.") from None


@cache
def _fixed_point(precision: int, scale: int) -> tuple[Decimal, Context]:
    """Return the smallest number of a type, and the arithmetic that refuses what its digits do not hold."""
    exactly = Context(prec=precision, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[Inexact, InvalidOperation])
    return Decimal((0, (1,), -scale)), exactly


_LEAVES: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any, pa.DataType], Any]], ...]] = (
    (pa.types.is_string, _string),
    (pa.types.is_integer, _integer),
    (pa.types.is_floating, _number),
    (pa.types.is_boolean, _boolean),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_timestamp, parse_timestamp_us),
    (pa.types.is_date, parse_days),
    (pa.types.is_duration, parse_duration_us),
    (pa.types.is_time, parse_time_ns),
)
