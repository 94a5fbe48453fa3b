"""Every option of reading and writing, stated once: key, type, default, check and documentation.

Keys are camelCase; case and underscores are ignored on input, an unknown key is refused with the nearest known one.
Spark hands over text, `SlateStore` Python values: each parser takes both. Below `spark/` and `cli/` only the typed
objects travel.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeVar

from slatespark.errors import OptionError
from slatespark.option_values import (
    DEFAULT_TTL_MS,
    METADATA_COLUMNS,
    STORAGE_PREFIX,
    MergeOperator,
    Parser,
    named,
    parse_app_id,
    parse_choice,
    parse_count,
    parse_duration_or_none,
    parse_flag,
    parse_key,
    parse_metadata_columns,
    parse_names,
    parse_operator,
    parse_text,
    parse_throughput,
    parse_ttl,
    plain_name,
    unknown_option,
)
from slatespark.ranges import ALL_KEYS, KeyRange, prefix_range
from slatespark.table_properties import property_text
from slatespark.units import parse_bytes, parse_duration_ms, parse_time_ms

COMPRESSIONS: Final = ("none", "snappy", "zlib", "lz4", "zstd")

MIB: Final = 1 << 20


def option(key: str, *, doc: str, parse: Parser, default: Any = dataclasses.MISSING, shown: str | None = None) -> Any:
    """Declare one option as a dataclass field.

    Parameters
    ----------
    key : its camelCase name
    doc : one sentence or two, for the reference page
    parse : (value, key) -> typed value
    default : its value when not given; required without one
    shown : how the reference page writes the default, if not as Python prints it
    """
    metadata = MappingProxyType({"key": key, "doc": doc, "parse": parse, "shown": shown})
    if default is dataclasses.MISSING:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def _internal(key: str) -> Any:
    """Declare an option that our own code hands through Spark; it has no documentation, and no message names it."""
    return option(key, doc="", parse=parse_text, default=None)


def _property_text(value: object, name: str) -> str:
    return property_text(name, value)


def _property(name: str, *, doc: str) -> Any:
    return option(name, doc=f"Table property, at creation: {doc}", parse=_property_text, default=None)


def _path() -> Any:
    return option("path", doc="Location of the table: a local path, or any fsspec URL.", parse=parse_text)


def _wal_path() -> Any:
    return option(
        "walPath",
        doc="Where the database keeps its WAL, if apart from the table: the folder that holds `wal/`.",
        parse=parse_text,
        default=None,
    )


_MERGE_OPERATOR_DOC: Final = (
    "How merge operands fold: `concat`, `sum`, `max`, `min` (8-byte little-endian integers), or `module:function`. "
    "Default: the table's property `mergeOperator`."
)


def _storage() -> Any:
    return dataclasses.field(default_factory=dict, repr=False)  # repr=False: it may hold credentials


Options = TypeVar("Options", bound="ReadOptions | WriteOptions")


def _parse(cls: type[Options], given: Mapping[str, Any]) -> Options:
    """Parse a mapping of options, refusing unknown ones with the nearest known name."""
    fields = {plain_name(f.metadata["key"]): f for f in dataclasses.fields(cls) if f.metadata}
    values: dict[str, Any] = {}
    storage: dict[str, str] = {}
    for key, value in given.items():
        if key.lower().startswith(STORAGE_PREFIX):
            storage[key[len(STORAGE_PREFIX) :].lower()] = value
            continue
        field = fields.get(plain_name(key))
        if field is None:
            raise unknown_option(key, [known.metadata["key"] for known in fields.values() if known.metadata["doc"]])
        if field.name in values:
            raise OptionError(f"Option {field.metadata['key']} is given twice.", todo="Give it once.")
        if value is not None:
            values[field.name] = field.metadata["parse"](value, field.metadata["key"])
    if "path" not in values:
        raise no_path("No path was given.")
    return cls(**values, storage=storage)


def no_path(what: str) -> OptionError:
    """Return the error for a table that is not named by its path; Spark's catalog is the usual way into it."""
    return OptionError(
        what,
        why="Catalog tables are not supported: Spark drops their options.",
        todo="Use load(path), save(path), or a temporary view with OPTIONS (path '...').",
    )


def _key_range(start: bytes | None, end: bytes | None, prefix: bytes | None) -> KeyRange:
    if prefix is not None:
        return prefix_range(prefix)
    return KeyRange(start or b"", end) if start or end is not None else ALL_KEYS


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Options of a read; design 5.1."""

    path: str = _path()
    version_as_of: int | None = option(
        "versionAsOf", doc="Manifest id to read.", parse=parse_count(1, 2**63 - 1), default=None
    )
    timestamp_as_of_ms: int | None = option(
        "timestampAsOf",
        doc="Read the table as it was at an instant, ISO-8601 or epoch ms: the newest version committed at or before "
        "it; on tables with `history=true` each row as of its timestamp; with `clock=custom` by the table's ticks.",
        parse=named(parse_time_ms),
        default=None,
    )
    seq_as_of: int | None = option(
        "seqAsOf",
        doc="Read the table as it was when this was its last sequence number.",
        parse=parse_count(0, 2**63 - 1),
        default=None,
    )
    checkpoint: str | None = option(
        "checkpoint", doc="Checkpoint to read, by id or name.", parse=parse_text, default=None
    )
    now_ms: int | None = option(
        "now",
        doc="The instant at which expiry is judged, ISO-8601 or epoch ms. Default: the system clock or the last clock "
        "tick of the table, whichever is later; for `timestampAsOf` that instant (of plain tables the tick of the "
        "version found, if that is later), for `versionAsOf` and `checkpoint` that manifest's tick. On tables with "
        "`clock=custom` the tick instead of the system clock.",
        parse=named(parse_time_ms),
        default=None,
    )
    columns: tuple[str, ...] | None = option(
        "columns",
        doc="Comma list, case ignored: only these columns are decoded and produced.",
        parse=parse_names,
        default=None,
    )
    filter: str | None = option(
        "filter",
        doc="Comparisons joined by `AND`, on any columns: only rows for which they are true. Those on leading key "
        "columns decide which blocks are read.",
        parse=parse_text,
        default=None,
    )
    pushdown: bool = option(
        "pushdown",
        doc="`true` lets Spark hand over its own `where` as well. Spark 4.3 then returns wrong rows where one `load()` "
        "is used twice.",
        parse=parse_flag,
        default=False,
    )
    start_key: bytes | None = option(
        "startKey", doc="Raw tables: first key, in hexadecimal, inclusive.", parse=parse_key, default=None
    )
    end_key: bytes | None = option(
        "endKey", doc="Raw tables: end of the keys, in hexadecimal, exclusive.", parse=parse_key, default=None
    )
    key_prefix: bytes | None = option(
        "keyPrefix", doc="Raw tables: only keys that start with it, in hexadecimal.", parse=parse_key, default=None
    )
    metadata_columns: tuple[str, ...] = option(
        "metadataColumns",
        doc="`true` or a comma list of `key`, `seq`, `op`, `create_ts`, `expire_ts`: adds `_key`, `_seq`, `_op`, "
        "`_create_ts`, `_expire_ts`. With `columns`, name them there too.",
        parse=parse_metadata_columns,
        default=(),
        shown="`false`",
    )
    read_versions: str = option(
        "readVersions",
        doc="`latest`; `all`: every stored version, tombstones and expired ones included, with metadata columns; or "
        "`intervals`, of history tables: every version that was ever visible, with `_valid_from`, `_valid_to` and "
        "`_is_current`.",
        parse=parse_choice("latest", "all", "intervals"),
        default="latest",
    )
    include_expired: bool = option(
        "includeExpired",
        doc="Show rows past their expiry, as the SlateDB client does.",
        parse=parse_flag,
        default=False,
    )
    include_deleted: bool = option(
        "includeDeleted",
        doc="Show deleted keys, with null values and `_op` = `delete`.",
        parse=parse_flag,
        default=False,
    )
    ignore_undecodable: bool = option(
        "ignoreUndecodable",
        doc="Leave out rows whose bytes do not decode as the columns asked for, and warn of how many they were.",
        parse=parse_flag,
        default=False,
    )
    merge_operator: MergeOperator | None = option(
        "mergeOperator", doc=_MERGE_OPERATOR_DOC, parse=parse_operator, default=None
    )
    split_bytes: int = option(
        "splitSize",
        doc="Stored bytes per read partition.",
        parse=named(parse_bytes),
        default=64 * MIB,
        shown="`64m`",
    )
    read_buffer_bytes: int = option(
        "readBuffer",
        doc="Memory for stored bytes in flight per task, shared by all files it merges.",
        parse=named(parse_bytes),
        default=64 * MIB,
        shown="`64m`",
    )
    pin_ms: int | None = option(
        "pin",
        doc="A duration: what the read needs is kept from garbage collectors for so long, by a checkpoint.",
        parse=parse_duration_or_none,
        default=None,
    )
    wal_path: str | None = _wal_path()
    storage: Mapping[str, str] = _storage()

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> ReadOptions:
        """Return the options that `given` spells out; raises `OptionError`."""
        return _parse(cls, given)

    def __post_init__(self) -> None:
        """Check combinations."""
        if len(given := self._as_of()) > 1:
            raise OptionError(f"{given[0]} and {given[1]} are both given.", todo="Give one of them.")
        if self.key_prefix is not None and (self.start_key is not None or self.end_key is not None):
            raise OptionError("keyPrefix excludes startKey and endKey.", todo="Give either.")
        if self.shows_intervals and self.include_deleted:
            raise OptionError("includeDeleted: a deletion has no interval, it ends one.", todo="Use readVersions=all.")
        if self.read_versions == "all" and not self.metadata_columns:
            object.__setattr__(self, "metadata_columns", METADATA_COLUMNS)

    def _as_of(self) -> list[str]:
        """Return the names of the options given that choose a state of the past."""
        choices = {
            "versionAsOf": self.version_as_of,
            "timestampAsOf": self.timestamp_as_of_ms,
            "seqAsOf": self.seq_as_of,
            "checkpoint": self.checkpoint,
        }
        return [name for name, value in choices.items() if value is not None]

    @property
    def reads_past(self) -> bool:
        """Whether a state of the past is asked for, not the newest one."""
        return bool(self._as_of())

    @property
    def shows_intervals(self) -> bool:
        """Whether rows come with the time in which they were valid."""
        return self.read_versions == "intervals"

    @property
    def key_range(self) -> KeyRange:
        """The keys asked for."""
        return _key_range(self.start_key, self.end_key, self.key_prefix)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Options of a write; design 5.2."""

    path: str = _path()
    operation: str = option(
        "operation",
        doc="`upsert`, `delete` (the key column suffices) or `merge` (values are operands).",
        parse=parse_choice("upsert", "delete", "merge"),
        default="upsert",
    )
    op_column: str | None = option(
        "opColumn",
        doc="Column that says `put`, `delete` or `merge` for each row; not stored.",
        parse=parse_text,
        default=None,
    )
    ttl_ms: int | None = option(
        "ttl",
        doc="Time to live of every row of the write: `7d`, `90m`, `P7D`, a number of ms; `none` for no expiry; "
        "`default` for the table's `defaultTtl`.",
        parse=parse_ttl,
        default=DEFAULT_TTL_MS,
        shown="`default`",
    )
    ttl_column: str | None = option(
        "ttlColumn",
        doc="Column with a time to live per row: a whole number of ms, or a day-time interval; null for the write's "
        "`ttl`. Not stored.",
        parse=parse_text,
        default=None,
    )
    expire_at_column: str | None = option(
        "expireAtColumn",
        doc="Column with the instant at which each row expires, a TIMESTAMP; null for the write's `ttl`. Not stored.",
        parse=parse_text,
        default=None,
    )
    timestamp_ms: int | None = option(
        "timestamp",
        doc="The commit time of all rows of the write, ISO-8601 or epoch ms, which TTLs count from: not before the "
        "table's last clock tick, not in the future. Default: the system clock. Tables with `clock=custom` need it; "
        "there it may be in the future. On history tables it may be of the past, but not before what is stored of any "
        "key of the write.",
        parse=named(parse_time_ms),
        default=None,
    )
    timestamp_column: str | None = option(
        "timestampColumn",
        doc="History tables: column with the time of each row, a TIMESTAMP or a BIGINT of ms since 1970; parts of a "
        "millisecond are cut off. Several versions of a key may be in one write; of two with the same time the later "
        "row is kept, or the one with the highest `sequenceColumn`. Stored like any column of the table.",
        parse=parse_text,
        default=None,
    )
    ttl_from: str = option(
        "ttlFrom",
        doc="What a TTL counts from: `row`, the time of the row; or `write`, the time by the clock at which it is "
        "written.",
        parse=parse_choice("row", "write"),
        default="row",
    )
    key_columns: tuple[str, ...] | None = option(
        "keyColumns",
        doc="Comma list: creates a typed table with these key columns, in this order; on an existing table it must "
        "agree.",
        parse=parse_names,
        default=None,
    )
    key_format: str | None = option(
        "keyFormat",
        doc="At creation of a typed table: `tuple`, or `utf8` or `raw` for a single STRING or BINARY column.",
        parse=parse_choice("tuple", "utf8", "raw"),
        default=None,
        shown="`tuple`",
    )
    value_format: str | None = option(
        "valueFormat",
        doc="At creation of a typed table: `avro`, `json`, or `utf8` or `raw` for a single STRING or BINARY column.",
        parse=parse_choice("avro", "json", "utf8", "raw"),
        default=None,
        shown="`avro`",
    )
    merge_schema: bool = option(
        "mergeSchema",
        doc="Add columns that the table lacks, widen types, and store nulls for columns that the rows lack.",
        parse=parse_flag,
        default=False,
    )
    sequence_column: str | None = option(
        "sequenceColumn",
        doc="Of several rows of one key in this write the one with the highest value in this column wins; default: the "
        "row of the later partition, in it the later row.",
        parse=parse_text,
        default=None,
    )
    replace_where: str | None = option(
        "replaceWhere",
        doc="With mode `overwrite`: replaces the rows of an interval of keys only. Comparisons on leading key columns, "
        "joined by `AND`, name it: `=` or `IN` on all but the last of them. Rows outside of it are refused.",
        parse=parse_text,
        default=None,
    )
    start_key: bytes | None = option(
        "startKey",
        doc="Raw tables, with mode `overwrite`: first key of the interval to replace, in hexadecimal, inclusive.",
        parse=parse_key,
        default=None,
    )
    end_key: bytes | None = option(
        "endKey",
        doc="Raw tables, with mode `overwrite`: end of the interval to replace, in hexadecimal, exclusive.",
        parse=parse_key,
        default=None,
    )
    key_prefix: bytes | None = option(
        "keyPrefix",
        doc="Raw tables, with mode `overwrite`: all keys that start with it are replaced, in hexadecimal.",
        parse=parse_key,
        default=None,
    )
    txn_app_id: str | None = option(
        "txnAppId",
        doc="Together with `txnVersion`: names the write; one that was committed under this pair before is skipped. "
        "The name of the job that writes.",
        parse=parse_app_id,
        default=None,
    )
    txn_version: int | None = option(
        "txnVersion",
        doc="Number of the write among those of its `txnAppId`, such as that of a batch; in any order.",
        parse=parse_count(0, 2**63 - 1),
        default=None,
    )
    if_last_seq: int | None = option(
        "ifLastSeq",
        doc="Commit only if nothing was committed above this sequence number: `resolve().seq` of what was read, not "
        "the `_seq` of a row. Each commit moves it, a compaction (`autoCompact` too) as well.",
        parse=parse_count(0, 2**63 - 1),
        default=None,
    )
    read_set: str | None = _internal("readSet")
    default_ttl: str | None = _property("defaultTtl", doc="the `ttl` of writes that give none.")
    retention: str | None = _property("retention", doc="how long after its last upsert a row is kept.")
    history: str | None = _property(
        "history", doc="`true` keeps every version of a row, at times that writes may give; never changes."
    )
    hold_history: str | None = _property(
        "holdHistory",
        doc="history tables: `true` keeps the schedulers of SlateDB clients from compacting what stands, from the next "
        "commit on.",
    )
    version_retention: str | None = _property("versionRetention", doc="how long replaced versions stay readable.")
    clock: str | None = _property(
        "clock", doc="`system`, or `custom`: every write gives its `timestamp`, and reads judge expiry at the last one."
    )
    periodic_compaction_interval: str | None = _property(
        "periodicCompactionInterval", doc="age at which `compact --due` rewrites files that may hold expired rows."
    )
    auto_compact: str | None = _property("autoCompact", doc="whether writes that leave many small runs merge them.")
    merge_operator: MergeOperator | None = option(
        "mergeOperator", doc=_MERGE_OPERATOR_DOC, parse=parse_operator, default=None
    )
    compression: str = option(
        "compression",
        doc="Codec of the new files: `none`, `snappy`, `lz4`, `zlib`, `zstd`.",
        parse=parse_choice(*COMPRESSIONS),
        default="none",
    )
    block_bytes: int = option(
        "blockSize", doc="Size of a data block, 1k to 64k.", parse=named(parse_bytes), default=4096, shown="`4k`"
    )
    sst_bytes: int = option(
        "sstSize", doc="Size at which a new file is begun.", parse=named(parse_bytes), default=64 * MIB, shown="`64m`"
    )
    bloom_bits_per_key: int = option(
        "bloomBitsPerKey", doc="Bits per key of the bloom filters; 0 writes none.", parse=parse_count(0, 64), default=10
    )
    write_buffer_bytes: int = option(
        "writeBuffer",
        doc="Rows a task holds in memory before it sorts them and spills them to local disk.",
        parse=named(parse_bytes),
        default=64 * MIB,
        shown="`64m`",
    )
    throughput_bytes_per_s: int | None = option(
        "throughputMBPerSec",
        doc="How fast the files of the write are uploaded, all its tasks together, in millions of bytes per second; "
        "`auto` for the rate at which the last reap of the table deleted. Default: as fast as it goes.",
        parse=parse_throughput,
        default=None,
    )
    if_exists: str | None = option(
        "ifExists",
        doc="What a write to an existing table does instead of its mode: `error` or `ignore`.",
        parse=parse_choice("error", "ignore"),
        default=None,
    )
    if_client_active: str = option(
        "ifClientActive",
        doc="`fail` refuses to commit when a SlateDB client was active on the table during the write, `fence` goes on "
        "and shuts that client out.",
        parse=parse_choice("fail", "fence"),
        default="fail",
    )
    gc_min_age_ms: int = option(
        "gcMinAge",
        doc="Minimum age at which the table's garbage collector may remove unreferenced files.",
        parse=named(parse_duration_ms),
        default=300_000,
        shown="`300s`",
    )
    rewrite_limit_bytes: int = option(
        "commitRewriteLimit",
        doc="How many bytes of new files a commit may rewrite to move them above a concurrent commit.",
        parse=named(parse_bytes),
        default=1 << 30,
        shown="`1g`",
    )
    wal_path: str | None = _wal_path()
    storage: Mapping[str, str] = _storage()

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> WriteOptions:
        """Return the options that `given` spells out; raises `OptionError`."""
        return _parse(cls, given)

    def __post_init__(self) -> None:
        """Check combinations."""
        if not 1024 <= self.block_bytes <= 65536:
            raise OptionError(f"blockSize: {self.block_bytes} is not acceptable.", todo="Give 1k to 64k.")
        if self.op_column is not None and self.operation != "upsert":
            raise OptionError("opColumn and operation are both given.", todo="Give one of them.")
        if self.ttl_column is not None and self.expire_at_column is not None:
            raise OptionError("ttlColumn and expireAtColumn are both given.", todo="Give one of them.")
        if self.timestamp_column is not None and self.timestamp_ms is not None:
            raise OptionError("timestampColumn and timestamp are both given.", todo="Give one of them.")
        if (self.txn_app_id is None) != (self.txn_version is None):
            alone = "txnVersion" if self.txn_app_id is None else "txnAppId"
            raise OptionError(f"{alone} is given alone.", todo="Give txnAppId and txnVersion, or neither.")
        given = self.given_keys
        if self.key_prefix is not None and len(given) > 1:
            raise OptionError("keyPrefix excludes startKey and endKey.", todo="Give either.")
        if self.replace_where is not None and given:
            raise OptionError(f"replaceWhere and {next(iter(given))} are both given.", todo="Give one of them.")

    @property
    def txn(self) -> tuple[str, int] | None:
        """The name of an idempotent write; None for other writes."""
        if self.txn_app_id is None or self.txn_version is None:
            return None
        return self.txn_app_id, self.txn_version

    @property
    def given_keys(self) -> dict[str, bytes]:
        """The options given that name keys by their bytes."""
        choices = {"startKey": self.start_key, "endKey": self.end_key, "keyPrefix": self.key_prefix}
        return {name: key for name, key in choices.items() if key is not None}

    @property
    def key_range(self) -> KeyRange:
        """The keys that these options name."""
        return _key_range(self.start_key, self.end_key, self.key_prefix)

    @property
    def properties(self) -> dict[str, str]:
        """The table properties among the options."""
        given = {
            field.metadata["key"]: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.metadata.get("parse") is _property_text
        }
        return {name: text for name, text in given.items() if text is not None}


def option_rows(cls: type[ReadOptions | WriteOptions]) -> list[tuple[str, str, str]]:
    """Return (key, default, documentation) of every option, for the reference page."""
    rows = []
    for field in dataclasses.fields(cls):
        if not field.metadata or not field.metadata["doc"]:
            continue
        default = field.metadata["shown"]
        if default is None:
            absent = field.default is dataclasses.MISSING or field.default is None
            default = "" if absent else f"`{str(field.default).lower()}`"
        rows.append((field.metadata["key"], default, field.metadata["doc"]))
    rows.append(
        (f"{STORAGE_PREFIX}*", "", "Handed to the storage backend; `storage.root` is where external paths start.")
    )
    return rows


def refuse_filter(options: Mapping[str, Any]) -> None:
    """Refuse the read option `filter` beside a condition, which is one; raises `OptionError`."""
    if any(plain_name(name) == "filter" for name in options):
        raise OptionError("where and filter are both given.", todo="Join them by AND.")
