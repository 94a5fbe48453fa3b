"""Column names of a write: distinctness, and columns that options name, such as `opColumn`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from difflib import get_close_matches

import pyarrow as pa

from slatespark.encoding.column_types import canonical_type, find_name
from slatespark.errors import SchemaError
from slatespark.options import WriteOptions
from slatespark.texts import listed


def check_distinct(schema: pa.Schema) -> None:
    """Refuse columns whose names differ only in case; raises `SchemaError`."""
    counts = Counter(name.lower() for name in schema.names)
    if repeated := [name for name in schema.names if counts[name.lower()] > 1]:
        raise SchemaError(
            f"The columns are {listed(schema.names)}: {repeated[-1]} occurs twice.",
            why="Names are compared case-insensitively.",
            todo="Select and rename the columns before writing.",
        )


def resolve_op_column(schema: pa.Schema, options: WriteOptions) -> str | None:
    """Return `opColumn` as the rows spell it; raises `SchemaError` when it is missing or not text."""
    return resolve_option_column(schema, "opColumn", options.op_column, _check_op_type)


def _check_op_type(field: pa.Field) -> None:
    if canonical_type(field.type, field.name) != pa.string():
        raise SchemaError(f"Column {field.name} is {field.type}, expected STRING.", todo="Cast it to STRING.")


def resolve_option_column(
    schema: pa.Schema, option: str, wanted: str | None, check: Callable[[pa.Field], None]
) -> str | None:
    """Return the column that an option names, as the rows spell it."""
    if wanted is None:
        return None
    name = find_name(schema, wanted)
    if name is None:
        raise SchemaError(f"{option}: column {wanted} does not exist{nearest_name(wanted, schema.names)}.")
    check(schema.field(name))
    return name


def nearest_name(name: str, names: Sequence[str]) -> str:
    """Return a hint at the most similar of some names."""
    lowered = {known.lower(): known for known in names}
    near = get_close_matches(name.lower(), lowered, n=1, cutoff=0.5)
    return f" (did you mean {lowered[near[0]]}?)" if near else ""
