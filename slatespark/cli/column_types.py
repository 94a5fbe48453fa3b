"""`--type COLUMN=TYPE` arguments -> Arrow types by column."""

from __future__ import annotations

import pyarrow as pa

from slatespark.cli.table_arguments import parse_pairs
from slatespark.encoding.type_names import TYPE_NAMES, flat_type
from slatespark.errors import OptionError


def column_types(given: list[str] | None) -> dict[str, pa.DataType]:
    """Return the type of each column that `--type` names; raises `OptionError`."""
    types = {}
    for name, text in parse_pairs(given, "--type", "amount=DECIMAL(10,2)"):
        kind = flat_type(text)
        if kind is None:
            raise OptionError(
                f"--type {name}: there is no type {text!r}.", todo=f"Choose from {', '.join(TYPE_NAMES)}."
            )
        types[name] = kind
    return types
