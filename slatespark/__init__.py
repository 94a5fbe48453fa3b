"""SlateDB databases as tables, with Spark or with pyarrow.

Everything public is importable from here. Names other than the errors are loaded when they are first used, so that
`import slatespark` costs neither pyspark nor numba nor s3fs.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from slatespark.errors import (
    ClockRegressionError,
    CommitConflictError,
    ConflictError,
    CorruptDataError,
    HistoryTrimmedError,
    InternalError,
    InvalidRequestError,
    MemoryLimitError,
    OptionError,
    SchemaError,
    SlateError,
    SnapshotExpiredError,
    TableExistsError,
    TableNotFoundError,
    TransactionConflictError,
    UnavailableError,
    UnsupportedFormatError,
)

if TYPE_CHECKING:
    from slatespark.slate_store import SlateStore
    from slatespark.spark.jobs.compaction_worker import CompactionWorker
    from slatespark.spark.session import register, storageOptions
    from slatespark.spark.slate_table import SlateTable
    from slatespark.spark.sql.run import sql
    from slatespark.spark.transaction import SlateTransaction
    from slatespark.table.clock import Clock
    from slatespark.table.compaction.filter import (
        CompactionFilter,
        ExpireFilter,
        FilterDecisions,
        HistoryFloorFilter,
        RetentionFilter,
    )
    from slatespark.table.rows.sst_writer import SstWriter
    from slatespark.table.transaction.transaction import Transaction
    from slatespark.table.upkeep.reaper import Reaper
    from slatespark.table.upkeep.upkeep import Upkeep

__version__ = "0.1.0"

if _level := os.environ.get("SLATESPARK_LOG"):
    import_module("slatespark.log_lines").log_to_stderr(_level)

_LAZY: Final = {
    "Clock": "slatespark.table.clock",
    "CompactionFilter": "slatespark.table.compaction.filter",
    "CompactionWorker": "slatespark.spark.jobs.compaction_worker",
    "ExpireFilter": "slatespark.table.compaction.filter",
    "FilterDecisions": "slatespark.table.compaction.filter",
    "HistoryFloorFilter": "slatespark.table.compaction.filter",
    "Reaper": "slatespark.table.upkeep.reaper",
    "RetentionFilter": "slatespark.table.compaction.filter",
    "SlateStore": "slatespark.slate_store",
    "SlateTable": "slatespark.spark.slate_table.table",
    "SlateTransaction": "slatespark.spark.transaction",
    "SstWriter": "slatespark.table.rows.sst_writer",
    "Transaction": "slatespark.table.transaction.transaction",
    "Upkeep": "slatespark.table.upkeep.upkeep",
    "load_ipython_extension": "slatespark.spark.sql.magic",
    "register": "slatespark.spark.session",
    "sql": "slatespark.spark.sql.run",
    "storageOptions": "slatespark.spark.session",
}

__all__ = [
    "Clock",
    "ClockRegressionError",
    "CommitConflictError",
    "CompactionFilter",
    "CompactionWorker",
    "ConflictError",
    "CorruptDataError",
    "ExpireFilter",
    "FilterDecisions",
    "HistoryFloorFilter",
    "HistoryTrimmedError",
    "InternalError",
    "InvalidRequestError",
    "MemoryLimitError",
    "OptionError",
    "Reaper",
    "RetentionFilter",
    "SchemaError",
    "SlateError",
    "SlateStore",
    "SlateTable",
    "SlateTransaction",
    "SnapshotExpiredError",
    "SstWriter",
    "TableExistsError",
    "TableNotFoundError",
    "Transaction",
    "TransactionConflictError",
    "UnavailableError",
    "UnsupportedFormatError",
    "Upkeep",
    "__version__",
    "register",
    "sql",
    "storageOptions",
]


def __getattr__(name: str) -> Any:
    """Load a public name from its module, once."""
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the names not loaded yet as well."""
    return sorted(set(globals()) | set(_LAZY))
