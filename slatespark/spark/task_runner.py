"""SparkTasks: the tasks of an operation as those of one Spark job; the driver plans and commits."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.errors import PySparkException

from slatespark.spark.failures import own_errors, spark_errors
from slatespark.spark.pyspark_api import map_in_arrow
from slatespark.spark.worker import freeze_gc

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RESULT = "outcome BINARY"

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


class SparkTasks:
    """Runs a function on items, each in a task of one Spark job.

    Function and items travel to the executors. Classes from a notebook or script are pickled by value; classes from a
    module by name, so executors need that module.

    Attributes
    ----------
    together : how many tasks Spark runs at a time; 1 with Spark Connect, which does not tell
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.together = 1
        with contextlib.suppress(PySparkException):
            self.together = max(1, spark.sparkContext.defaultParallelism)

    def __call__(self, function: Callable[[Item], Outcome], items: Sequence[Item]) -> Iterable[Outcome]:
        """Return the results in the order of the items.

        Raises
        ------
        SlateError
            The error of a task, with its class.
        """
        if not items:
            return []
        packed = [pack((function, item)) for item in items]

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                results = [run_packed(packed[number]) for number in batch.column(0).to_pylist()]
                yield pa.RecordBatch.from_pydict({"outcome": pa.array(results, pa.binary())})

        # One number per partition: Spark splits ranges of numbers evenly, without a shuffle.
        numbers = self._spark.range(0, len(items), 1, len(items))
        with own_errors():
            rows = map_in_arrow(numbers, run, _RESULT).collect()  # in the order of partitions
        # Unpickling is safe: the results come from our own tasks over Spark's channel.
        return [cloudpickle.loads(bytes(row[0])) for row in rows]


def run_packed(packed: bytes) -> bytes:
    """Run one task in a worker."""
    with spark_errors():
        function, item = cloudpickle.loads(packed)
        outcome = function(item)
        freeze_gc()
        return pack(outcome)


def pack(value: object) -> bytes:
    """Return a value as bytes that executors can load."""
    return bytes(cloudpickle.dumps(value))  # type: ignore[no-untyped-call]  # pyspark's own copy has no types
