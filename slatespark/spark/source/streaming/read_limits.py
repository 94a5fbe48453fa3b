"""What PySpark 4.2 added for streams that limit their batches; stands in for it in 4.1, which asks for none of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slatespark.options import ReadOptions

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
else:
    try:
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
    except ImportError:

        class SupportsTriggerAvailableNow:
            """Stands in for Spark's."""


__all__ = ["SupportsTriggerAvailableNow", "default_limit", "is_limited"]


def default_limit(options: ReadOptions) -> Any:
    """Return the limit that Spark hands back for each batch, unless the trigger wants all: one of those given."""
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxFiles, ReadMaxRows

    if options.max_rows_per_trigger is not None:
        return ReadMaxRows(options.max_rows_per_trigger)
    if options.max_bytes_per_trigger is not None:
        return ReadMaxBytes(options.max_bytes_per_trigger)
    if options.max_files_per_trigger is not None:
        return ReadMaxFiles(options.max_files_per_trigger)
    return ReadAllAvailable()


def is_limited(limit: object) -> bool:
    """Tell whether the limits of the options count for a batch; PySpark 4.1 gives no limit, where they always do."""
    return type(limit).__name__ != "ReadAllAvailable"
