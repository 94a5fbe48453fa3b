"""Keys as command line arguments: text -> values of the key columns, or the bytes of a raw key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from slatespark.cli.files.input_values import array_of_text
from slatespark.encoding.plain_values import first_value
from slatespark.encoding.row_codec import RowCodec
from slatespark.encoding.type_names import sql_type
from slatespark.encoding.without_pandas import array_of
from slatespark.errors import InvalidRequestError, OptionError, SchemaError
from slatespark.texts import is_encodable, plural


def key_values(row: pa.RecordBatch) -> list[Any]:
    """Return the values of a key given as `key_row`."""
    return [first_value(array) for array in row.columns]


def key_row(arguments: Sequence[str], codec: RowCodec, *, as_text: bool) -> pa.RecordBatch:
    """Return a key as a row of the key columns.

    Raises
    ------
    InvalidRequestError
        When the number of arguments is not that of the key columns, or one does not fit the type of its column.
    """
    fields = codec.key_fields
    if len(arguments) != len(fields):
        names = ", ".join(f"{item.name} {sql_type(item)}" for item in fields)
        raise InvalidRequestError(
            f"{plural(len(arguments), 'value')} given for a key of {plural(len(fields), 'column')}.",
            todo=f"Give one for each of {names}.",
        )
    if codec.is_raw:
        arrays = [array_of([key_bytes(arguments[0], "KEY", as_text=as_text)], pa.binary())]
    else:
        arrays = [_key_array(text, item, as_text=as_text) for text, item in zip(arguments, fields, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(codec.key_columns))


def _key_array(text: str, field: pa.Field, *, as_text: bool) -> pa.Array:
    if not is_encodable(text):
        raise InvalidRequestError(f"KEY: {text!r} is not UTF-8 text.")
    try:
        return array_of_text(array_of([text], pa.string()), field, as_text=as_text)
    except SchemaError as exc:
        raise InvalidRequestError(
            f"KEY: {text!r} is not a {sql_type(field)}, the type of {field.name}.", todo=exc.todo
        ) from exc


def key_bytes(argument: str, name: str, *, as_text: bool) -> bytes:
    """Return a raw key from UTF-8 text or hexadecimal.

    Raises
    ------
    OptionError
        When it is not hexadecimal.
    """
    if as_text:
        return argument.encode("utf-8", "surrogateescape")
    try:
        return bytes.fromhex(argument)
    except ValueError:
        raise OptionError(
            f"{name}: {argument!r} is not hexadecimal.", todo="Write the bytes like 00ff41, or use --text."
        ) from None
