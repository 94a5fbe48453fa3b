"""Naive datetimes as PySpark has them: in the local time zone of this process, whatever that of the session is.

The rows that `collect()` returns hold such datetimes, so those that a caller takes from there and gives back mean the
same instants. `SlateStore` takes naive datetimes for UTC: it gets none from here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import wraps
from inspect import Parameter, signature
from typing import Any, ParamSpec, TypeVar

import pyarrow as pa

from slatespark.encoding.row_codec import RowCodec

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def with_zone(value: Any) -> Any:
    """Return a naive datetime as the instant that it is in the local time zone; anything else as it is."""
    if not isinstance(value, datetime) or value.tzinfo is not None or value != value:  # NaT of pandas is no instant
        return value
    plain = datetime.combine(value.date(), value.time())  # pandas' own class has another astimezone
    try:
        return plain.astimezone()
    except (OverflowError, ValueError, OSError):  # the first or last day that there is
        return plain.replace(tzinfo=UTC)


def taking_local_times(call: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Let the arguments and options of a method that hands them on to `SlateStore` be naive local datetimes.

    Values of a key, `*key`, are left to `local_key`, since a column of type TIMESTAMP_NTZ has naive ones.
    """
    takes_key = any(found.kind is Parameter.VAR_POSITIONAL for found in signature(call).parameters.values())

    @wraps(call)
    def converted(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        given = args if takes_key else map(with_zone, args)
        return call(*given, **{name: with_zone(value) for name, value in kwargs.items()})

    return converted


def local_key(key: Sequence[Any], fetch_codec: Callable[[], RowCodec]) -> tuple[Any, ...]:
    """Return the values of a key, those of columns of type TIMESTAMP as instants.

    Parameters
    ----------
    fetch_codec : called only if the key holds a naive datetime
    """
    if all(with_zone(value) is value for value in key):
        return tuple(key)
    kinds = [field.type for field in fetch_codec().key_fields]
    zoned = [pa.types.is_timestamp(kind) and kind.tz is not None for kind in kinds]
    return tuple(with_zone(value) if index < len(kinds) and zoned[index] else value for index, value in enumerate(key))


def local_keys(keys: Any, fetch_codec: Callable[[], RowCodec]) -> Any:
    """Return a list of keys with those of columns of type TIMESTAMP as instants; Arrow and pandas as they are."""
    has_columns = hasattr(keys, "columns") or hasattr(keys, "__arrow_c_stream__")
    if has_columns or not isinstance(keys, Iterable) or isinstance(keys, str | bytes | Mapping):
        return keys
    return [
        local_key(key, fetch_codec) if isinstance(key, tuple | list) else local_key((key,), fetch_codec)[0]
        for key in keys
    ]
