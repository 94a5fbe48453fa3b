"""Numbers of Arrow's instants and durations as ms."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds
from numpy.typing import NDArray

from slatespark.encoding.type_names import sql_type
from slatespark.errors import SchemaError
from slatespark.units import MAX_MS

PER_MS: Final = {"us": 1_000, "ns": 1_000_000}

_MAX_S: Final = MAX_MS // 1000


def to_ms(numbers: NDArray[np.int64], kind: pa.DataType) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return numbers of a type as ms, rounded down, and which of them are no more than 64 bits hold."""
    unit = kind.unit if kinds.is_duration(kind) or kinds.is_timestamp(kind) else "ms"
    if unit == "s":
        return np.clip(numbers, -_MAX_S, _MAX_S) * 1000, numbers <= _MAX_S
    return numbers // PER_MS.get(unit, 1), np.ones(len(numbers), np.bool_)


def check_instant_type(option: str, field: pa.Field) -> None:
    """Refuse a column that holds no instants, for an option or argument that names it; raises `SchemaError`."""
    if not (kinds.is_timestamp(field.type) or kinds.is_integer(field.type)):
        raise SchemaError(
            f"{option}: {field.name} is {sql_type(field)}, expected TIMESTAMP, or BIGINT of ms since 1970.",
            todo="Convert it, or choose another column.",
        )
