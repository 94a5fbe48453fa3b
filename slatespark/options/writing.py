"""Options of a write, stated once: key, type, default, check, documentation, and the calls that take each."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from slatespark.errors import OptionError
from slatespark.options.fields import (
    MERGE_OPERATOR_DOC,
    Call,
    changed_options,
    find_other,
    option,
    option_keys,
    parse_options,
    path_option,
    storage_options,
    wal_path_option,
    with_common,
)
from slatespark.options.properties import property_text
from slatespark.options.values import (
    DEFAULT_TTL_MS,
    MIB,
    MergeOperator,
    both_given,
    given_keys_of,
    is_clock,
    key_range_of,
    parse_app_id,
    parse_choice,
    parse_clock,
    parse_count,
    parse_duration,
    parse_flag,
    parse_key,
    parse_names,
    parse_natural,
    parse_operator,
    parse_size,
    parse_text,
    parse_throughput,
    parse_time,
    parse_ttl,
    refuse_prefix_with_bounds,
)
from slatespark.ranges import KeyRange

_WRITE: Final = (Call.WRITE,)
_ROWS: Final = (Call.WRITE, Call.SST_WRITER, Call.TRANSACTION_WRITE)  # options of rows
_UPDATES: Final = (Call.UPDATE, Call.MERGE)
_CHANGES: Final = (Call.DELETE, *_UPDATES)  # writes of rows that the table selects
_COMMIT: Final = (Call.WRITE, Call.INGEST, Call.BEGIN, *_CHANGES)  # options of the commit
_RANGES: Final = (Call.DELETE_RANGE, Call.DELETE_HISTORY)
_REMOVALS: Final = (*_RANGES, Call.RESTORE, Call.TRIM, Call.ERASE)  # commits that take rows away
_ONCE: Final = (*_COMMIT, *_RANGES)  # options that identify a write
_KEYS: Final = (Call.WRITE, Call.COMPACT, *_RANGES, Call.ERASE, Call.ABSENCE)  # options that select keys
_BESIDE: Final = (Call.WRITE, Call.DELETE, Call.COMPACT, Call.UPKEEP, Call.DELETE_RANGE)  # what a client commits for us
_MERGES: Final = (*_COMMIT, Call.TRANSACTION_WRITE, Call.TRANSACTION_DELETE, Call.COMPACT, Call.WORKER, Call.UPKEEP)
_SORTS: Final = (*_MERGES, Call.REAP, Call.SST_WRITER, Call.DELETE_HISTORY)
_SEVERAL_FILES: Final = (*_MERGES, Call.REAP, *_REMOVALS)
_FILES: Final = (*_SEVERAL_FILES, Call.SST_WRITER)  # options of every new file


def _clock_or_property(value: object, name: str) -> str:
    return parse_clock(value, name) if is_clock(value) else property_text(value, name)


def _property(name: str, *, doc: str) -> Any:
    return option(name, doc=f"Table property, at creation: {doc}", parse=property_text, calls=_WRITE)


def _declaration(name: str, *, doc: str) -> Any:
    """Declare a part of the segment extractor, which also a write to an existing table may give."""
    return option(
        name,
        doc=f"Table property, at creation: {doc}. Of a table that another client created: for this write.",
        parse=property_text,
        calls=(*_COMMIT, *_REMOVALS),
    )


def require_mode(mode: object) -> None:
    """Raise `OptionError` if the mode of a write is neither `append` nor `overwrite`."""
    if mode not in ("append", "overwrite"):
        raise OptionError(f"mode: {mode!r} is not valid.", todo="Choose append or overwrite.")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Options of a write."""

    path: str = path_option(calls=_WRITE)
    operation: str = option(
        "operation",
        doc="`upsert`, `delete` (the key columns suffice) or `merge` (values are operands).",
        parse=parse_choice("upsert", "delete", "merge"),
        calls=_ROWS,
        default="upsert",
    )
    op_column: str | None = option(
        "opColumn",
        doc="Column with the operation of each row: `put`, `delete` or `merge`. Not stored.",
        parse=parse_text,
        calls=_ROWS,
    )
    ttl_ms: int | None = option(
        "ttl",
        doc="Time to live of all rows of the write: `7d`, `90m`, `P7D` or a number of ms. `none`: no expiry. "
        "`default`: the table's `defaultTtl`.",
        parse=parse_ttl,
        calls=(*_ROWS, *_UPDATES),
        default=DEFAULT_TTL_MS,
        shown="`default`",
    )
    ttl_column: str | None = option(
        "ttlColumn",
        doc="Column with the time to live of each row: a whole number of ms, or a day-time interval. Null means the "
        "write's `ttl`. Not stored.",
        parse=parse_text,
        calls=_ROWS,
    )
    expire_at_column: str | None = option(
        "expireAtColumn",
        doc="Column with the instant at which each row expires, a TIMESTAMP. Null means the write's `ttl`. Not stored.",
        parse=parse_text,
        calls=_ROWS,
    )
    timestamp_ms: int | None = option(
        "timestamp",
        doc="Commit time of all rows of the write, ISO-8601 or epoch ms. TTLs count from it. Default: the system "
        "clock. It must not be in the future, nor before the table's last clock tick. Tables with `clock=custom` "
        "require it and allow it to be in the future. On history tables it may be in the past, but not before the "
        "stored versions of the keys of the write.",
        parse=parse_time,
        calls=(Call.WRITE, *_CHANGES, Call.SST_WRITER, Call.INGEST, Call.DELETE_HISTORY),
    )
    timestamp_column: str | None = option(
        "timestampColumn",
        doc="History tables: column with the time of each row, a TIMESTAMP or a BIGINT of ms since 1970, kept in ms. "
        "One write may hold several versions of a key. Of versions with the same time the last row is kept, or the one "
        "with the highest `sequenceColumn`, without which different times within one ms are refused. Stored like any "
        "column of the table.",
        parse=parse_text,
        calls=(Call.WRITE, *_UPDATES, Call.SST_WRITER),
    )
    ttl_from: str = option(
        "ttlFrom",
        doc="Start of a TTL: `row`, the time of the row, or `write`, the clock time at which it is written.",
        parse=parse_choice("row", "write"),
        calls=(*_ROWS, *_UPDATES),
        default="row",
    )
    key_columns: tuple[str, ...] | None = option(
        "keyColumns",
        doc="Comma-separated: creates a typed table with these key columns, in this order. On an existing table they "
        "must match.",
        parse=parse_names,
        calls=_WRITE,
    )
    key_format: str | None = option(
        "keyFormat",
        doc="For a new typed table: `tuple`, or `utf8` or `raw` for a single STRING or BINARY column.",
        parse=parse_choice("tuple", "utf8", "raw"),
        calls=_WRITE,
        shown="`tuple`",
    )
    value_format: str | None = option(
        "valueFormat",
        doc="For a new typed table: `avro`, `json`, or `utf8` or `raw` for a single STRING or BINARY column.",
        parse=parse_choice("avro", "json", "utf8", "raw"),
        calls=_WRITE,
        shown="`avro`",
    )
    merge_schema: bool = option(
        "mergeSchema",
        doc="Add columns that the table lacks, widen types, and store nulls in columns that the rows lack.",
        parse=parse_flag,
        calls=(Call.WRITE, Call.MERGE, Call.INGEST),
        default=False,
    )
    sequence_column: str | None = option(
        "sequenceColumn",
        doc="Of several rows with one key in a write, the one with the highest value in this column wins. Default: the "
        "last row of the last partition.",
        parse=parse_text,
        calls=_ROWS,
    )
    replace_where: str | None = option(
        "replaceWhere",
        doc="With mode `overwrite`: replaces only the rows in one or several key ranges. Comparisons on leading "
        "key columns, joined by `AND` and `OR`, give them, with `=` or `IN` on all but the last column that an "
        "alternative names. Rows outside of them are refused.",
        parse=parse_text,
        calls=_WRITE,
    )
    start_key: bytes | None = option(
        "startKey",
        doc="Raw tables, with mode `overwrite`: first key of the interval to replace, in hexadecimal, inclusive.",
        parse=parse_key,
        calls=_KEYS,
    )
    end_key: bytes | None = option(
        "endKey",
        doc="Raw tables, with mode `overwrite`: end key of the interval to replace, in hexadecimal, exclusive.",
        parse=parse_key,
        calls=_KEYS,
    )
    key_prefix: bytes | None = option(
        "keyPrefix",
        doc="Raw tables, with mode `overwrite`: all keys with this prefix are replaced, in hexadecimal.",
        parse=parse_key,
        calls=_KEYS,
    )
    txn_app_id: str | None = option(
        "txnAppId",
        doc="Name of the writing job. Together with `txnVersion` it identifies the write; a write that was already "
        "committed under this pair is skipped. At most 512 bytes of UTF-8, not beginning with `stream:`.",
        parse=parse_app_id,
        calls=_ONCE,
    )
    txn_version: int | None = option(
        "txnVersion",
        doc="Number of the write within its `txnAppId`, such as a batch number. Any order is allowed.",
        parse=parse_natural,
        calls=_ONCE,
    )
    if_last_seq: int | None = option(
        "ifLastSeq",
        doc="Commit only if nothing was committed above this sequence number: `resolve().seq` of the read, not the "
        "`_seq` of a row. Every commit raises it, including compactions (also those of `autoCompact`), but for loads "
        "that a live client commits (`cooperate`): beside these, use a transaction.",
        parse=parse_natural,
        calls=(Call.WRITE, *_CHANGES, Call.INGEST, *_REMOVALS),
    )
    # What slatespark passes through Spark to itself: not documented, and in no message.
    read_set: str | None = option("readSet", doc="", parse=parse_text, calls=_WRITE)
    default_ttl: str | None = _property("defaultTtl", doc="`ttl` of writes that give none.")
    retention: str | None = _property("retention", doc="how long a row is kept after its last upsert.")
    retention_from: str | None = _property(
        "retentionFrom",
        doc="on history tables, where `retention` starts: `row`, the time of the row, or `write`, the clock time at "
        "which it is written. It cannot be changed.",
    )
    history: str | None = _property(
        "history", doc="`true` keeps every version of a row, at times that writes may give. It cannot be changed."
    )
    hold_history: str | None = _property(
        "holdHistory",
        doc="on history tables, `true` keeps the schedulers of SlateDB clients from compacting existing data, from the "
        "next commit on.",
    )
    history_retention: str | None = _property(
        "historyRetention",
        doc="on history tables, how far back reads of the newest state reach; the history floor follows.",
    )
    version_retention: str | None = _property("versionRetention", doc="how long replaced versions remain readable.")
    clock: str | None = option(
        "clock",
        doc="Clock of the write, instead of the system clock: `module:function`, as for reads. Or the table property, "
        "at creation: `system`, or `custom`: every write gives its `timestamp`, and reads evaluate expiry at the last "
        "one.",
        parse=_clock_or_property,
        calls=_WRITE,
    )
    periodic_compaction_interval: str | None = _property(
        "periodicCompactionInterval", doc="age at which files that may hold expired rows are due for a rewrite."
    )
    segment_extractor: str | None = _declaration(
        "segmentExtractor", doc="name of the segment extractor, as SlateDB clients give it"
    )
    segment_prefix_length: str | None = _declaration(
        "segmentPrefixLength", doc="length of the prefixes of keys that make the segments, in bytes: 1 to 65535"
    )
    segment_delimiter: str | None = _declaration(
        "segmentDelimiter",
        doc="ends the prefix of each key and belongs to it, as text or as bytes like `X'00'`",
    )
    auto_compact: str | None = _property(
        "autoCompact", doc="whether writes that leave 16 or more runs below 16 MiB compact them."
    )
    columnar: str | None = _property(
        "columnar",
        doc="`true` lets compactions write a Parquet copy beside each SST of the lowest run; `seq` stores `_seq` too.",
    )
    merge_operator: MergeOperator | None = option(
        "mergeOperator",
        doc=MERGE_OPERATOR_DOC,
        parse=parse_operator,
        calls=(*_MERGES, Call.SST_WRITER, Call.DELETE_HISTORY),
    )
    compression: str = option(
        "compression",
        doc="Codec of new files: `none`, `snappy`, `lz4`, `zlib` or `zstd`.",
        parse=parse_choice("none", "snappy", "zlib", "lz4", "zstd"),
        calls=_FILES,
        default="none",
    )
    block_bytes: int = option(
        "blockSize",
        doc="Size of a data block, 1k to 64k.",
        parse=parse_size,
        calls=_FILES,
        default=4096,
        shown="`4k`",
    )
    sst_bytes: int = option(
        "sstSize",
        doc="Size at which the next file is started.",
        parse=parse_size,
        calls=_SEVERAL_FILES,
        default=64 * MIB,
        shown="`64m`",
    )
    bloom_bits_per_key: int = option(
        "bloomBitsPerKey",
        doc="Bits per key of the bloom filters, 0 to 64; 0 for no filters. Files below 1,000 rows get none.",
        parse=parse_count(0, 64),
        calls=_FILES,
        default=10,
    )
    write_buffer_bytes: int = option(
        "writeBuffer",
        doc="Rows a task holds in memory before it sorts them and spills them to local disk.",
        parse=parse_size,
        calls=_SORTS,
        default=64 * MIB,
        shown="`64m`",
    )
    throughput_bytes_per_s: int | None = option(
        "throughputMBPerSec",
        doc="Upload rate of the write over all its tasks, in millions of bytes per second: 0.001 to 1000000. `auto`: "
        "the rate at which the last reap of the table deleted. Default: no limit.",
        parse=parse_throughput,
        calls=(Call.WRITE, *_CHANGES, Call.INGEST, Call.DELETE_HISTORY),
    )
    if_exists: str | None = option(
        "ifExists",
        doc="Action of a write to an existing table, instead of its mode: `error` or `ignore`.",
        parse=parse_choice("error", "ignore"),
        calls=_WRITE,
    )
    if_client_active: str = option(
        "ifClientActive",
        doc="`fail` refuses to commit if a SlateDB client was active on the table during the write. `fence` commits "
        "and fences that client. `cooperate` hands the rows to the client, which commits them itself and continues "
        "undisturbed; for upserts, deletes of keys, merge operands, compactions, and dropping one segment.",
        parse=parse_choice("fail", "fence", "cooperate"),
        calls=(*_COMMIT, Call.REAP, Call.COMPACT, Call.UPKEEP, *_REMOVALS),
        default="fail",
    )
    client_timeout_ms: int = option(
        "clientTimeout",
        doc="With `ifClientActive=cooperate`: how long the client may take to answer, and to flush rows that it "
        "acknowledged before the write.",
        parse=parse_duration,
        calls=_BESIDE,
        default=30_000,
        shown="`30s`",
    )
    unflushed_rows: str = option(
        "unflushedRows",
        doc="With `ifClientActive=cooperate`: rows that the client acknowledged before the write, with keys of the "
        "write, and that it has not flushed within `clientTimeout`. `fail` refuses the write; `win` lets these rows "
        "win over those of the write.",
        parse=parse_choice("fail", "win"),
        calls=(Call.WRITE, Call.DELETE, Call.DELETE_RANGE),
        default="fail",
    )
    gc_min_age_ms: int = option(
        "gcMinAge",
        doc="Minimum age at which the table's garbage collector may delete unreferenced files.",
        parse=parse_duration,
        calls=(*_COMMIT, Call.REAP, Call.UPKEEP, Call.RESTORE, Call.TRIM, Call.ERASE, Call.DELETE_HISTORY),
        default=300_000,
        shown="`300s`",
    )
    rewrite_limit_bytes: int = option(
        "commitRewriteLimit",
        doc="Bytes of new files that a commit may rewrite to move them above a concurrent commit.",
        parse=parse_size,
        calls=(*_COMMIT, Call.REAP, Call.UPKEEP, Call.DELETE_HISTORY),
        default=1 << 30,
        shown="`1g`",
    )
    wal_path: str | None = wal_path_option(calls=_WRITE)
    storage: Mapping[str, str] = storage_options()

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> WriteOptions:
        """Return the options of a mapping; raises `OptionError`."""
        return parse_options(cls, given)

    @classmethod
    def of_call(
        cls,
        name: str,
        call: Call,
        common: Mapping[str, Any],
        given: Mapping[str, Any],
        *,
        arguments: Sequence[str] = (),
        why: str,
    ) -> WriteOptions:
        """Return the options of a call that takes some of them.

        Parameters
        ----------
        name : the name of the call, for messages
        common : path and storage
        given : the further options of the call
        arguments : what the call takes besides, for the nearest name of a misspelt one
        why : it takes no others, a sentence

        Raises
        ------
        OptionError
            When one is unknown, malformed, or would have no effect.
        """
        taken = option_keys(cls, call)
        if (other := find_other(cls, given, taken, arguments)) is not None:
            todo = f"Leave it out; {name} takes {', '.join(taken)}."
            raise OptionError(f"{name}: {other} does not apply.", why=why, todo=todo)
        return cls.parse(with_common(common, given))

    def __post_init__(self) -> None:
        """Check combinations."""
        if not 1024 <= self.block_bytes <= 65536:
            raise OptionError(f"blockSize: {self.block_bytes} is out of range.", todo="Give 1k to 64k.")
        if self.op_column is not None and self.operation != "upsert":
            raise both_given("opColumn", "operation")
        if self.operation == "delete" and (expiry := changed_options(self, ("ttl_ms", "ttl_from"))):
            raise OptionError(f"{expiry[0]} is given for a deletion.", why="It never expires.", todo="Leave it out.")
        if self.ttl_column is not None and self.expire_at_column is not None:
            raise both_given("ttlColumn", "expireAtColumn")
        if self.timestamp_column is not None and self.timestamp_ms is not None:
            raise both_given("timestampColumn", "timestamp")
        if (self.txn_app_id is None) != (self.txn_version is None):
            alone = "txnVersion" if self.txn_app_id is None else "txnAppId"
            raise OptionError(f"{alone} is given alone.", todo="Give both txnAppId and txnVersion, or neither.")
        given = self.given_keys
        refuse_prefix_with_bounds(given)
        if self.replace_where is not None and given:
            raise both_given("replaceWhere", next(iter(given)))

    @property
    def cooperates(self) -> bool:
        """Whether a live client commits the rows."""
        return self.if_client_active == "cooperate"

    @property
    def txn(self) -> tuple[str, int] | None:
        """Name and number of an idempotent write; None for other writes."""
        if self.txn_app_id is None or self.txn_version is None:
            return None
        return self.txn_app_id, self.txn_version

    @property
    def given_keys(self) -> dict[str, bytes]:
        """The given options that select keys by their bytes."""
        return given_keys_of(self.start_key, self.end_key, self.key_prefix)

    @property
    def key_range(self) -> KeyRange:
        """The selected keys."""
        return key_range_of(self.start_key, self.end_key, self.key_prefix)

    @property
    def properties(self) -> dict[str, str]:
        """The table properties among the options."""
        given = {
            field.metadata["key"]: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.metadata.get("parse") in (property_text, _clock_or_property)
        }
        return {name: text for name, text in given.items() if text is not None and not is_clock(text)}
