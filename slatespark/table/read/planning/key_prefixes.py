"""Keys, and bounds of key ranges, as columns: a bound is a key, or the beginning of keys that some columns make."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from slatespark.encoding.plain_values import first_value
from slatespark.encoding.row_codec import RowCodec
from slatespark.format.row import Row, rows_to_columns

AFTER: Final = b"\xff"  # behind a prefix: above all keys that begin with it
_NUL_AT_END: Final = b"\0\xff\0"  # of a tuple: the string or binary before it, with a zero byte appended


def decode_prefixes(codec: RowCodec, keys: Sequence[bytes]) -> Iterator[tuple[list[bytes], dict[str, pa.Array]]]:
    """Yield keys together with the columns that they hold, those with most columns first.

    Keys that do not encode leading key columns are left out.

    Parameters
    ----------
    codec : codec of a typed table
    keys : distinct
    """
    left = [key for key in keys if key]
    for count in range(len(codec.key_columns), 0, -1):
        if not left:
            return
        names = codec.key_columns[:count]
        part = replace(codec, key_columns=names)
        sources = [rows_to_columns([Row(key, 0) for key in left])]
        rows = np.arange(len(left), dtype=np.int64)
        rows = rows[part.decodable_mask(sources, rows, names)]
        if len(rows):
            yield [left[row] for row in rows.tolist()], part.decode(sources, rows, names)
            found = set(rows.tolist())
            left = [key for number, key in enumerate(left) if number not in found]
        if codec.key_format != "tuple":
            return


def prefix_behind(bound: bytes) -> bytes | None:
    """Return what a bound of tuples seems to lie right behind: all keys that begin with it are below the bound.

    Requires: the caller checks that the result encodes leading columns.
    """
    if bound.endswith(_NUL_AT_END):
        return bound[:-2]
    return bound[:-1] if bound.endswith(AFTER) else None


def name_key(codec: RowCodec, key: bytes) -> str:
    """Return a key as people know it: by its columns, or in hexadecimal."""
    sources, rows = [rows_to_columns([Row(key, 0)])], np.zeros(1, np.int64)
    if codec.is_raw or not codec.decodable_mask(sources, rows, codec.key_columns).all():
        return f"key {key.hex()}"
    columns = codec.decode(sources, rows, codec.key_columns)
    return ", ".join(f"{name}={first_value(columns[name])!r}" for name in codec.key_columns)
