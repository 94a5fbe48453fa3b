"""Merge operators: functions that fold operands onto a value. See docs/reference/format/rows.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from slatespark.errors import OptionError, SchemaError, SlateError
from slatespark.format.row import Row, RowKind
from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE, ROW_BITS, ROW_MASK, RowColumns
from slatespark.options.named_function import import_function
from slatespark.options.values import MergeOperator

# existing value or None, operands oldest to newest -> new value; must be associative
MergeFunction: TypeAlias = Callable[[bytes | None, list[bytes]], bytes]

INT_BYTES: Final = 8


def resolve_operator(operator: MergeOperator | None) -> MergeFunction | None:
    """Return the function behind the option `mergeOperator`; None if it is not given.

    Raises
    ------
    OptionError
        When the name is unknown or `module:function` cannot be imported.
    """
    if operator is None or callable(operator):
        return operator
    if operator in _BUILT_IN:
        return _BUILT_IN[operator]
    if ":" not in operator:
        raise OptionError(
            f"mergeOperator: {operator!r} is unknown.", todo=f"Choose {', '.join(_BUILT_IN)}, or module:function."
        )
    return import_function(operator, "mergeOperator")


def fold_rows(group: Sequence[Row], fold: MergeFunction | None) -> Row:
    """Return one row for the versions of one key.

    Parameters
    ----------
    group : newest to oldest, all live: operands, and at most one put, which is the last
    fold : the operator

    Returns
    -------
    A put with the newest seq, the latest create_ts and the earliest expire_ts of the group.

    Raises
    ------
    OptionError
        Without an operator, or when it returns no bytes.
    """
    if fold is None:
        raise no_operator(group[0].key)
    base = group[-1] if group[-1].kind is RowKind.PUT else None
    operands = [row.value for row in reversed(group) if row is not base]
    created = [row.create_ts_ms for row in group if row.create_ts_ms is not None]
    expiring = [row.expire_ts_ms for row in group if row.expire_ts_ms is not None]
    return Row(
        key=group[0].key,
        seq=group[0].seq,
        kind=RowKind.PUT,
        value=folded_value(fold, None if base is None else base.value, operands, group[0].key),
        create_ts_ms=max(created, default=None),
        expire_ts_ms=min(expiring, default=None),
    )


def folded_value(fold: MergeFunction, existing: bytes | None, operands: list[bytes], key: bytes) -> bytes:
    """Return what an operator makes of a value and operands; raises `OptionError` where it fails, or returns no bytes.

    Other things count as bytes for Python, such as arrays of numbers. Their length is that of something else, so the
    values of the rows behind would be cut in the wrong places.
    """
    try:
        found: object = fold(existing, operands)
    except (SlateError, MemoryError):
        raise
    except Exception as exc:  # whatever a user's function raises
        raise OptionError(
            f"mergeOperator: for key {key.hex()} the function failed: {type(exc).__name__}: {exc}.",
            todo="Let it take any value and operands that the table has.",
        ) from exc
    if isinstance(found, bytes):
        return found
    if isinstance(found, bytearray | memoryview):
        return bytes(found)
    raise OptionError(
        f"mergeOperator: for key {key.hex()} the function returned an object of the type {type(found).__name__}.",
        todo="Let it return bytes.",
    )


def no_operator(key: bytes) -> OptionError:
    """Return the error for operands without a merge operator."""
    return OptionError(
        f"Key {key.hex()} holds merge operands, and there is no operator.", todo="Give the option mergeOperator."
    )


def row_at(sources: Sequence[RowColumns], packed: int) -> Row:
    """Return one packed row as a value."""
    columns, at = sources[packed >> ROW_BITS], packed & ROW_MASK
    flags = int(columns.flags[at])
    return Row(
        key=columns.key(at),
        seq=int(columns.seqs[at]),
        kind=RowKind.of_flags(flags),
        value=columns.value(at),
        create_ts_ms=int(columns.create_ts[at]) if flags & HAS_CREATE else None,
        expire_ts_ms=int(columns.expire_ts[at]) if flags & HAS_EXPIRE else None,
    )


# --- built-in operators ---------------------------------------------------------------------------------------------


def fold_concat(existing: bytes | None, operands: list[bytes]) -> bytes:
    """Return the value followed by all operands."""
    return (existing or b"") + b"".join(operands)


def fold_sum(existing: bytes | None, operands: list[bytes]) -> bytes:
    """Return the sum of 64-bit integers; it wraps, so it serves both u64 and i64."""
    total = sum(_integers(existing, operands, signed=False))
    return (total & (2**64 - 1)).to_bytes(INT_BYTES, "little")


def fold_max(existing: bytes | None, operands: list[bytes]) -> bytes:
    """Return the largest of signed 64-bit integers."""
    return max(_integers(existing, operands, signed=True)).to_bytes(INT_BYTES, "little", signed=True)


def fold_min(existing: bytes | None, operands: list[bytes]) -> bytes:
    """Return the smallest of signed 64-bit integers."""
    return min(_integers(existing, operands, signed=True)).to_bytes(INT_BYTES, "little", signed=True)


def _integers(existing: bytes | None, operands: list[bytes], *, signed: bool) -> list[int]:
    parts = operands if existing is None else [existing, *operands]
    for part in parts:
        if len(part) != INT_BYTES:
            raise SchemaError(
                f"A value or operand has {len(part)} bytes; sum, max and min need {INT_BYTES} (little-endian).",
                todo="Use another mergeOperator.",
            )
    return [int.from_bytes(part, "little", signed=signed) for part in parts]


_BUILT_IN: Final[dict[str, MergeFunction]] = {"concat": fold_concat, "sum": fold_sum, "max": fold_max, "min": fold_min}
