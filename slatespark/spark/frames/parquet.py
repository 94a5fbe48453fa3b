"""A read as one DataFrame: Spark's Parquet reader takes the columnar copies, slatespark's tasks take the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from operator import and_
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

from slatespark.encoding.column_types import is_variant
from slatespark.encoding.row_codec import RowCodec
from slatespark.options import ReadOptions
from slatespark.options.values import STORAGE_PREFIX
from slatespark.spark.expressions.conditions import is_case_sensitive, is_filter, is_on
from slatespark.spark.frame_columns import quoted
from slatespark.spark.frames.planned_read import plan_frame
from slatespark.spark.pyspark_api import arrow_frame, find_context
from slatespark.spark.session import storageOptions
from slatespark.spark.shown_times import with_bounded_times
from slatespark.spark.table_location import TableLocation
from slatespark.spark.type_mapping import spark_schema
from slatespark.table.clock import Clock
from slatespark.table.columns.nans import has_floats
from slatespark.table.read.arrow import CREATE_TS, EXPIRE_TS, Projection
from slatespark.table.read.parquet_share import ParquetFile, ParquetShare, plan_parquet_share
from slatespark.table.read.reader import ReadPlan, bind_condition, fetch_read_plan
from slatespark.table.read.scan import scan_split
from slatespark.table.read.scan_settings import ScanSettings
from slatespark.table.stores import TableStores
from slatespark.units import MAX_MS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

# Whatever the session says: no file is left out, and nothing leaves rows out that no checksum covers.
_OPTIONS: Final[Mapping[str, str]] = {
    "mergeSchema": "false",
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
    "parquet.page.verify-checksum.enabled": "true",
    "parquet.filter.columnindex.enabled": "false",
    "parquet.filter.dictionary.enabled": "false",
}

# With the first, Spark takes aggregates from statistics, which leave out NaN. With the second, Parquet tests each row,
# and to it -0.0 is not 0.0; only without the vectorized reader, but Spark does without it for some nested columns too.
_REFUSED_SETTINGS: Final = ("spark.sql.parquet.aggregatePushdown", "spark.sql.parquet.recordLevelFilter.enabled")

_STATISTICS: Final = "parquet.filter.stats.enabled"
_LOCAL: Final = "file:"
_GLOB: Final = frozenset("*?[]{}\\")
_SHADOW: Final = "_slatespark_shadow_"
_HASH: Final = f"{_SHADOW}hash"
_FEW_SHARE: Final = 4  # keys that may share a number which rows are looked up by
_US: Final = 1000

_MANY_ROWS: Final = 6_000_000  # of fewer, looking all up takes less time than planning to look up only likely ones
_WORD_BITS: Final = 64
_BITS_PER_KEY: Final = 32  # one in as many numbers that are not keys is looked up all the same
_MAX_BITS: Final = 1 << 21  # fits the cache of a core

_MOST_SENT: Final = 256  # splits of which each task gets all

# So few rows are read where the read is planned: to start a task in Python takes longer.
_FEW_BYTES: Final = 1 << 20  # as stored
_FEW_ROWS_BYTES: Final = 8 << 20  # decoded
_COMMON: Final = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_date32,
    pa.types.is_timestamp,
)


@dataclass(frozen=True, slots=True)
class ParquetRead:
    """How a read is divided between Spark's reader of Parquet and slatespark's tasks.

    Attributes
    ----------
    plan : the plan of the whole read
    share : the division, bound to a version; None if slatespark's tasks read all
    columns : columns that are read, those of the filter included
    where : the option `filter`, which SQL understands as we do; None without one
    reasons : how many files of the lowest runs Spark reads as Parquet, and how many it does not, by reason
    """

    plan: ReadPlan
    share: ParquetShare | None
    columns: tuple[str, ...]
    where: str | None
    reasons: Mapping[str, int]


def refusal(spark: SparkSession, stores: TableStores, options: ReadOptions) -> str | None:
    """Return why Spark's reader of Parquet takes nothing of a read, whatever the table holds; None if it may."""
    if find_context(spark) is None:
        return "Spark Connect plans reads on its server"
    if options.metadata_columns or options.given_keys:
        return "the read has metadata columns, or a range of raw keys"
    if options.read_change_feed or options.read_versions != "latest":
        return "the read shows older versions"
    if (setting := next((name for name in _REFUSED_SETTINGS if is_on(spark, name)), None)) is not None:
        return f"{setting} is set"
    return _inaccessible(spark, stores, options)


def _inaccessible(spark: SparkSession, stores: TableStores, options: ReadOptions) -> str | None:
    """Return why Spark's file systems do not read the objects of a table as we do."""
    url = stores.url
    if _GLOB.intersection(url):
        return "the path has characters that Spark takes for a pattern"
    if url.startswith(_LOCAL):
        return None
    protocol = options.path.partition("://")[0]
    given = {STORAGE_PREFIX + name: value for name, value in options.storage.items()}
    if given and given != storageOptions(spark, options.path):
        return "its storage options are not the session's"
    return None if _has_file_system(spark, protocol) else f"Spark has no file system for {protocol}"


def _has_file_system(spark: Any, protocol: str) -> bool:
    jvm, session = spark._jvm, spark._jsparkSession
    try:
        jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(protocol, session.sessionState().newHadoopConf())
    except Exception:  # whatever Hadoop says of a file system that is missing
        return False
    return True


def plan_parquet_read(spark: SparkSession, stores: TableStores, options: ReadOptions, clock: Clock) -> ParquetRead:
    """Divide a read of the present version; raises as `fetch_read_plan`."""
    plan = fetch_read_plan(stores, options, clock)
    codec = plan.settings.projection.codec
    condition = bind_condition(options, codec)
    tested = () if condition is None else condition.columns
    columns = tuple(dict.fromkeys([*plan.settings.projection.names, *tested]))
    share = plan_parquet_share(stores, plan, options, columns)
    why = None
    if condition is not None and (is_case_sensitive(spark) or not is_filter(options.filter, codec.schema, spark)):
        why = "the filter may mean something else to Spark"
    elif (other := _unread_type(Projection(columns, codec=codec).schema)) is not None:
        why = f"Spark does not read the type of {other} from Parquet as it is stored"
    elif share.files and share.rest_bytes > share.stored_bytes:
        why = "most stored bytes are those of other files"
    elif any(file.has_shadows for file in share.files) and _has_float_keys(codec):
        why = "Spark compares floating-point keys in another way"
    if not share.files or why is not None:
        reasons = share.reasons if why is None else {why: sum(share.reasons.values())}
        return ParquetRead(plan, None, columns, None, reasons)
    return ParquetRead(plan, share, columns, options.filter, share.reasons)


def _has_float_keys(codec: RowCodec) -> bool:
    return any(pa.types.is_floating(item.type) for item in codec.key_fields)


def _unread_type(schema: pa.Schema) -> str | None:
    """Return the first column of a type that Spark stores in Parquet in another way than Arrow."""
    return next((item.name for item in schema if not _is_common(item.type)), None)


def _is_common(kind: pa.DataType) -> bool:
    if is_variant(kind):
        return False
    if kind.num_fields:
        parts = [kind.field(number) for number in range(kind.num_fields)]
        return len({part.name.lower() for part in parts}) == len(parts) and all(_is_common(part.type) for part in parts)
    return any(check(kind) for check in _COMMON)


# --- the DataFrame ----------------------------------------------------------------------------------------------------


def parquet_frame(spark: SparkSession, location: TableLocation, url: str, read: ParquetRead) -> DataFrame | None:
    """Return the rows of a read; None if it is better planned anew, by the data source.

    That sends each task its own split alone, with its rows of the WAL, but has to start a process that plans.

    Parameters
    ----------
    location, url : where the table is, for slatespark's tasks and for Spark's reader
    """
    share = read.share
    if share is None:
        is_small = len(read.plan.splits) <= _MOST_SENT and not read.plan.settings.has_tail
        return plan_frame(spark, location, read.plan) if is_small else None
    settings = share.rest.settings
    names = [quoted(name) for name in settings.projection.names]
    frames: list[DataFrame] = []
    for files in _group_files(share.files, settings):
        rows = _parquet_rows(spark, url, files, read)
        for condition in (_live_condition(settings, files), read.where):
            rows = rows if condition is None else rows.where(condition)
        if files[0].has_shadows:
            rows = _without(rows, share.shadows, sum(file.rows for file in files))
        frames.append(rows.select(names))
    if share.rest.splits:
        frames.append(_rest_frame(spark, location, share))
    return reduce(lambda one, other: one.union(other), frames)


def _rest_frame(spark: SparkSession, location: TableLocation, share: ParquetShare) -> DataFrame:
    rows = _few_rows(location.open(), share)
    if rows is None:
        return plan_frame(spark, location, share.rest)
    return arrow_frame(spark, rows, spark_schema(rows.schema))


def _few_rows(stores: TableStores, share: ParquetShare) -> pa.Table | None:
    """Return the rows of the rest; None if they are many."""
    settings = share.rest.settings
    if settings.has_tail and not settings.wal.sizes:
        return None
    if share.rest_bytes + sum(settings.wal.sizes) > _FEW_BYTES:
        return None
    batches: list[pa.RecordBatch] = []
    held_bytes = 0
    for split in share.rest.splits:
        for batch in with_bounded_times(scan_split(stores, split, settings), settings.projection):
            batches.append(batch)
            held_bytes += batch.nbytes
            if held_bytes > _FEW_ROWS_BYTES:
                return None
    schema = settings.projection.schema
    return pa.Table.from_batches(batches, schema) if batches else schema.empty_table()  # PySpark needs a chunk


def _group_files(files: Iterable[ParquetFile], settings: ScanSettings) -> list[list[ParquetFile]]:
    """Return files in groups that are read in the same way."""

    def kind(file: ParquetFile) -> tuple[bool, bool]:
        return file.has_shadows, _may_mislead(file, settings)

    return [list(group) for _, group in groupby(sorted(files, key=kind), key=kind)]


def _may_mislead(file: ParquetFile, settings: ScanSettings) -> bool:
    """Tell whether rows may pass a condition of Spark although the statistics of their row group do not.

    Parquet leaves NaN out of them, and to Spark it is larger than any number.
    """
    floats = {item.name for item in settings.projection.codec.schema if has_floats(item.type)}
    return bool(floats & file.names) if file.nans is None else bool(floats & file.nans)


def _parquet_rows(spark: SparkSession, url: str, files: Sequence[ParquetFile], read: ParquetRead) -> DataFrame:
    assert read.share is not None
    settings = read.share.rest.settings
    held = frozenset[str]().union(*(file.names for file in files))
    names = [*read.columns, *(settings.projection.codec.key_columns if files[0].has_shadows else ())]
    names += [name for name in (CREATE_TS, EXPIRE_TS) if name in held]
    columns = Projection(tuple(dict.fromkeys(names)), codec=settings.projection.codec).schema
    options = {**_OPTIONS, _STATISTICS: str(not _may_mislead(files[0], settings)).lower()}
    paths = [f"{url}/{file.path}" for file in files]
    return spark.read.schema(spark_schema(columns)).options(**options).parquet(*paths)


def _live_condition(settings: ScanSettings, files: Sequence[ParquetFile]) -> str | None:
    """Return the condition on rows that have not ended, as SQL; None if none has."""
    held = frozenset[str]().union(*(file.names for file in files))
    limits = {
        EXPIRE_TS: None if settings.visibility.include_expired else settings.visibility.now_ms,
        CREATE_TS: settings.retired_ms,
    }
    live = []
    for name, limit_ms in limits.items():
        if limit_ms is not None and name in held:
            limit_us = max(-MAX_MS, min(limit_ms * _US, MAX_MS))  # times of copies lie within these
            live.append(f"({name} IS NULL OR {name} > timestamp_micros({limit_us}))")
    return " AND ".join(live) or None


def _without(rows: DataFrame, shadows: pa.Table, count: int) -> DataFrame:
    """Return rows, `count` of them, whose keys are not among the shadows."""
    names = [f"{_SHADOW}{index}" for index in range(shadows.num_columns)]
    # No SQL text: `quotedRegexColumnNames` makes patterns of names in backticks.
    ones, others = [F.col(quoted(name)) for name in shadows.column_names], [F.col(name) for name in names]
    pairs = list(zip(ones, others, strict=True))
    renamed = shadows.rename_columns(names)
    hidden = arrow_frame(rows.sparkSession, renamed, spark_schema(renamed.schema))
    if any(values.null_count for values in shadows.columns):
        same = [one.eqNullSafe(other) for one, other in pairs]
    elif (number := _most_distinct(shadows)) is not None:
        # Spark looks a number up far faster than a row of several columns. Bounds, which it does not take for columns
        # to look up, compare the rest of the key where the number is found.
        found, other = pairs.pop(number)
        if count >= _MANY_ROWS:
            found = _if_likely(rows.sparkSession, found, shadows.column(number))
        same = [found == other]
        same += [_equal_by_bounds(*pair) for pair in pairs]
    elif len(pairs) == 1:
        same = [one == other for one, other in pairs]
    else:
        hidden = hidden.withColumn(_HASH, F.xxhash64(*others))
        same = [F.xxhash64(*ones) == F.col(_HASH), *(_equal_by_bounds(*pair) for pair in pairs)]
    return rows.join(F.broadcast(hidden), reduce(and_, same), "left_anti")


def _equal_by_bounds(one: Column, other: Column) -> Column:
    return (one >= other) & (one <= other)


def _if_likely(spark: SparkSession, number: Column, known: pa.ChunkedArray) -> Column:
    """Return a number where it may be a known one, and null, which Spark does not look up, where it is none.

    A bit for the last digits of each known number tells most others apart in a third of the time of a lookup.
    """
    bits = max(_WORD_BITS, 1 << (len(known) * _BITS_PER_KEY - 1).bit_length())
    if bits > _MAX_BITS:
        return number
    indices = known.to_numpy().astype(np.int64) & (bits - 1)
    words = np.zeros(bits // _WORD_BITS, np.uint64)
    np.bitwise_or.at(words, indices // _WORD_BITS, np.uint64(1) << (indices % _WORD_BITS).astype(np.uint64))
    held = pa.table({"words": pa.array([words.view(np.int64)], pa.list_(pa.int64()))})
    # A subquery: as a literal, the plan would print it.
    held_words = arrow_frame(spark, held, "words ARRAY<BIGINT>").scalar()
    bit = number.cast("bigint").bitwiseAND(bits - 1)
    word = F.get(held_words, F.shiftright(bit, _WORD_BITS.bit_length() - 1).cast("int"))
    is_likely = F.getbit(word, bit.bitwiseAND(_WORD_BITS - 1).cast("int")) == 1
    return F.when(is_likely, number)


def _most_distinct(keys: pa.Table) -> int | None:
    """Return the index of the integer column that tells keys apart best; None if many keys share each number."""
    counts = {
        index: pc.count_distinct(values).as_py()
        for index, values in enumerate(keys.columns)
        if pa.types.is_integer(values.type)
    }
    best = max(counts, key=counts.__getitem__, default=None)
    return best if best is not None and keys.num_rows <= _FEW_SHARE * counts[best] else None
