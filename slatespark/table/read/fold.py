"""Merge operators: how operands fold onto a value. Source: spec section 7.5, design section 3."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

import numpy as np

from slatespark.errors import OptionError, SchemaError
from slatespark.format.row import Row, RowKind, rows_to_columns
from slatespark.kernels.columns import GROUP_REST, HAS_CREATE, HAS_EXPIRE, PLAIN, ROW_BITS, RowColumns, Selection
from slatespark.option_values import MergeOperator

# existing value or None, operands oldest to newest -> new value; must be associative
Fold: TypeAlias = Callable[[bytes | None, list[bytes]], bytes]

_INT_BYTES: Final = 8
_POSITION_MASK: Final = (1 << ROW_BITS) - 1


def resolve_operator(operator: MergeOperator | None) -> Fold | None:
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
    module_name, separator, function_name = operator.partition(":")
    if not separator:
        raise OptionError(
            f"mergeOperator: {operator!r} is unknown.", todo=f"Choose {', '.join(_BUILT_IN)}, or module:function."
        )
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    except (ImportError, AttributeError) as exc:
        raise OptionError(f"mergeOperator: {operator!r} cannot be imported: {exc}.") from exc
    if not callable(function):
        raise OptionError(f"mergeOperator: {operator!r} is not a function.")
    return function  # type: ignore[no-any-return]  # whatever the user named


def fold_rows(group: Sequence[Row], fold: Fold | None) -> Row:
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
        Without an operator.
    """
    if fold is None:
        raise OptionError(
            f"Key {group[0].key.hex()} holds merge operands.", todo="Say how they fold with the option mergeOperator."
        )
    base = group[-1] if group[-1].kind is RowKind.PUT else None
    operands = [row.value for row in reversed(group) if row is not base]
    created = [row.create_ts_ms for row in group if row.create_ts_ms is not None]
    expiring = [row.expire_ts_ms for row in group if row.expire_ts_ms is not None]
    return Row(
        key=group[0].key,
        seq=group[0].seq,
        kind=RowKind.PUT,
        value=fold(None if base is None else base.value, operands),
        create_ts_ms=max(created, default=None),
        expire_ts_ms=min(expiring, default=None),
    )


def fold_selection(
    sources: list[RowColumns], selection: Selection, fold: Fold | None
) -> tuple[list[RowColumns], Selection]:
    """Replace each group of operands in a selection by the row it folds to; see `replace_groups`."""
    return replace_groups(sources, selection, partial(fold_rows, fold=fold))


def replace_groups(
    sources: list[RowColumns], selection: Selection, folded_row: Callable[[Sequence[Row]], Row]
) -> tuple[list[RowColumns], Selection]:
    """Replace each group in a selection by one row.

    Parameters
    ----------
    folded_row : takes the rows of a group, newest to oldest

    Returns
    -------
    The sources with the folded rows as a further one, and a selection of plain rows only.
    """
    heads = np.flatnonzero(selection.marks > PLAIN)
    if not len(heads):
        return sources, selection
    kept = selection.marks != GROUP_REST
    folded: list[Row] = []
    group: list[Row] = []
    for at in heads:
        if selection.marks[at] != GROUP_REST and group:
            folded.append(folded_row(group))
            group = []
        group.append(row_at(sources, int(selection.rows[at])))
    folded.append(folded_row(group))
    rows = selection.rows.copy()
    places = np.flatnonzero((selection.marks > PLAIN) & kept)
    rows[places] = (np.int64(len(sources)) << ROW_BITS) + np.arange(len(folded), dtype=np.int64)
    rows = rows[kept]
    return [*sources, rows_to_columns(folded)], Selection(rows, np.zeros(len(rows), np.uint8))


def row_at(sources: Sequence[RowColumns], packed: int) -> Row:
    """Return one packed row as a value."""
    columns, at = sources[packed >> ROW_BITS], packed & _POSITION_MASK
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


def _concat(existing: bytes | None, operands: list[bytes]) -> bytes:
    return (existing or b"") + b"".join(operands)


def _sum(existing: bytes | None, operands: list[bytes]) -> bytes:
    total = sum(_integers(existing, operands, signed=False))
    return (total & (2**64 - 1)).to_bytes(_INT_BYTES, "little")  # wraps, so it serves u64 and i64 alike


def _max(existing: bytes | None, operands: list[bytes]) -> bytes:
    return max(_integers(existing, operands, signed=True)).to_bytes(_INT_BYTES, "little", signed=True)


def _min(existing: bytes | None, operands: list[bytes]) -> bytes:
    return min(_integers(existing, operands, signed=True)).to_bytes(_INT_BYTES, "little", signed=True)


def _integers(existing: bytes | None, operands: list[bytes], *, signed: bool) -> list[int]:
    parts = operands if existing is None else [existing, *operands]
    for part in parts:
        if len(part) != _INT_BYTES:
            raise SchemaError(
                f"A value or operand has {len(part)} bytes; sum, max and min need {_INT_BYTES} (little-endian).",
                todo="Use another mergeOperator.",
            )
    return [int.from_bytes(part, "little", signed=signed) for part in parts]


_BUILT_IN: Final[dict[str, Fold]] = {"concat": _concat, "sum": _sum, "max": _max, "min": _min}
