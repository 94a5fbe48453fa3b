"""Options of a read, stated once: key, type, default, check, documentation, and the calls that take each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from slatespark.errors import OptionError
from slatespark.options.change_feed import FeedOptions
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
    both_given,
    given_keys_of,
    key_range_of,
    normalize_name,
    parse_choice,
    parse_clock,
    parse_duration_or_none,
    parse_flag,
    parse_key,
    parse_metadata_columns,
    parse_names,
    parse_natural,
    parse_operator,
    parse_positive,
    parse_size,
    parse_text,
    parse_time,
    refuse_prefix_with_bounds,
)
from slatespark.ranges import KeyRange

_ANY_READ: Final = (Call.READ, Call.TRANSACTION_READ)
# A transaction fixes the table and the state that its reads see.
_OUTSIDE: Final = (Call.READ, Call.INSPECTION, Call.EXPIRY)
_VERSION: Final = (Call.READ, Call.AS_OF_JOIN, Call.INSPECTION, Call.EXPIRY)
_ROWS: Final = (Call.READ, Call.TRANSACTION_READ, Call.AS_OF_JOIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions(FeedOptions):
    """Options of a read."""

    path: str = path_option(calls=_OUTSIDE)
    version_as_of: int | None = option("versionAsOf", doc="Manifest id to read.", parse=parse_positive, calls=_VERSION)
    timestamp_as_of_ms: int | None = option(
        "timestampAsOf",
        doc="Instant to read the table as of, ISO-8601 or epoch ms: the newest version committed at or before it. On "
        "tables with `history=true`, each row as of its timestamp; there together with `versionAsOf`, `checkpoint` or "
        "`seqAsOf`: as it was known then. With `clock=custom`, by the table's clock ticks.",
        parse=parse_time,
        calls=_OUTSIDE,
    )
    seq_as_of: int | None = option(
        "seqAsOf",
        doc="Sequence number to read the table as of: the state in which it was the last one.",
        parse=parse_natural,
        calls=(Call.READ, Call.AS_OF_JOIN, Call.INSPECTION),
    )
    checkpoint: str | None = option(
        "checkpoint", doc="Checkpoint to read, by id or name.", parse=parse_text, calls=_VERSION
    )
    now_ms: int | None = option(
        "now",
        doc="Instant at which expiry is evaluated, ISO-8601 or epoch ms. Default: the system clock or the table's last "
        "clock tick, whichever is later. With `timestampAsOf`: that instant (on plain tables the tick of the version "
        "found, if later). With `versionAsOf` and `checkpoint`: the tick of that manifest. On tables with "
        "`clock=custom`: the tick instead of the system clock.",
        parse=parse_time,
        calls=(*_ANY_READ, Call.EXPIRY),
    )
    clock: str | None = option(
        "clock",
        doc="Clock of the read, instead of the system clock: `module:function`, which returns ms since 1970. Spark's "
        "processes import it, on executors too. `SlateStore` and `SlateTable` take it where they are opened.",
        parse=parse_clock,
        calls=_OUTSIDE,
    )
    columns: tuple[str, ...] | None = option(
        "columns",
        doc="Comma-separated, case-insensitive: only these columns are decoded and returned.",
        parse=parse_names,
        calls=_ROWS,
    )
    filter: str | None = option(
        "filter",
        doc="Comparisons on any columns, joined by `AND`: only rows for which all are true are returned. Comparisons "
        "on leading key columns limit which blocks are read.",
        parse=parse_text,
        calls=_ANY_READ,
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
    )
    end_key: bytes | None = option(
        "endKey",
        doc="Raw tables: end key, in hexadecimal, exclusive.",
        parse=parse_key,
        calls=_ANY_READ,
    )
    key_prefix: bytes | None = option(
        "keyPrefix",
        doc="Raw tables: only keys with this prefix, in hexadecimal.",
        parse=parse_key,
        calls=_ANY_READ,
    )
    metadata_columns: tuple[str, ...] = option(
        "metadataColumns",
        doc="`true`, or a comma-separated list of `key`, `seq`, `op`, `create_ts` and `expire_ts`, with or without a "
        "leading `_`: adds the columns `_key`, `_seq`, `_op`, `_create_ts` and `_expire_ts`. If `columns` is given, "
        "list them there as well.",
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
        "mergeOperator", doc=MERGE_OPERATOR_DOC, parse=parse_operator, calls=_ROWS
    )
    split_bytes: int = option(
        "splitSize",
        doc="Stored bytes per read partition, at most about that: partitions are of one size, and of a number "
        "that processors share evenly, such as 8 instead of 7.",
        parse=parse_size,
        calls=_ROWS,
        default=128 * MIB,
        shown="`128m`",
    )
    read_buffer_bytes: int = option(
        "readBuffer",
        doc="Memory per task for stored bytes in flight, shared by all files that it merges.",
        parse=parse_size,
        calls=(*_ROWS, Call.EXPIRY),
        default=64 * MIB,
        shown="`64m`",
    )
    wal_buffer_bytes: int = option(
        "walBuffer",
        doc="Maximum WAL bytes that are decoded and sorted once, when a read of several partitions is planned, "
        "and sent to them. Each partition decodes a larger WAL by itself. WAL files whose rows are all in SSTs do not "
        "count. A `SlateStore` keeps as much in memory for its next reads.",
        parse=parse_size,
        calls=_ROWS,
        default=128 * MIB,
        shown="`128m`",
    )
    use_copies: bool | None = option(
        "useCopies",
        doc="Read columnar copies instead of SSTs where that costs less; the rows are the same. `true` "
        "looks for copies of any table, `false` reads SSTs alone.",
        parse=parse_flag,
        calls=_ANY_READ,
        shown="as the property `columnar`",
    )
    pin_ms: int | None = option(
        "pin",
        doc="Duration for which a checkpoint protects the objects of the read from garbage collection.",
        parse=parse_duration_or_none,
        calls=(Call.READ, Call.BEGIN, Call.AS_OF_JOIN),
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
            raise both_given(given[0], given[1])
        refuse_prefix_with_bounds(self.given_keys)
        if self.shows_intervals and self.include_deleted:
            raise OptionError(
                "includeDeleted and readVersions=intervals are both given.",
                why="A deletion ends an interval and has none.",
                todo="Use readVersions=all.",
            )
        self.check_feed(
            {
                **dict.fromkeys(self.version_choices, True),
                "timestampAsOf": self.timestamp_as_of_ms is not None,
                "now": self.now_ms is not None,
                "readVersions": self.read_versions != "latest",
                "includeDeleted": self.include_deleted,
                "ignoreUndecodable": self.ignore_undecodable,
                "pushdown": self.pushdown,
            },
            of_rows={
                "includeExpired": self.include_expired,
                "mergeOperator": self.merge_operator is not None,
            },
        )
        if self.shows_log and self.pin_ms is not None:
            raise OptionError("pin is given with changes=log.", why="No version holds a log.", todo="Omit it.")
        if self.read_versions == "all" and not self.metadata_columns:
            object.__setattr__(self, "metadata_columns", METADATA_COLUMNS)

    def refuse_for_stream(self) -> None:
        """Raise `OptionError` where the changes of a table cannot be read as a stream with these options."""
        FeedOptions.refuse_for_stream(self)
        if self.pin_ms is not None:
            raise OptionError("pin is given for a stream.", todo="Use streamRetention.")

    def require_options_of(self, call: Call, name: str) -> None:
        """Raise `OptionError` for an option that `call` does not take and would ignore; `name` begins the message."""
        for item in fields(self):
            calls = item.metadata.get("calls", (call,))  # a field that is not an option has none
            if call not in calls and getattr(self, item.name) != item.default:
                raise OptionError(f"{name} takes no {item.metadata['key']}.", todo="Leave it out.")

    def refuse_keys(self, call: str) -> None:
        """Raise `OptionError` for a key range, which a call that is given its keys would ignore."""
        for name in self.given_keys:
            raise OptionError(
                f"{call}: {name} does not apply.", why="The call says which keys are read.", todo="Omit it."
            )

    def of_version(self, version: int) -> ReadOptions:
        """Return the options of a read of one version, for those of a change feed."""
        return replace(self, version_as_of=version, **FeedOptions.none())

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
        return given_keys_of(self.start_key, self.end_key, self.key_prefix)

    @property
    def key_range(self) -> KeyRange:
        """The selected keys."""
        return key_range_of(self.start_key, self.end_key, self.key_prefix)


def refuse_filter(options: Mapping[str, Any]) -> None:
    """Raise `OptionError` if the read option `filter` is given next to a condition."""
    if any(normalize_name(name) == "filter" and value is not None for name, value in options.items()):
        raise OptionError("where and filter are both given.", todo="Join them with AND.")
