"""The kernels between columns and encoded rows: values in Avro, keys in FoundationDB's tuple layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from slatespark.kernels._dispatch import kernel_module
from slatespark.kernels.columns import RowColumns

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from slatespark.kernels.avro_program import AvroNode, DecodeProgram, EncodeProgram
    from slatespark.kernels.flat import FlatColumn
    from slatespark.kernels.results import AvroItems


def encode_avro(
    columns: Sequence[FlatColumn], program: EncodeProgram, count: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Encode rows in Avro's single-object encoding, or parts of values: bytes and (count + 1,) offsets.

    Parameters
    ----------
    columns : one for each node of the program, with at least `count` items
    program : the schema to encode
    count : rows; there may be no column

    Raises
    ------
    InternalError : a column does not match its node
    InvalidRequestError : text is not UTF-8
    """
    values: tuple[NDArray[np.uint8], NDArray[np.int64]] = kernel_module("avro_encode").encode_avro(
        columns, program, count
    )
    return values


def decode_avro(
    sources: Sequence[RowColumns], rows: NDArray[np.int64], program: DecodeProgram
) -> tuple[list[FlatColumn], NDArray[np.uint8]]:
    """Decode the values of packed rows to columns, with a status per row: FINE, UNKNOWN_FINGERPRINT or MALFORMED.

    The bytes are not trusted in any respect. Tombstones are FINE. Tombstones and rows that are not FINE are null in all
    columns; null numbers are 0, null bytes empty. Text is UTF-8. A row is decoded up to the last wanted field; the rest
    is ignored.

    Raises
    ------
    InternalError : 2^31 bytes or more of values with a BYTES column, or a row that does not exist
    """
    decoded: tuple[list[FlatColumn], NDArray[np.uint8]] = kernel_module("avro_decode").decode_avro(
        sources, rows, program
    )
    return decoded


def decode_avro_parts(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    valid: NDArray[np.uint8] | None,
    program: DecodeProgram,
) -> tuple[list[FlatColumn], NDArray[np.uint8]]:
    """Decode records that are parts of values to columns, with a status for each: FINE or MALFORMED.

    As `decode_avro`, but no record has a marker and a fingerprint: all are of the one writer of the program.

    Parameters
    ----------
    starts, ends : where each record is in the data
    valid : 0 for a null, which is FINE and null in all columns; None if there is none

    Raises
    ------
    InternalError : a record lies outside the data, or 2^31 bytes or more of records with a BYTES column
    """
    decoded: tuple[list[FlatColumn], NDArray[np.uint8]] = kernel_module("avro_decode").decode_avro_parts(
        data, starts, ends, valid, program
    )
    return decoded


def split_avro(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    valid: NDArray[np.uint8] | None,
    item: AvroNode,
) -> AvroItems:
    """Find the items of Avro arrays, or the pairs of maps; as in skipped values, only lengths and counts are checked.

    Parameters
    ----------
    starts, ends, valid : as for `decode_avro_parts`
    item : the type of an item; of a map, a record of a text and a value

    Raises
    ------
    InternalError : an array lies outside the data
    """
    items: AvroItems = kernel_module("avro_split").split_avro(data, starts, ends, valid, item)
    return items


def encode_tuples(
    columns: Sequence[FlatColumn], program: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Encode one key for each row in FoundationDB's tuple layer: bytes and (n + 1,) offsets.

    Parameters
    ----------
    columns : the columns of the program, in its order, of equal length
    program : the parts of a key, see `slatespark.kernels.tuple_program`

    Raises
    ------
    SchemaError : a string is not UTF-8, or a decimal has more digits than its step
    """
    keys: tuple[NDArray[np.uint8], NDArray[np.int64]] = kernel_module("tuple_encode").encode_tuples(columns, program)
    return keys


def decode_tuples(
    sources: Sequence[RowColumns], rows: NDArray[np.int64], program: NDArray[np.int64], wanted: NDArray[np.bool_]
) -> tuple[list[FlatColumn | None], NDArray[np.uint8]]:
    """Decode the wanted columns from the keys of packed rows, with a `tuple_program.KeyStatus` per row.

    If the status is not 0, all columns are null. The whole key is always checked, so the status does not depend on
    `wanted`.

    Raises
    ------
    InternalError : keys of 2^31 bytes or more, or a row that does not exist
    """
    decoded: tuple[list[FlatColumn | None], NDArray[np.uint8]] = kernel_module("tuple_decode").decode_tuples(
        sources, rows, program, wanted
    )
    return decoded
