"""Columnar copies with a row group for each block, used wherever they can be: small tables would do without."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from slatespark.table.columns import write as copy_writing
from slatespark.table.read.copies.part import CopyPart
from slatespark.table.read.copies.windows import CopyReads


@contextmanager
def copies_wherever_possible() -> Iterator[dict[str, int]]:
    """Count the slices of files that are read from copies: with newer rows above, and without."""
    used = {"merged": 0, "alone": 0}
    read = CopyReads.part_windows

    def counted(self: CopyReads, stores: Any, part: CopyPart, window_bytes: int) -> Any:
        used["merged" if part.is_covered else "alone"] += 1
        return read(self, stores, part, window_bytes)

    with ExitStack() as stack:
        stack.enter_context(patch.object(copy_writing, "GROUP_ROWS", 1))
        stack.enter_context(patch.object(copy_writing, "WINDOW_BYTES", 1))
        stack.enter_context(patch.object(CopyPart, "stored_bytes", -1))
        stack.enter_context(patch.object(CopyReads, "part_windows", counted))
        yield used
