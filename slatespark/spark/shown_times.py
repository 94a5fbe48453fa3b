"""The times that rows and facts show in Spark: no further away than Python can tell, in any time zone.

Spark's TIMESTAMP reaches beyond the year 9999, Python's datetime does not: `collect()` of one such value fails, and
with it the whole result. Columns of a table are left as they are, as Spark itself does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from slatespark.table.read.arrow import ADDED_TYPES, Projection

LATEST_MS: Final = 253_402_250_399_999  # 9999-12-31 09:59:59.999 UTC: fourteen hours further east the year is over
EARLIEST_MS: Final = -62_135_424_000_000  # 0001-01-03; before 1900 time zones were up to 16 hours apart

_ADDED: Final = {name for name, kind in ADDED_TYPES.items() if pa.types.is_timestamp(kind)}


def bounded_ms(ms: int) -> int:
    """Return an instant, or the nearest one that can be shown."""
    return min(max(ms, EARLIEST_MS), LATEST_MS)


def with_bounded_times(
    batches: Iterable[pa.RecordBatch], projection: Projection, *, first: int = 0
) -> Iterator[pa.RecordBatch]:
    """Yield batches of a projection with the times of the columns that a read adds bounded as by `bounded_ms`.

    Parameters
    ----------
    first : position of the first column of the projection in the batches
    """
    own = projection.codec.schema.names
    added = [at for at, name in enumerate(projection.names, first) if name in _ADDED and name not in own]
    for batch in batches:
        for at in added:
            batch = batch.set_column(at, batch.schema.field(at), _bounded(batch.column(at)))
        yield batch


def _bounded(times: pa.Array) -> pa.Array:
    us = pc.max_element_wise(times.view(pa.int64()), EARLIEST_MS * 1000, skip_nulls=False)
    return pc.min_element_wise(us, LATEST_MS * 1000, skip_nulls=False).view(times.type)
