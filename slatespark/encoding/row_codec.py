"""RowCodec: rows of one table to keys and values, and back. One class for raw and typed tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slatespark.encoding.arrow_columns import flat_column
from slatespark.encoding.json_value import decode_json_values, encode_json_values
from slatespark.encoding.plain_values import require_utf8
from slatespark.encoding.tuple_key import decode_tuple_keys, encode_tuple, encode_tuple_keys, key_damage
from slatespark.errors import CorruptDataError, InternalError, InvalidRequestError, UnsupportedFormatError
from slatespark.kernels import TOMBSTONE, RowColumns, gather_fields, gather_keys, gather_values, value_lengths
from slatespark.shown import Escaped
from slatespark.texts import plural

KEY_FORMATS: Final = ("tuple", "utf8", "raw")
VALUE_FORMATS: Final = ("avro", "json", "utf8", "raw")

MAX_VALUE_BYTES: Final = 2**31 - 1  # that a read can decode: offsets of an Arrow array have 32 bits

BYTES_TYPES: Final = {"raw": pa.binary(), "utf8": pa.string()}  # formats of a single column, and its type
WITH_COLUMNS: Final = ("avro", "json")  # value formats of any columns, in which different bytes may say the same
_NOT_UTF8: Final = 2
_FINGERPRINT_BYTES: Final = 8

Bytes = tuple[NDArray[np.uint8], NDArray[np.int64]]
Decoded = tuple[dict[str, pa.Array], NDArray[np.uint8]]


@dataclass(frozen=True, slots=True, repr=False)
class RowCodec(Escaped):
    """The encoding of the rows of a table.

    Attributes
    ----------
    schema : all columns in the order of the table, of canonical types
    key_columns : names of the columns of the key, in order
    key_format, value_format : members of `KEY_FORMATS` and `VALUE_FORMATS`; see docs/reference/key-encoding.md and
        docs/reference/value-encoding.md
    writer_schemas : Avro record schemas that values may have been written with, by fingerprint
    """

    schema: pa.Schema
    key_columns: tuple[str, ...]
    key_format: str
    value_format: str
    writer_schemas: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def is_raw(self) -> bool:
        """Whether keys and values are opaque bytes."""
        return self.key_format == "raw" and self.value_format == "raw"

    @property
    def key_fields(self) -> tuple[pa.Field, ...]:
        """The columns of the key, in the order of the key."""
        return tuple(self.schema.field(name) for name in self.key_columns)

    @property
    def value_fields(self) -> tuple[pa.Field, ...]:
        """The columns of the value, in the order of the table."""
        return tuple(item for item in self.schema if item.name not in self.key_columns)

    # --- rows -> bytes ------------------------------------------------------------------------------------------------

    def encode_keys(self, table: pa.Table) -> Bytes:
        """Return the keys of the rows: bytes and (n + 1,) offsets.

        Requires: all key columns are present with canonical types; raw and utf8 keys have no nulls.
        """
        columns = [table.column(name) for name in self.key_columns]
        if self.key_format == "tuple":
            return encode_tuple_keys(columns)
        return _flat_bytes(self.key_columns[0], columns[0])

    def encode_values(self, table: pa.Table) -> Bytes:
        """Return the values of the rows: bytes and (n + 1,) offsets.

        Requires: all value columns are present with canonical types. A null raw or utf8 value becomes empty bytes.

        Raises
        ------
        SchemaError
            When a column that is not nullable holds a null, or a value could not be decoded again.
        """
        fields = self.value_fields
        columns = [table.column(item.name) for item in fields]
        if self.value_format == "avro":
            from slatespark.encoding.avro_schema import avro_schema  # here and below: only tasks need Avro
            from slatespark.encoding.avro_value import encode_avro_values

            return encode_avro_values(columns, fields, avro_schema(fields), count=table.num_rows)
        if self.value_format == "json":
            return encode_json_values(columns, fields, count=table.num_rows)
        return _flat_bytes(fields[0].name, columns[0])

    def encode_key(self, values: Sequence[Any]) -> bytes:
        """Return the key of one row from Python values of its key columns.

        Raises
        ------
        InvalidRequestError
            When their number differs from the key columns, they do not fit their types, or the key is empty.
        """
        if len(values) != len(self.key_columns):
            raise InvalidRequestError(
                f"The key has {plural(len(self.key_columns), 'column')}, got {plural(len(values), 'value')}.",
                todo=f"Give a value for each of {', '.join(self.key_columns)}.",
            )
        key = self.encode_prefix(values)
        if not key:
            raise InvalidRequestError("The key is empty; SlateDB has no empty keys.", todo="Give a non-empty key.")
        return key

    def encode_prefix(self, values: Sequence[Any]) -> bytes:
        """Return the prefix of all keys whose leading columns have these values."""
        types = [item.type for item in self.key_fields]
        try:
            if self.key_format == "tuple":
                return encode_tuple(values, types, self.key_columns)
            return b"".join(_scalar_bytes(value, self.key_format) for value in values)
        except (TypeError, ValueError, OverflowError, ArithmeticError) as exc:
            expected = ", ".join(f"{item.name} {item.type}" for item in self.key_fields)
            raise InvalidRequestError(f"{tuple(values)!r} is not a key: {exc}.", todo=f"Expected {expected}.") from exc

    # --- bytes -> rows ------------------------------------------------------------------------------------------------

    def decode(
        self,
        sources: Sequence[RowColumns],
        rows: NDArray[np.int64],
        names: Sequence[str],
        *,
        where: str = "",
        with_deletes: bool = False,
    ) -> dict[str, pa.Array]:
        """Return columns of packed rows; only the requested columns are decoded.

        Parameters
        ----------
        sources, rows : packed rows
        names : names of columns of the schema
        where : the table, for messages
        with_deletes : rows may be tombstones, which have null values

        Raises
        ------
        CorruptDataError
            With the key and the fingerprint of the first row that cannot be decoded.
        UnsupportedFormatError
            When the value of a single row has more than `MAX_VALUE_BYTES`.
        """
        columns, keys, values = self._decode(sources, rows, names, with_deletes=with_deletes)
        for status, part in ((keys, "key"), (values, "value")):
            if status.any():
                first = int(np.flatnonzero(status)[0])
                raise self._undecodable(sources, rows[first : first + 1], int(status[first]), part, where)
        return columns

    def decodable_mask(
        self,
        sources: Sequence[RowColumns],
        rows: NDArray[np.int64],
        names: Sequence[str],
        *,
        with_deletes: bool = False,
    ) -> NDArray[np.bool_]:
        """Return for each packed row whether `decode` of these columns succeeds."""
        _, keys, values = self._decode(sources, rows, names, with_deletes=with_deletes)
        decodable: NDArray[np.bool_] = (keys | values) == 0
        return decodable

    def _decode(
        self, sources: Sequence[RowColumns], rows: NDArray[np.int64], names: Sequence[str], *, with_deletes: bool
    ) -> tuple[dict[str, pa.Array], NDArray[np.uint8], NDArray[np.uint8]]:
        wanted_keys = [name for name in names if name in self.key_columns]
        wanted_values = [name for name in names if name not in self.key_columns]
        columns: dict[str, pa.Array] = {}
        keys = values = np.zeros(len(rows), np.uint8)
        if wanted_keys:
            found, keys = self._decode_keys(sources, rows, wanted_keys)
            columns.update(found)
        if wanted_values:
            self._refuse_too_large(sources, rows)
            found, values = self._decode_values(sources, rows, wanted_values, with_deletes=with_deletes)
            columns.update(found)
        return columns, keys, values

    def _refuse_too_large(self, sources: Sequence[RowColumns], rows: NDArray[np.int64]) -> None:
        """Refuse a value that no Arrow array can hold; its row is in no batch with others."""
        if len(rows) == 1 and (size := int(value_lengths(sources, rows)[0])) > MAX_VALUE_BYTES:
            raise UnsupportedFormatError(
                f"The value of key {gather_keys(sources, rows)[1].tobytes().hex()} has {size} bytes, "
                f"at most {MAX_VALUE_BYTES} can be read.",
                why="An Arrow array holds no more.",
                todo="Read key columns alone, leave the key out, or read it with a SlateDB client.",
            )

    def _decode_keys(self, sources: Sequence[RowColumns], rows: NDArray[np.int64], names: Sequence[str]) -> Decoded:
        if self.key_format != "tuple":
            return _text_or_bytes(names[0], BYTES_TYPES[self.key_format], *gather_keys(sources, rows), nulls=None)
        types = [item.type for item in self.key_fields]
        arrays, status = decode_tuple_keys(sources, rows, types, [name in names for name in self.key_columns])
        return {name: array for name, array in zip(self.key_columns, arrays, strict=True) if array is not None}, status

    def _decode_values(
        self, sources: Sequence[RowColumns], rows: NDArray[np.int64], names: Sequence[str], *, with_deletes: bool
    ) -> Decoded:
        if self.value_format == "avro":
            from slatespark.encoding.avro_value import decode_avro_values

            return decode_avro_values(
                sources, rows, writers=self.writer_schemas, fields=self.value_fields, wanted=names
            )
        if self.value_format == "json":
            return decode_json_values(sources, rows, fields=self.value_fields, wanted=names)
        nulls = (gather_fields(sources, rows).flags & TOMBSTONE) != 0 if with_deletes else None
        return _text_or_bytes(names[0], BYTES_TYPES[self.value_format], *gather_values(sources, rows), nulls=nulls)

    def _undecodable(
        self, sources: Sequence[RowColumns], row: NDArray[np.int64], status: int, part: str, where: str
    ) -> CorruptDataError:
        _, key = gather_keys(sources, row)
        encoding = self.key_format if part == "key" else self.value_format
        why = f"Its {part} is not a valid {encoding} encoding of its columns."
        if part == "key" and self.key_format == "tuple":
            why = f"Its key is not a tuple of its columns: {key_damage(status)}."
        if part == "value" and self.value_format == "avro":
            from slatespark.encoding.avro_value import MARKER, UNKNOWN_FINGERPRINT

            _, value = gather_values(sources, row)
            head = value.tobytes()[: len(MARKER) + _FINGERPRINT_BYTES]
            fingerprint = head[len(MARKER) :][::-1].hex()  # the number, as definitions write it
            if status == UNKNOWN_FINGERPRINT:
                why = (
                    f"Its fingerprint {fingerprint} is unknown to the table."
                    if head.startswith(MARKER)
                    else "Its value does not start with the Avro marker C3 01."
                )
            else:
                why = f"Its value does not fit the schema with fingerprint {fingerprint}."
        return CorruptDataError(
            f"{where}{': ' if where else ''}the row with key {key.tobytes().hex()} cannot be decoded.",
            why=why,
            todo="Read other columns, or skip such rows with ignoreUndecodable=true.",
        )


def _flat_bytes(name: str, column: pa.ChunkedArray) -> Bytes:
    if column.type == pa.string():
        require_utf8(name, column)
    flat = flat_column(column)
    if flat.offsets is None:
        raise InternalError(f"{column.type} is stored as bytes.")
    return flat.data, flat.offsets


def _scalar_bytes(value: Any, key_format: str) -> bytes:
    if key_format == "utf8" and isinstance(value, str):
        return value.encode()
    if key_format == "raw" and isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"{value!r} is not {'text' if key_format == 'utf8' else 'bytes'}")


def _text_or_bytes(
    name: str,
    kind: pa.DataType,
    offsets: NDArray[np.int32],
    data: NDArray[np.uint8],
    *,
    nulls: NDArray[np.bool_] | None,
) -> Decoded:
    """Return gathered bytes as a column, and a status for each: for text, whether it is valid UTF-8."""
    validity = None
    if nulls is not None and nulls.any():
        validity = pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    array = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [validity, pa.py_buffer(offsets), pa.py_buffer(data)])
    status = np.zeros(len(array), np.uint8)
    if kind == pa.string():
        try:
            array = array.cast(kind)
        except pa.ArrowInvalid:
            status = np.array([0 if _is_text(item) else _NOT_UTF8 for item in array.to_pylist()], np.uint8)
            array = pa.nulls(len(array), kind)
    return {name: array}, status


def _is_text(data: bytes | None) -> bool:
    try:
        (data or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


RAW_CODEC: Final = RowCodec(
    schema=pa.schema([pa.field("key", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)]),
    key_columns=("key",),
    key_format="raw",
    value_format="raw",
)
