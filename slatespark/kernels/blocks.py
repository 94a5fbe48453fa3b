"""Limits and errors of both block encoders."""

from __future__ import annotations

from typing import Final

from slatespark.errors import InternalError, InvalidRequestError

CHECKSUM_BYTES: Final = 4  # after each block
MAX_BLOCK_BYTES: Final = 65536  # restart offsets are u16


def check_block_size(block_size: int, restart_interval: int) -> None:
    """Raise `InvalidRequestError` for sizes that the format cannot represent."""
    if not 1 <= block_size <= MAX_BLOCK_BYTES:
        raise InvalidRequestError(f"Block size is {block_size} bytes, expected 1 to {MAX_BLOCK_BYTES}.")
    if restart_interval < 1:
        raise InvalidRequestError(f"Restart interval is {restart_interval} rows, expected at least 1.")


def length_error(length: int) -> InvalidRequestError:
    """Return the error for a key or value whose length does not fit a u32."""
    return InvalidRequestError(
        f"A key or value has {length} bytes, expected at most {2**32 - 1}.", todo="Split the value."
    )


def flags_error(flags: int) -> InternalError:
    """Return the error for row flags that the format does not define."""
    return InternalError(f"A row to encode has the unknown flags {flags:#04x}.")
