"""Arrow values as JSON and as text, exactly: decimals digit by digit, instants as ISO-8601, bytes in hexadecimal."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from slatespark.encoding.without_pandas import numpy_of
from slatespark.texts import NOTHING, printable

_US_PER_S: Final = 1_000_000
_NS_PER_S: Final = 1_000_000_000


def json_bytes(data: bytes, *, as_text: bool) -> Any:
    """Return bytes for JSON: hexadecimal; as text, a string if they are UTF-8 and else `{"hex": ...}`."""
    if not as_text:
        return data.hex()
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"hex": data.hex()}


def json_values(array: pa.Array, *, as_text: bool = False) -> list[Any]:
    """Return the values of an array in a form that `json.dumps` writes without loss.

    Parameters
    ----------
    array : values of any canonical type
    as_text : show bytes as text where they are UTF-8

    Returns
    -------
    Numbers, text, booleans, lists, dicts and None. Decimals are text, instants and durations ISO-8601, NaN and the
    infinities `"NaN"`, `"Infinity"`, `"-Infinity"`. A map with text keys is a dict, any other map a list of
    `{"key": ..., "value": ...}`.
    """
    kind = array.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        return _lists(array, as_text=as_text)
    if pa.types.is_struct(kind):
        return _structs(array, as_text=as_text)
    if pa.types.is_dictionary(kind):
        return json_values(array.dictionary_decode(), as_text=as_text)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return [None if data is None else json_bytes(data, as_text=as_text) for data in array.to_pylist()]
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _instants(array)
    for is_kind, convert in _CONVERSIONS:
        if is_kind(kind):
            return convert(array)
    return list(array.to_pylist())


def text_of(value: Any) -> str:
    """Return a value of `json_values` as a table cell: nested values as JSON, control characters escaped."""
    if value is None:
        return NOTHING
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return printable(json.dumps(value, ensure_ascii=False)) if isinstance(value, dict | list) else str(value)


# --- flat types -----------------------------------------------------------------------------------------------------


def _floats(array: pa.Array) -> list[Any]:
    if array.type == pa.float32():  # the shortest digits that give the same float32, not those of the double
        values = [None if value is None else float(str(np.float32(value))) for value in array.to_pylist()]
    else:
        values = array.to_pylist()
    return [value if value is None or math.isfinite(value) else _non_finite(value) for value in values]


def _non_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


_LOWEST: Final = "-290308-12-21T19:59:05.224192"  # numpy takes this one for NaT


def _decimals(array: pa.Array) -> list[Any]:
    return [None if value is None else format(value, "f") for value in array.to_pylist()]


def _instants(array: pa.Array) -> list[Any]:
    """Return dates and timestamps as ISO-8601, including years that `datetime` does not support."""
    if pa.types.is_date(array.type):
        shown = np.datetime_as_string(numpy_of(array.cast(pa.int32()), 0).astype("M8[D]")).tolist()
    else:
        zone = "Z" if array.type.tz else ""
        micros = array.cast(pa.timestamp("us", tz=array.type.tz)).cast(pa.int64())
        moments = np.datetime_as_string(numpy_of(micros, 0).astype("M8[us]"))
        texts = (_LOWEST if text == "NaT" else text.removesuffix("000") for text in moments.tolist())
        shown = [f"{text}{zone}" for text in texts]
    return [text if known else None for text, known in zip(shown, array.is_valid().to_pylist(), strict=True)]


def _durations(array: pa.Array) -> list[Any]:
    micros = array.cast(pa.duration("us")).cast(pa.int64()).to_pylist()
    return [None if value is None else duration_text(value) for value in micros]


def duration_text(us: int) -> str:
    """Return a duration in microseconds as ISO-8601 seconds: `PT90.5S`."""
    seconds, fraction = divmod(abs(us), _US_PER_S)
    return f"{'-' if us < 0 else ''}PT{seconds}{_fraction(fraction, 6)}S"


def _times(array: pa.Array) -> list[Any]:
    nanos = array.cast(pa.time64("ns")).cast(pa.int64()).to_pylist()
    return [None if value is None else _time_text(value) for value in nanos]


def _time_text(ns: int) -> str:
    seconds, fraction = divmod(ns, _NS_PER_S)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{_fraction(fraction, 9)}"


def _fraction(value: int, digits: int) -> str:
    return f".{value:0{digits}d}".rstrip("0") if value else ""


_CONVERSIONS: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], list[Any]]], ...]] = (
    (pa.types.is_floating, _floats),
    (pa.types.is_decimal, _decimals),
    (pa.types.is_duration, _durations),
    (pa.types.is_time, _times),
)


# --- nested types ---------------------------------------------------------------------------------------------------


def _lists(array: pa.Array, *, as_text: bool) -> list[Any]:
    """Return lists and maps; all their elements are converted in one call."""
    reach = array.offsets.to_pylist()
    first, count = reach[0], reach[-1] - reach[0]
    known = array.is_valid().to_pylist()
    spans = [(start - first, end - first) for start, end in pairwise(reach)]
    if not pa.types.is_map(array.type):
        parts = json_values(array.values.slice(first, count), as_text=as_text)
        return [parts[start:end] if valid else None for (start, end), valid in zip(spans, known, strict=True)]
    keys = json_values(array.keys.slice(first, count), as_text=as_text)
    items = json_values(array.items.slice(first, count), as_text=as_text)
    join = _as_object if pa.types.is_string(array.type.key_type) else _as_entries
    return [
        join(keys[start:end], items[start:end]) if valid else None
        for (start, end), valid in zip(spans, known, strict=True)
    ]


def _as_object(keys: list[Any], items: list[Any]) -> dict[str, Any]:
    return dict(zip(keys, items, strict=True))


def _as_entries(keys: list[Any], items: list[Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": item} for key, item in zip(keys, items, strict=True)]


def _structs(array: pa.Array, *, as_text: bool) -> list[Any]:
    names = [part.name for part in array.type]
    columns = [json_values(part, as_text=as_text) for part in array.flatten()]
    rows = zip(*columns, strict=True) if columns else [()] * len(array)
    known = array.is_valid().to_pylist()
    return [dict(zip(names, row, strict=True)) if valid else None for row, valid in zip(rows, known, strict=True)]
