"""Facts about a table as DataFrames; the columns are the same when there are no rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from slatespark.spark.frames.local_rows import local_frame
from slatespark.table.checkpoints.store import CheckpointFacts
from slatespark.table.inspection.describe import TableFacts
from slatespark.table.inspection.files import FileFacts, LayerFacts
from slatespark.table.inspection.sequences import SequencePoint
from slatespark.table.inspection.versions import VersionFacts
from slatespark.table.retention.expiry_tally import ExpiryReport

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DETAIL: Final = (
    "url STRING, kind STRING, version BIGINT, keyColumns ARRAY<STRING>, keyFormat STRING, valueFormat STRING, "
    "properties MAP<STRING, STRING>, files BIGINT, storedBytes BIGINT, l0Views BIGINT, sortedRuns BIGINT, "
    "lastSeq BIGINT, clockTick TIMESTAMP_LTZ, versions ARRAY<BIGINT>, storedHistoryFloor TIMESTAMP_LTZ, "
    "historyFloor TIMESTAMP_LTZ, segmentExtractor STRING, segments ARRAY<BINARY>, "
    "copies BIGINT, copyBytes BIGINT"
)
HISTORY: Final = (
    "version BIGINT, timestamp TIMESTAMP_LTZ, operation STRING, engine STRING, writeId STRING, firstSeq BIGINT, "
    "lastSeq BIGINT, rows MAP<STRING, BIGINT>, files BIGINT, filesRemoved BIGINT"
)
FILES: Final = (
    "layer STRING, id STRING, root STRING, startKey BINARY, endKey BINARY, storedBytes BIGINT, compression STRING, "
    "created TIMESTAMP_LTZ, rows BIGINT, blocks BIGINT, minSeq BIGINT, maxSeq BIGINT, minCreateTs TIMESTAMP_LTZ, "
    "maxCreateTs TIMESTAMP_LTZ, minExpireTs TIMESTAMP_LTZ, maxExpireTs TIMESTAMP_LTZ, features ARRAY<STRING>, "
    "propertiesVersion INT, showsRows BOOLEAN, segment BINARY, copyBytes BIGINT"
)
SEQUENCES: Final = "seq BIGINT, timestamp TIMESTAMP_LTZ"
RUNS: Final = (
    "number INT, layer STRING, files BIGINT, storedBytes BIGINT, startKey BINARY, endKey BINARY, segment BINARY"
)
CHECKPOINTS: Final = "id STRING, name STRING, version BIGINT, created TIMESTAMP_LTZ, expires TIMESTAMP_LTZ"
EXPIRY: Final = (
    "state STRING, expiresFrom TIMESTAMP_LTZ, expiresBefore TIMESTAMP_LTZ, rows BIGINT, storedBytes BIGINT, "
    "walRows BIGINT, walBytes BIGINT"
)


def detail_frame(spark: SparkSession, facts: TableFacts) -> DataFrame:
    """Return one row that describes the table."""
    definition = facts.definition
    row = (
        facts.url,
        facts.kind,
        facts.version,
        [] if definition is None else list(definition.key_columns),
        None if definition is None else definition.key_format,
        None if definition is None else definition.value_format,
        {} if definition is None else dict(definition.properties),
        facts.files,
        facts.stored_bytes,
        facts.l0_views,
        facts.sorted_runs,
        facts.last_seq,
        facts.clock_tick_ms,
        list(facts.versions),
        None if facts.history_floors is None else facts.history_floors.stored_ms,
        None if facts.history_floors is None else facts.history_floors.effective_ms,
        facts.segment_extractor,
        None if facts.segment_extractor is None else [bytes.fromhex(prefix) for prefix in facts.segments],
        facts.copies,
        facts.copy_bytes,
    )
    return local_frame(spark, DETAIL, [row])


def sequences_frame(spark: SparkSession, points: Iterable[SequencePoint]) -> DataFrame:
    """Return the points of the sequence tracker, oldest first."""
    return local_frame(spark, SEQUENCES, [(point.seq, point.time_ms) for point in points])


def history_frame(spark: SparkSession, versions: Iterable[VersionFacts]) -> DataFrame:
    """Return the versions, newest first."""
    rows = [
        (
            facts.version,
            facts.committed_ms,
            facts.operation,
            facts.engine,
            facts.write_id,
            facts.first_seq,
            facts.last_seq,
            dict(facts.rows),
            facts.files,
            facts.files_removed,
        )
        for facts in versions
    ]
    return local_frame(spark, HISTORY, rows)


def checkpoints_frame(spark: SparkSession, checkpoints: Iterable[CheckpointFacts]) -> DataFrame:
    """Return the checkpoints in manifest order; `expires` is null for those that never expire."""
    rows = [(facts.id, facts.name, facts.version, facts.created_ms, facts.expires_ms) for facts in checkpoints]
    return local_frame(spark, CHECKPOINTS, rows)


def files_frame(spark: SparkSession, files: Iterable[FileFacts]) -> DataFrame:
    """Return the files, layer by layer, newest first."""
    rows = [
        (
            facts.layer,
            facts.id,
            facts.root,
            facts.start,
            facts.end,
            facts.stored_bytes,
            facts.compression,
            facts.created_ms,
            facts.rows,
            facts.blocks,
            facts.min_seq,
            facts.max_seq,
            facts.min_create_ms,
            facts.max_create_ms,
            facts.min_expire_ms,
            facts.max_expire_ms,
            None if facts.features is None else list(facts.features),
            facts.properties_version,
            facts.shows_rows,
            facts.segment,
            facts.copy_bytes,
        )
        for facts in files
    ]
    return local_frame(spark, FILES, rows)


def runs_frame(spark: SparkSession, layers: Iterable[LayerFacts]) -> DataFrame:
    """Return the layers, newest first."""
    rows = [
        (facts.number, facts.name, facts.files, facts.stored_bytes, facts.start, facts.end, facts.segment)
        for facts in layers
    ]
    return local_frame(spark, RUNS, rows)


def expiry_frame(spark: SparkSession, report: ExpiryReport) -> DataFrame:
    """Return what expires when: already expired, by period, and never."""
    rows = [
        (part.state, part.start_ms, part.end_ms, part.rows, part.stored_bytes, part.wal_rows, part.wal_bytes)
        for part in report.parts
    ]
    return local_frame(spark, EXPIRY, rows)
