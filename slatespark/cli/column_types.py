"""`--type COLUMN=TYPE` arguments -> Arrow types by column."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

import pyarrow as pa

from slatespark.cli.table_arguments import parse_pairs
from slatespark.encoding.type_names import TYPE_NAMES, flat_type
from slatespark.errors import OptionError
from slatespark.texts import is_encodable, listed


def column_types(given: list[str] | None) -> dict[str, pa.DataType]:
    """Return the type of each column that `--type` names; raises `OptionError`, also for a column named twice."""
    types: dict[str, pa.DataType] = {}
    for name, text in parse_pairs(given, "--type", "amount=DECIMAL(10,2)"):
        if not is_encodable(name):
            raise OptionError(f"--type {name!r}: a column cannot have this name.")
        if name.lower() in {known.lower() for known in types}:
            raise OptionError(f"--type {name}: the column has another --type.", todo="Give it once, in any case.")
        kind = flat_type(text)
        if kind is None:
            raise OptionError(
                f"--type {name}: there is no type {text!r}.", todo=f"Choose from {', '.join(TYPE_NAMES)}."
            )
        types[name] = kind
    return types


def refuse_unknown_types(types: Iterable[str], columns: Sequence[str]) -> None:
    """Refuse a `--type` for a column that the files do not have; raises `OptionError` with the nearest name."""
    by_lower = {column.lower(): column for column in columns}
    for name in types:
        if name.lower() not in by_lower:
            near = difflib.get_close_matches(name.lower(), by_lower, n=1)
            todo = f"Did you mean {by_lower[near[0]]}?" if near else f"Columns: {listed(columns)}."
            raise OptionError(f"--type {name}: the files have no column of this name.", todo=todo)
