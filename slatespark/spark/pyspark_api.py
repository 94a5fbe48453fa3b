"""Calls of PySpark that depend on its release, or that it does not offer.

Among them are those for which it asks for other packages without need.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.errors import AnalysisException, PySparkException, PySparkImportError
from pyspark.sql.types import DataType, StructType

from slatespark.errors import OptionError
from slatespark.spark.frame_columns import dotted
from slatespark.spark.worker import SentToTasks

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame

_BATCH_ROWS: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"


class ArrowTask(SentToTasks, ABC):
    """Batches of one partition -> other batches."""

    @abstractmethod
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches that are made of those of a partition."""


def map_in_arrow(rows: DataFrame, task: ArrowTask, schema: StructType | str) -> DataFrame:
    """Return the batches that a task makes of each partition of `rows`, as `DataFrame.mapInArrow`.

    Up to 4.3 that call refuses to start without pandas, although it uses none of it, and takes the name of a column for
    a path: one with a dot, a backtick or a star is not found.

    Parameters
    ----------
    task : called once per partition, on an executor
    schema : the columns of the batches that it yields
    """
    if not all(name.isidentifier() for name in rows.columns):
        names = tuple(rows.columns)
        rows, task = rows.toDF(*(f"_{index}" for index in range(len(names)))), _Named(task, names)
    try:
        return rows.mapInArrow(task, schema)
    except PySparkImportError:
        return _map_by_columns(rows, task, schema)


@dataclass(frozen=True)
class _Named(ArrowTask):
    """A task over batches whose columns had their names taken away."""

    task: ArrowTask
    names: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.task(batch.rename_columns(list(self.names)) for batch in batches)


def _map_by_columns(rows: Any, task: ArrowTask, schema: StructType | str) -> DataFrame:
    """Do the same as `mapInArrow` of PySpark 4.1 to 4.3 does after its check; the test matrix runs this on each."""
    from pyspark.sql import DataFrame
    from pyspark.sql.udf import UserDefinedFunction
    from pyspark.util import PythonEvalType

    function = UserDefinedFunction(task, schema, type(task).__name__, PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    column: Any = function(*[rows[name] for name in rows.columns])
    return DataFrame(rows._jdf.mapInArrow(column._jc, False, None), rows.sparkSession)


def arrow_frame(spark: Any, table: pa.Table, schema: StructType | str) -> DataFrame:
    """Return the rows of a table as a DataFrame, as `createDataFrame` does; Spark needs no Python worker for them.

    That call raises `ValueError` where Spark's setting sets no limit for the rows of a batch.
    """
    if int(spark.conf.get(_BATCH_ROWS)) > 0:
        return spark.createDataFrame(table, schema)  # type: ignore[no-any-return]  # of a session of either kind
    columns = [column.to_pylist(maps_as_pydicts="strict") for column in table.columns]
    return spark.createDataFrame(list(zip(*columns, strict=True)), schema)  # type: ignore[no-any-return]


def find_context(spark: Any) -> SparkContext | None:
    """Return the context of a session; None with Spark Connect, which has none."""
    try:
        return spark.sparkContext  # type: ignore[no-any-return]  # a session of either kind
    except PySparkException:
        return None


def activate(spark: Any) -> None:
    """Make a session the active one of this thread if it has none.

    A thread that a program began has none, and a write of Spark looks for data sources of Python nowhere else: it ends
    with `DATA_SOURCE_NOT_FOUND`. Threads of a server of Spark Connect are its own affair.
    """
    if find_context(spark) is not None and type(spark).getActiveSession() is None:
        _make_active(spark)


def parse_ddl(spark: Any, text: str) -> DataType:
    """Return the type that DDL text names, as a session reads it: its settings say what TIMESTAMP is.

    PySpark's own call asks the active session of this thread, which may be another one or none.

    Raises
    ------
    ParseException
        When it names none.
    """
    if find_context(spark) is None:
        return spark._parse_ddl(text)  # type: ignore[no-any-return]  # a session of Spark Connect
    before = type(spark).getActiveSession()
    _make_active(spark)
    try:
        return DataType.fromDDL(text)
    finally:
        if before is not None:
            _make_active(before)


def _make_active(spark: Any) -> None:
    spark.createDataFrame([], "ignored INT")  # the only public call that does


def estimated_bytes(rows: Any) -> int | None:
    """Return how many bytes Spark expects the rows of a DataFrame to take, without running it; None if unknown.

    Spark has its own very large number for what it knows nothing of. A session of Spark Connect does not show it.
    """
    if getattr(rows, "_jdf", None) is None:
        return None
    return int(rows._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())


def view_options(spark: Any, name: tuple[str, ...], source: str) -> dict[str, str] | None:
    """Return the options of the read that a temporary view is; None if it is anything else, or no temporary view.

    The plan of the view tells.

    Parameters
    ----------
    name : name of one part, or of two for a global temporary view
    source : name of the data source

    Raises
    ------
    OptionError
        For a temporary view of a session of Spark Connect, which shows no plan.
    """
    if not _is_temporary_view(spark, name):
        return None
    if find_context(spark) is None:
        raise OptionError(
            f"sql: Spark Connect does not tell which table the temporary view {'.'.join(name)} shows.",
            todo=f"Name the table itself: {source}.`path`.",
        )
    plan = spark.table(dotted(name))._jdf.queryExecution().analyzed()
    while plan.nodeName() in ("SubqueryAlias", "View"):
        plan = plan.child()
    if plan.getClass().getSimpleName() != "DataSourceV2Relation" or plan.table().name() != source:
        return None
    found = plan.options().asCaseSensitiveMap()
    return {str(entry.getKey()): str(entry.getValue()) for entry in found.entrySet()}


def working_folder(spark: Any) -> str:
    """Return the folder in which relative paths of a classic session begin: that of its JVM, which never changes."""
    return str(spark._jvm.java.lang.System.getProperty("user.dir"))


def _is_temporary_view(spark: Any, name: tuple[str, ...]) -> bool:
    try:
        return bool(spark.catalog.getTable(dotted(name)).isTemporary)
    except AnalysisException:
        return False
