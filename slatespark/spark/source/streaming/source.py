"""The stream source: Spark's calls on the changes of a table.

Spark keeps one reader in a process of its own for all calls but `read`; another one, which knows only its options, goes
to the tasks. So what a batch reads is in its partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from slatespark.options import ReadOptions
from slatespark.spark.failures import spark_errors
from slatespark.spark.source.change_reader import change_partitions, read_changes
from slatespark.spark.source.kept_stores import kept_stores
from slatespark.spark.source.streaming.read_limits import SupportsTriggerAvailableNow, default_limit, is_limited
from slatespark.spark.worker import SentToTasks
from slatespark.table.clock import resolve_clock
from slatespark.table.read.arrow import Projection
from slatespark.table.streams.change_stream import ChangeStream
from slatespark.table.streams.position import Position, decode_position, encode_position


class SlateStreamReader(SentToTasks, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the changes of a table as a stream."""

    def __init__(self, options: ReadOptions, projection: Projection) -> None:
        self._options, self._projection = options, projection
        self._opened: ChangeStream | None = None
        self._reached: Position | None = None  # the end of the last batch, which PySpark 4.1 does not tell

    def initialOffset(self) -> dict[str, Any]:  # Spark's names, as all below
        """Return where the options say that the stream starts."""
        with spark_errors():
            self._reached = self._stream.initial()
            return encode_position(self._reached)

    def latestOffset(self, start: Mapping[str, Any] | None = None, limit: object = None) -> dict[str, Any]:
        """Return the end of the next batch, which is its start as long as nothing is new."""
        with spark_errors():
            if start is not None:
                reached = decode_position(start)
            elif self._reached is not None:
                reached = self._reached
            else:
                reached = self._stream.initial()
            return encode_position(self._stream.next(reached, is_limited=is_limited(limit)))

    def getDefaultReadLimit(self) -> Any:
        """Return one of the limits of the options."""
        return default_limit(self._options)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the newest state that is known."""
        newest = self._stream.newest
        return None if newest is None else encode_position(newest)

    def prepareForTriggerAvailableNow(self) -> None:
        """Let the stream end at the newest version."""
        with spark_errors():
            self._stream.stop_at_newest()

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        """Return the key ranges of the changes between two offsets."""
        with spark_errors():
            self._reached = decode_position(end)
            plan = self._stream.plan(decode_position(start), self._reached)
            return [] if plan is None else change_partitions(plan)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the changes of one key range."""
        return read_changes(partition, self._options)

    @property
    def _stream(self) -> ChangeStream:
        if self._opened is None:
            options = self._options
            self._opened = ChangeStream(kept_stores(options), options, self._projection, resolve_clock(options.clock))
        return self._opened


class RefusedStreamReader(DataSourceStreamReader):
    """Raises why there is no reader, at Spark's first call: from a reader that cannot be made, Spark hides it.

    Spark closes a reader that it does not have, and the query ends with the error of that.
    """

    def __init__(self, reason: Exception) -> None:
        self._reason = reason

    def initialOffset(self) -> dict[str, Any]:
        """Raise the reason, as all below."""
        raise self._reason

    def latestOffset(self, start: Mapping[str, Any] | None = None, limit: object = None) -> dict[str, Any]:
        """Raise the reason."""
        raise self._reason

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        """Raise the reason."""
        raise self._reason

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Raise the reason."""
        raise self._reason
