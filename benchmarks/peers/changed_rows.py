"""What the steps write and ask for, as Parquet files: made once, the same for all formats."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.data import SEED, DataFolder
from benchmarks.typed_rows import TENANTS, key_columns, make_batch
from benchmarks.typed_schema import KEYS

SMALL_UPSERTS: Final = 20
KEYS_ASKED: Final = 1000

DELETED: Final = 7  # tenants of which half is deleted, or replaced
REPLACED: Final = 17
_ASKED: Final = 4242  # number of the row of `key_condition`


def changed_rows(data: DataFolder, rows: int) -> Path:
    """Return a folder: upserts `few`, `thousand`, `many`, `small-00` ..., keys `asked`, `deleted`, and a `replacement`.

    A tenth of the rows of an upsert is new, the others replace random ones.
    """
    return data.made(f"changed-{rows}", lambda path: _write(path, rows))


def few(rows: int) -> int:
    """Return how many rows a small upsert has: 0.01 % of the table."""
    return max(rows // 10_000, 20)


def range_condition(tenant: int, rows: int) -> str:
    """Return the condition of an interval that holds half a tenant, 1 % of the table."""
    return f"tenant = 'tenant-{tenant:02d}' AND id < {_range_end(rows)}"


def key_condition() -> str:
    """Return the condition of one key."""
    tenant, number = (column[0].as_py() for column in key_columns(np.array([_ASKED])))
    return f"tenant = '{tenant}' AND id = {number}"


def _range_end(rows: int) -> int:
    return rows // TENANTS * 7 // 2


def _write(path: Path, rows: int) -> None:
    path.mkdir()
    generator = np.random.default_rng([SEED, 12])
    sizes = {"few": few(rows), "thousand": 1000, "many": rows // 10}
    sizes |= {f"small-{one:02d}": few(rows) for one in range(SMALL_UPSERTS)}
    new = rows
    for name, count in sizes.items():
        numbers = _upserted(generator, rows, count, new)
        new += count // 10
        pq.write_table(pa.Table.from_batches([make_batch(generator, numbers)]), path / f"{name}.parquet")
    for name in ("asked", "deleted"):
        numbers = generator.choice(rows, KEYS_ASKED, replace=False)
        pq.write_table(pa.table(key_columns(numbers), KEYS), path / f"{name}.parquet")
    inside = np.arange(0, _range_end(rows), 7) // 7 * TENANTS + REPLACED
    pq.write_table(pa.Table.from_batches([make_batch(generator, inside)]), path / "replacement.parquet")


def _upserted(generator: np.random.Generator, rows: int, count: int, new: int) -> NDArray[np.int64]:
    """Return the numbers of an upsert, shuffled: `new` and the next ones, and random old ones."""
    old = generator.choice(rows, count - count // 10, replace=False)
    return generator.permutation(np.concatenate([old, np.arange(new, new + count // 10)]))
