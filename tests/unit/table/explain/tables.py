"""Tables to explain, and explanations of a process that has read nothing yet."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa

from slatespark import SlateStore
from slatespark.slate_store.explanation import Explanation
from slatespark.table.read.copies.stored import footers
from slatespark.table.read.fetch import filter_sets, indexes
from slatespark.table.read.versions.file_properties import recorded_files
from tests.support.fake_clock import FakeClock

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])


_names = itertools.count()


def new_place() -> str:
    """A place for a table, without a disk."""
    return f"memory://explained-{next(_names)}/t"


def rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table({"id": numbers, "v": [f"{number:050}" for number in numbers]}, SCHEMA)


def new_table(path: Path | str, clock: FakeClock | None = None, **properties: Any) -> SlateStore:
    """An empty table of which each write makes a run."""
    return SlateStore.create(
        path,
        SCHEMA,
        "id",
        clock=clock or FakeClock(),
        **{"autoCompact": False, "versionRetention": "0ms", **properties},
    )


def forget() -> None:
    """Empty the caches, so that the process is as if it had just begun."""
    for cache in (indexes, filter_sets, recorded_files, footers):
        cache.clear()


def explained(store: SlateStore, operation: str = "read", **options: Any) -> Explanation:
    """What an operation cost that was run in a process that had read nothing, and the estimate before."""
    forget()
    found = store.explain(operation, analyze=True, **options)
    assert found.measured is not None
    assert found.measured in found.estimated, (found.estimated, found.measured)
    return found
