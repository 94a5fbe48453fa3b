"""SparkTasks: the tasks of an operation as those of one Spark job; the driver plans and commits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from operator import itemgetter
from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow as pa
from pyspark import cloudpickle

from slatespark.spark.failures import lost_results, own_errors, spark_errors
from slatespark.spark.jobs.run_job import run_job
from slatespark.spark.pyspark_api import ArrowTask, arrow_frame, find_context, map_in_arrow
from slatespark.spark.worker import freeze_gc
from slatespark.table.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MANY: Final = 1 << 20  # numbers: more than there are cores

_PACKED = "number INT, place INT, piece BINARY"
_PIECES: Final = pa.schema([("number", pa.int32()), ("place", pa.int32()), ("piece", pa.binary())])
_RESULT = "outcome BINARY"
# Spark refuses tasks of 128 MiB, and a driver of 1 GiB waits for ever once it has no memory to send one of 100 MiB.
PIECE_BYTES: Final = 8 << 20

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


class SparkTasks:
    """Runs a function on items, each in a task of one Spark job.

    Function and items travel to the executors. Classes from a notebook or script are pickled by value; classes from a
    module by name, so executors need that module.

    Parameters
    ----------
    progress : hears how many tasks have finished

    Attributes
    ----------
    parallelism : how many tasks Spark runs at a time
    """

    def __init__(self, spark: SparkSession, progress: Progress | None = None) -> None:
        self._spark, self._progress = spark, progress
        self.parallelism = _parallelism(spark)

    def __call__(
        self, function: Callable[[Item], Outcome], items: Sequence[Item], *, check: Callable[[], None] | None = None
    ) -> Iterable[Outcome]:
        """Return the results in the order of the items.

        Parameters
        ----------
        check : called again and again meanwhile; cancels the Spark job by raising

        Raises
        ------
        SlateError
            The error of a task, with its class.
        MemoryLimitError
            When Spark's driver broke off while it sent the results.
        """
        if not items:
            return []

        # As rows, one item per partition: in the closure, which every task loads, all items would travel to each task.
        pieces = [row for number, item in enumerate(items) for row in pieces_of(number, pack((function, item)))]
        with own_errors():
            rows_of = self._frame_of(pieces).repartitionById(len(items), "number")
            frame = map_in_arrow(rows_of, _RunPacked(), _RESULT)
            # In the order of partitions.
            rows = run_job(self._spark, frame.collect, check=check, progress=self._progress)
        if len(rows) < len(items):
            raise lost_results(f"{len(rows)} of the results of {len(items)} tasks arrived.")
        # Unpickling is safe: the results come from slatespark's own tasks over Spark's channel.
        return [cloudpickle.loads(bytes(row[0])) for row in rows]

    def _frame_of(self, pieces: Sequence[pa.RecordBatch]) -> DataFrame:
        """Return pieces as rows, of which Spark sends few in a task."""
        if find_context(self._spark) is not None:
            return arrow_frame(self._spark, pa.Table.from_batches(pieces), _PACKED)
        # A server of Spark Connect divides a frame among as many tasks as there are cores, whatever its size.
        tables = map(pa.Table.from_batches, in_groups(pieces))
        frames = (arrow_frame(self._spark, table, _PACKED) for table in tables)
        return reduce(lambda upper, lower: upper.union(lower), frames)


def in_groups(pieces: Sequence[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Yield pieces in groups of up to `PIECE_BYTES`, or of one."""
    group: list[pa.RecordBatch] = []
    held_bytes = 0
    for piece in pieces:
        if group and held_bytes + piece.nbytes > PIECE_BYTES:
            yield group
            group, held_bytes = [], 0
        group.append(piece)
        held_bytes += piece.nbytes
    yield group


def _parallelism(spark: SparkSession) -> int:
    """Return how many tasks Spark runs at a time. Spark Connect does not tell, but cuts a range accordingly."""
    context = find_context(spark)
    if context is not None:
        return max(1, context.defaultParallelism)
    [(last,)] = spark.range(MANY).selectExpr("spark_partition_id() AS place").groupBy().max("place").collect()
    return 1 + int(last)


def pieces_of(number: int, packed: bytes) -> Iterator[pa.RecordBatch]:
    """Yield an item in pieces, each a batch of its own: Spark sends each batch of many bytes in one task."""
    for place, start in enumerate(range(0, len(packed), PIECE_BYTES)):
        row = {"number": number, "place": place, "piece": packed[start : start + PIECE_BYTES]}
        yield pa.RecordBatch.from_pylist([row], _PIECES)


class _RunPacked(ArrowTask):
    """The packed function and item of one partition, in pieces of any order -> the packed outcome."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pieces = [row for batch in batches for row in batch.to_pylist()]
        if pieces:
            packed = b"".join(row["piece"] for row in sorted(pieces, key=itemgetter("place")))
            yield pa.RecordBatch.from_pydict({"outcome": pa.array([run_packed(packed)], pa.binary())})


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
