"""What both block encoders refuse, and how far apart they put blocks."""

from __future__ import annotations

from typing import Final

from slatespark.errors import InternalError, InvalidRequestError

CHECKSUM_BYTES: Final = 4  # behind each block; spec 2.1
MAX_BLOCK_BYTES: Final = 65536  # restart offsets are u16; spec 2.7


def check_block_size(block_size: int, restart_interval: int) -> None:
    """Refuse sizes that the format cannot express."""
    if not 1 <= block_size <= MAX_BLOCK_BYTES:
        raise InvalidRequestError(f"Block size is {block_size} bytes, expected 1 to {MAX_BLOCK_BYTES}.")
    if restart_interval < 1:
        raise InvalidRequestError(f"Restart interval is {restart_interval} rows, expected at least 1.")


def refuse_length(length: int) -> InvalidRequestError:
    """Return the error for a key or value whose length is no u32."""
    return InvalidRequestError(
        f"A key or value has {length} bytes, and the format has room for {2**32 - 1}.", todo="Split the value."
    )


def refuse_flags(flags: int) -> InternalError:
    """Return the error for row flags that the format does not know."""
    return InternalError(f"A row to write has the flags {flags:#04x}.")
