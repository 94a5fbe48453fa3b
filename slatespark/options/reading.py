"""Options of a read, stated once: key, type, default, check, documentation, and the calls that take each."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from slatespark.errors import OptionError
from slatespark.options.fields import (
    MERGE_OPERATOR_DOC,
    Call,
    option,
    parse_options,
    path_option,
    storage_options,
    wal_path_option,
)
from slatespark.options.values import (
    METADATA_COLUMNS,
    MIB,
    MergeOperator,
    Parser,
    key_range_of,
    normalize_name,
    parse_choice,
    parse_clock,
    parse_count,
    parse_duration_of,
    parse_duration_or_none,
    parse_flag,
    parse_key,
    parse_metadata_columns,
    parse_names,
    parse_operator,
    parse_size,
    parse_stream_id,
    parse_text,
    parse_time,
)
from slatespark.ranges import KeyRange

_ANY_READ: Final = (Call.READ, Call.TRANSACTION_READ)
_OUTSIDE: Final = (Call.READ,)  # not in a transaction, which fixes the table and the state that its reads see
_VERSION: Final = (Call.READ, Call.AS_OF_JOIN)
_STREAM_FIELDS: Final = (
    "max_files_per_trigger",
    "max_bytes_per_trigger",
    "max_rows_per_trigger",
    "poll_interval_ms",
    "fail_on_data_loss",
    "stream_retention_ms",
    "stream_id",
)
_FEED_FIELDS: Final = (
    "changes",
    "starting_version",
    "starting_timestamp_ms",
    "ending_version",
    "ending_timestamp_ms",
    "starting_bound_inclusive",
    "ending_bound_inclusive",
    "pre_images",
    "expired",
    *_STREAM_FIELDS,
)
_ROWS: Final = (Call.READ, Call.TRANSACTION_READ, Call.AS_OF_JOIN)


def _feed_option(key: str, *, doc: str, parse: Parser, shown: str | None = None) -> Any:
    """Declare an option of the change feed or of a stream of it; None where it is not given."""
    return option(key, doc=doc, parse=parse, calls=_OUTSIDE, default=None, shown=shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Options of a read."""

    path: str = path_option(calls=_OUTSIDE)
    version_as_of: int | None = option(
        "versionAsOf", doc="Manifest id to read.", parse=parse_count(1, 2**63 - 1), calls=_VERSION, default=None
    )
    timestamp_as_of_ms: int | None = option(
        "timestampAsOf",
        doc="Instant to read the table as of, ISO-8601 or epoch ms: the newest version committed at or before it. On "
        "tables with `history=true`, each row as of its timestamp; there together with `versionAsOf`, `checkpoint` or "
        "`seqAsOf`: as it was known then. With `clock=custom`, by the table's clock ticks.",
        parse=parse_time,
        calls=_OUTSIDE,
        default=None,
    )
    seq_as_of: int | None = option(
        "seqAsOf",
        doc="Sequence number to read the table as of: the state in which it was the last one.",
        parse=parse_count(0, 2**63 - 1),
        calls=_VERSION,
        default=None,
    )
    checkpoint: str | None = option(
        "checkpoint", doc="Checkpoint to read, by id or name.", parse=parse_text, calls=_VERSION, default=None
    )
    now_ms: int | None = option(
        "now",
        doc="Instant at which expiry is evaluated, ISO-8601 or epoch ms. Default: the system clock or the table's last "
        "clock tick, whichever is later. With `timestampAsOf`: that instant (on plain tables the tick of the version "
        "found, if later). With `versionAsOf` and `checkpoint`: the tick of that manifest. On tables with "
        "`clock=custom`: the tick instead of the system clock.",
        parse=parse_time,
        calls=_ANY_READ,
        default=None,
    )
    clock: str | None = option(
        "clock",
        doc="Clock of the read, instead of the system clock: `module:function`, which returns ms since 1970. Spark's "
        "processes import it, on executors too. `SlateStore` takes it where it is opened.",
        parse=parse_clock,
        calls=_OUTSIDE,
        default=None,
    )
    columns: tuple[str, ...] | None = option(
        "columns",
        doc="Comma-separated, case-insensitive: only these columns are decoded and returned.",
        parse=parse_names,
        calls=_ROWS,
        default=None,
    )
    filter: str | None = option(
        "filter",
        doc="Comparisons on any columns, joined by `AND`: only rows for which all are true are returned. Comparisons "
        "on leading key columns limit which blocks are read.",
        parse=parse_text,
        calls=_ANY_READ,
        default=None,
    )
    pushdown: bool = option(
        "pushdown",
        doc="`true` lets Spark push down its own `where` as well. Spark 4.3 then returns wrong rows where one `load()` "
        "is used twice.",
        parse=parse_flag,
        calls=_ANY_READ,
        default=False,
    )
    start_key: bytes | None = option(
        "startKey",
        doc="Raw tables: first key, in hexadecimal, inclusive.",
        parse=parse_key,
        calls=_ANY_READ,
        default=None,
    )
    end_key: bytes | None = option(
        "endKey",
        doc="Raw tables: end key, in hexadecimal, exclusive.",
        parse=parse_key,
        calls=_ANY_READ,
        default=None,
    )
    key_prefix: bytes | None = option(
        "keyPrefix",
        doc="Raw tables: only keys with this prefix, in hexadecimal.",
        parse=parse_key,
        calls=_ANY_READ,
        default=None,
    )
    metadata_columns: tuple[str, ...] = option(
        "metadataColumns",
        doc="`true`, or a comma-separated list of `key`, `seq`, `op`, `create_ts` and `expire_ts`: adds the columns "
        "`_key`, `_seq`, `_op`, `_create_ts` and `_expire_ts`. If `columns` is given, list them there as well.",
        parse=parse_metadata_columns,
        calls=_ROWS,
        default=(),
        shown="`false`",
    )
    read_versions: str = option(
        "readVersions",
        doc="`latest`: the visible version of each row. `all`: every stored version, including tombstones and expired "
        "versions, with metadata columns. `intervals`, on history tables: every version that was ever visible, with "
        "`_valid_from`, `_valid_to` and `_is_current`.",
        parse=parse_choice("latest", "all", "intervals"),
        calls=_ANY_READ,
        default="latest",
    )
    include_expired: bool = option(
        "includeExpired",
        doc="Return expired rows, as the SlateDB client does.",
        parse=parse_flag,
        calls=_ROWS,
        default=False,
    )
    include_deleted: bool = option(
        "includeDeleted",
        doc="Return deleted keys, with null values and `_op` = `delete`.",
        parse=parse_flag,
        calls=_ANY_READ,
        default=False,
    )
    ignore_undecodable: bool = option(
        "ignoreUndecodable",
        doc="Skip rows whose bytes do not decode as the requested columns, and warn with their number.",
        parse=parse_flag,
        calls=_ANY_READ,
        default=False,
    )
    merge_operator: MergeOperator | None = option(
        "mergeOperator", doc=MERGE_OPERATOR_DOC, parse=parse_operator, calls=_ROWS, default=None
    )
    read_change_feed: bool = option(
        "readChangeFeed",
        doc="Return what changed between two versions, instead of the rows of one.",
        parse=parse_flag,
        calls=_OUTSIDE,
        default=False,
    )
    changes: str | None = _feed_option(
        "changes",
        doc="Change feed: the kind. `net`: how the last version differs from the first, at most one change of a row. "
        "`log`: every write, in order, with those in the WAL.",
        parse=parse_choice("net", "log"),
        shown="`net`",
    )
    starting_version: int | None = _feed_option(
        "startingVersion",
        doc="Change feed: the first version whose changes are returned.",
        parse=parse_count(1, 2**63 - 1),
    )
    starting_timestamp_ms: int | None = _feed_option(
        "startingTimestamp",
        doc="Change feed: changes committed at or after this instant are returned, ISO-8601 or epoch ms.",
        parse=parse_time,
    )
    ending_version: int | None = _feed_option(
        "endingVersion",
        doc="Change feed: the last version whose changes are returned. Default: the newest.",
        parse=parse_count(1, 2**63 - 1),
    )
    ending_timestamp_ms: int | None = _feed_option(
        "endingTimestamp",
        doc="Change feed: changes committed at or before this instant are returned, ISO-8601 or epoch ms.",
        parse=parse_time,
    )
    starting_bound_inclusive: bool | None = _feed_option(
        "startingBoundInclusive",
        doc="Change feed: `false` leaves out the changes of the starting version or instant itself.",
        parse=parse_flag,
        shown="`true`",
    )
    ending_bound_inclusive: bool | None = _feed_option(
        "endingBoundInclusive",
        doc="Change feed: `false` leaves out the changes of the ending version or instant itself.",
        parse=parse_flag,
        shown="`true`",
    )
    pre_images: bool | None = _feed_option(
        "preImages",
        doc="Change feed: `true` returns `insert`, `update_preimage`, `update_postimage` and `delete`. `false` returns "
        "`upsert` and `delete`, and does not look old rows up.",
        parse=parse_flag,
        shown="`true`",
    )
    expired: str | None = _feed_option(
        "expired",
        doc="Change feed: `delete`: a row that expired or retired in between is a change. `ignore`: it is none; both "
        "versions are judged at the instant of the later one.",
        parse=parse_choice("delete", "ignore"),
        shown="`delete`",
    )
    max_files_per_trigger: int | None = _feed_option(
        "maxFilesPerTrigger",
        doc="Stream: a batch ends after about as many stored bytes as so many files have on average.",
        parse=parse_count(1, 2**63 - 1),
    )
    max_bytes_per_trigger: int | None = _feed_option(
        "maxBytesPerTrigger",
        doc="Stream: a batch ends after about so many stored bytes, which may lie anywhere within a file.",
        parse=parse_size,
    )
    max_rows_per_trigger: int | None = _feed_option(
        "maxRowsPerTrigger",
        doc="Stream: a batch has at most so many changes; those of one key are never in two batches.",
        parse=parse_count(1, 2**63 - 1),
    )
    poll_interval_ms: int | None = _feed_option(
        "pollInterval",
        doc="Stream: how long to wait between two looks for a new version.",
        parse=parse_duration_of(1),
        shown="`1s`",
    )
    fail_on_data_loss: bool | None = _feed_option(
        "failOnDataLoss",
        doc="Stream: `false` goes on with the next version that exists if the one to go on from was collected. What "
        "changed in between is left out. `true` ends the query with an error.",
        parse=parse_flag,
        shown="`true`",
    )
    stream_retention_ms: int | None = _feed_option(
        "streamRetention",
        doc="Stream: how long the versions that it needs to go on are kept after it stopped.",
        parse=parse_duration_of(1000),
        shown="`24h`",
    )
    stream_id: str | None = _feed_option(
        "streamId",
        doc="Stream: names its checkpoints `slatespark/stream/<streamId>`; only one query may use it at a time. "
        "Default: a random name, which the offsets remember.",
        parse=parse_stream_id,
    )
    split_bytes: int = option(
        "splitSize",
        doc="Stored bytes per read partition.",
        parse=parse_size,
        calls=_ROWS,
        default=128 * MIB,
        shown="`128m`",
    )
    read_buffer_bytes: int = option(
        "readBuffer",
        doc="Memory per task for stored bytes in flight, shared by all files that it merges.",
        parse=parse_size,
        calls=_ROWS,
        default=64 * MIB,
        shown="`64m`",
    )
    wal_buffer_bytes: int = option(
        "walBuffer",
        doc="Bytes of the WAL that are decoded and sorted once, when a read of several partitions is planned, and "
        "handed out with them. Each partition decodes a longer WAL by itself. Files whose rows are in the trees do not "
        "count.",
        parse=parse_size,
        calls=_ROWS,
        default=128 * MIB,
        shown="`128m`",
    )
    pin_ms: int | None = option(
        "pin",
        doc="Duration for which a checkpoint protects the objects of the read from garbage collection.",
        parse=parse_duration_or_none,
        calls=(Call.READ, Call.BEGIN, Call.AS_OF_JOIN),
        default=None,
    )
    wal_path: str | None = wal_path_option(calls=_OUTSIDE)
    storage: Mapping[str, str] = storage_options()

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> ReadOptions:
        """Return the options of a mapping; raises `OptionError`."""
        return parse_options(cls, given)

    def __post_init__(self) -> None:
        """Check combinations."""
        if len(given := self.version_choices) > 1:
            raise OptionError(f"{given[0]} and {given[1]} are both given.", todo="Give one of them.")
        if self.key_prefix is not None and (self.start_key is not None or self.end_key is not None):
            raise OptionError("keyPrefix excludes startKey and endKey.", todo="Give one or the other.")
        if self.shows_intervals and self.include_deleted:
            raise OptionError(
                "includeDeleted and readVersions=intervals are both given.",
                why="A deletion ends an interval and has none.",
                todo="Use readVersions=all.",
            )
        self._check_changes()
        if self.read_versions == "all" and not self.metadata_columns:
            object.__setattr__(self, "metadata_columns", METADATA_COLUMNS)

    def _check_changes(self) -> None:
        """Check the options of the change feed, and that it is asked for where there are any."""
        feed = {item.metadata["key"]: getattr(self, item.name) for item in fields(self) if item.name in _FEED_FIELDS}
        given = {name: value for name, value in feed.items() if value is not None}
        if not self.read_change_feed:
            if given:
                raise OptionError(
                    f"{next(iter(given))} is an option of the change feed.", todo="Add readChangeFeed=true."
                )
            return
        others = {
            **dict.fromkeys(self.version_choices, True),
            "timestampAsOf": self.timestamp_as_of_ms is not None,
            "now": self.now_ms is not None,
            "readVersions": self.read_versions != "latest",
            "includeDeleted": self.include_deleted,
            "ignoreUndecodable": self.ignore_undecodable,
            "pushdown": self.pushdown,
        }
        for name, is_given in others.items():
            if is_given:
                raise OptionError(f"{name} and readChangeFeed are both given.", todo="Give one of them.")
        self._refuse_with_log(given)
        for pair in (("startingVersion", "startingTimestamp"), ("endingVersion", "endingTimestamp")):
            if given.keys() >= set(pair):
                raise OptionError(f"{pair[0]} and {pair[1]} are both given.", todo="Give one of them.")
        for kind in ("Version", "Timestamp"):
            start, end = given.get(f"starting{kind}"), given.get(f"ending{kind}")
            if start is not None and end is not None and start > end:
                raise OptionError(
                    f"starting{kind} {start} is after ending{kind} {end}.", todo="Give the earlier one as the start."
                )

    def refuse_for_batch(self) -> None:
        """Raise `OptionError` where the changes between two versions cannot be read with these options."""
        for item in fields(self):
            if item.name in _STREAM_FIELDS and getattr(self, item.name) is not None:
                raise OptionError(
                    f"{item.metadata['key']} is an option of streams.", todo="Omit it, or use readStream."
                )
        if not self.has_start:
            raise OptionError(
                "readChangeFeed needs a start.",
                todo="Give startingVersion, or startingTimestamp; 1 is the first version.",
            )

    def refuse_for_stream(self) -> None:
        """Raise `OptionError` where the changes of a table cannot be read as a stream with these options."""
        if not self.read_change_feed:
            raise OptionError("A stream of a table is one of its changes.", todo="Add readChangeFeed=true.")
        given = {
            "endingVersion": self.ending_version,
            "endingTimestamp": self.ending_timestamp_ms,
            "endingBoundInclusive": self.ending_bound_inclusive,
        }
        for name, value in given.items():
            if value is not None:
                raise OptionError(
                    f"{name} is given, but a stream has no end.",
                    todo="Omit it; the trigger availableNow ends at the newest version.",
                )
        if self.pin_ms is not None:
            raise OptionError("pin is given for a stream.", todo="Use streamRetention.")
        if self.shows_log and self.max_files_per_trigger is not None:
            raise OptionError("maxFilesPerTrigger is given with changes=log.", todo="Use maxBytesPerTrigger.")

    def _refuse_with_log(self, given: Collection[str]) -> None:
        """Raise `OptionError` where an option of kind `net` is given with kind `log`."""
        if self.shows_log:
            for name in ("preImages", "expired"):
                if name in given:
                    raise OptionError(f"{name} is given with changes=log.", todo="Omit it, or read changes=net.")

    @property
    def has_start(self) -> bool:
        """Whether a change feed has a start."""
        return self.starting_version is not None or self.starting_timestamp_ms is not None

    @property
    def shows_log(self) -> bool:
        """Whether a change feed has every write."""
        return self.changes == "log"

    @property
    def includes_start(self) -> bool:
        """Whether a change feed has the changes of its starting version or instant."""
        return self.starting_bound_inclusive is not False

    @property
    def includes_end(self) -> bool:
        """Whether a change feed has the changes of its ending version or instant."""
        return self.ending_bound_inclusive is not False

    @property
    def with_pre_images(self) -> bool:
        """Whether a change feed has the old rows."""
        return self.pre_images is not False

    @property
    def ignores_expired(self) -> bool:
        """Whether it is no change in a feed that a row expires or retires."""
        return self.expired == "ignore"

    def of_version(self, version: int) -> ReadOptions:
        """Return the options of a read of one version, for those of a change feed."""
        none: dict[str, Any] = dict.fromkeys(_FEED_FIELDS)
        return replace(self, read_change_feed=False, version_as_of=version, **none)

    @property
    def version_choices(self) -> list[str]:
        """The names of the given options that choose a version."""
        choices = {"versionAsOf": self.version_as_of, "seqAsOf": self.seq_as_of, "checkpoint": self.checkpoint}
        return [name for name, value in choices.items() if value is not None]

    @property
    def reads_past(self) -> bool:
        """Whether the read is of a past state, not of the newest."""
        return self.chooses_version or self.timestamp_as_of_ms is not None

    @property
    def chooses_version(self) -> bool:
        """Whether the read is of a certain version, which may not be the newest one."""
        return bool(self.version_choices)

    @property
    def shows_intervals(self) -> bool:
        """Whether rows come with the interval in which they were valid."""
        return self.read_versions == "intervals"

    @property
    def given_keys(self) -> dict[str, bytes]:
        """The given options that select keys by their bytes."""
        choices = {"startKey": self.start_key, "endKey": self.end_key, "keyPrefix": self.key_prefix}
        return {name: key for name, key in choices.items() if key is not None}

    @property
    def key_range(self) -> KeyRange:
        """The selected keys."""
        return key_range_of(self.start_key, self.end_key, self.key_prefix)


def refuse_filter(options: Mapping[str, Any]) -> None:
    """Raise `OptionError` if the read option `filter` is given next to a condition."""
    if any(normalize_name(name) == "filter" for name in options):
        raise OptionError("where and filter are both given.", todo="Join them with AND.")
