"""What the demo's scenes need of the SlateDB client, which may not be installed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

_BATCH_ROWS: Final = 10_000

SKIPPED: Final = "Skipped: the client is not installed (pip install slatedb==0.17.0)."


def is_installed() -> bool:
    """Tell whether there is a client."""
    return find_spec("slatedb") is not None


def local_store(folder: Path) -> Any:
    """Return a folder as the client takes it: as a store of databases."""
    from slatedb import uniffi

    builder = uniffi.ObjectStoreBuilder(uniffi.ObjectStoreType.LOCAL)
    builder.with_url(str(folder))
    return builder.build()


async def count_rows(reader: Any) -> int:
    """Return how many rows a reader or an open database of the client sees."""
    from slatedb import uniffi

    everything = uniffi.KeyRange(start=None, start_inclusive=False, end=None, end_inclusive=False)
    rows, count = await reader.scan(everything), 0
    while batch := await rows.next_batch(_BATCH_ROWS):
        count += len(batch)
    return count
