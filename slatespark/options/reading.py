"""Options of a read, stated once: key, type, default, check, documentation, and the calls that take each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
    MergeOperator,
    key_range_of,
    named,
    parse_choice,
    parse_count,
    parse_duration_or_none,
    parse_flag,
    parse_key,
    parse_metadata_columns,
    parse_names,
    parse_operator,
    parse_text,
    plain_name,
)
from slatespark.ranges import KeyRange
from slatespark.units import parse_bytes, parse_time_ms

MIB: Final = 1 << 20

_ANY_READ: Final = (Call.READ, Call.TRANSACTION_READ)
_OUTSIDE: Final = (Call.READ,)  # a transaction fixes the table and the state that its reads see


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Options of a read; design 5.1."""

    path: str = path_option(calls=_OUTSIDE)
    version_as_of: int | None = option(
        "versionAsOf", doc="Manifest id to read.", parse=parse_count(1, 2**63 - 1), calls=_OUTSIDE, default=None
    )
    timestamp_as_of_ms: int | None = option(
        "timestampAsOf",
        doc="Read the table as it was at an instant, ISO-8601 or epoch ms: the newest version committed at or before "
        "it; on tables with `history=true` each row as of its timestamp; with `clock=custom` by the table's ticks.",
        parse=named(parse_time_ms),
        calls=_OUTSIDE,
        default=None,
    )
    seq_as_of: int | None = option(
        "seqAsOf",
        doc="Read the table as it was when this was its last sequence number.",
        parse=parse_count(0, 2**63 - 1),
        calls=_OUTSIDE,
        default=None,
    )
    checkpoint: str | None = option(
        "checkpoint", doc="Checkpoint to read, by id or name.", parse=parse_text, calls=_OUTSIDE, default=None
    )
    now_ms: int | None = option(
        "now",
        doc="The instant at which expiry is judged, ISO-8601 or epoch ms. Default: the system clock or the last clock "
        "tick of the table, whichever is later; for `timestampAsOf` that instant (of plain tables the tick of the "
        "version found, if that is later), for `versionAsOf` and `checkpoint` that manifest's tick. On tables with "
        "`clock=custom` the tick instead of the system clock.",
        parse=named(parse_time_ms),
        calls=_ANY_READ,
        default=None,
    )
    columns: tuple[str, ...] | None = option(
        "columns",
        doc="Comma list, case ignored: only these columns are decoded and produced.",
        parse=parse_names,
        calls=_ANY_READ,
        default=None,
    )
    filter: str | None = option(
        "filter",
        doc="Comparisons joined by `AND`, on any columns: only rows for which they are true. Those on leading key "
        "columns decide which blocks are read.",
        parse=parse_text,
        calls=_ANY_READ,
        default=None,
    )
    pushdown: bool = option(
        "pushdown",
        doc="`true` lets Spark hand over its own `where` as well. Spark 4.3 then returns wrong rows where one `load()` "
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
        doc="Raw tables: end of the keys, in hexadecimal, exclusive.",
        parse=parse_key,
        calls=_ANY_READ,
        default=None,
    )
    key_prefix: bytes | None = option(
        "keyPrefix",
        doc="Raw tables: only keys that start with it, in hexadecimal.",
        parse=parse_key,
        calls=_ANY_READ,
        default=None,
    )
    metadata_columns: tuple[str, ...] = option(
        "metadataColumns",
        doc="`true` or a comma list of `key`, `seq`, `op`, `create_ts`, `expire_ts`: adds `_key`, `_seq`, `_op`, "
        "`_create_ts`, `_expire_ts`. With `columns`, name them there too.",
        parse=parse_metadata_columns,
        calls=_ANY_READ,
        default=(),
        shown="`false`",
    )
    read_versions: str = option(
        "readVersions",
        doc="`latest`; `all`: every stored version, tombstones and expired ones included, with metadata columns; or "
        "`intervals`, of history tables: every version that was ever visible, with `_valid_from`, `_valid_to` and "
        "`_is_current`.",
        parse=parse_choice("latest", "all", "intervals"),
        calls=_ANY_READ,
        default="latest",
    )
    include_expired: bool = option(
        "includeExpired",
        doc="Show rows past their expiry, as the SlateDB client does.",
        parse=parse_flag,
        calls=_ANY_READ,
        default=False,
    )
    include_deleted: bool = option(
        "includeDeleted",
        doc="Show deleted keys, with null values and `_op` = `delete`.",
        parse=parse_flag,
        calls=_ANY_READ,
        default=False,
    )
    ignore_undecodable: bool = option(
        "ignoreUndecodable",
        doc="Leave out rows whose bytes do not decode as the columns asked for, and warn of how many they were.",
        parse=parse_flag,
        calls=_ANY_READ,
        default=False,
    )
    merge_operator: MergeOperator | None = option(
        "mergeOperator", doc=MERGE_OPERATOR_DOC, parse=parse_operator, calls=_ANY_READ, default=None
    )
    split_bytes: int = option(
        "splitSize",
        doc="Stored bytes per read partition.",
        parse=named(parse_bytes),
        calls=_ANY_READ,
        default=64 * MIB,
        shown="`64m`",
    )
    read_buffer_bytes: int = option(
        "readBuffer",
        doc="Memory for stored bytes in flight per task, shared by all files it merges.",
        parse=named(parse_bytes),
        calls=_ANY_READ,
        default=64 * MIB,
        shown="`64m`",
    )
    pin_ms: int | None = option(
        "pin",
        doc="A duration: what the read needs is kept from garbage collectors for so long, by a checkpoint.",
        parse=parse_duration_or_none,
        calls=(Call.READ, Call.BEGIN),
        default=None,
    )
    wal_path: str | None = wal_path_option(calls=_OUTSIDE)
    storage: Mapping[str, str] = storage_options()

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> ReadOptions:
        """Return the options that `given` spells out; raises `OptionError`."""
        return parse_options(cls, given)

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
    def given_keys(self) -> dict[str, bytes]:
        """The options given that name keys by their bytes."""
        choices = {"startKey": self.start_key, "endKey": self.end_key, "keyPrefix": self.key_prefix}
        return {name: key for name, key in choices.items() if key is not None}

    @property
    def key_range(self) -> KeyRange:
        """The keys asked for."""
        return key_range_of(self.start_key, self.end_key, self.key_prefix)


def refuse_filter(options: Mapping[str, Any]) -> None:
    """Refuse the read option `filter` beside a condition, which is one; raises `OptionError`."""
    if any(plain_name(name) == "filter" for name in options):
        raise OptionError("where and filter are both given.", todo="Join them by AND.")
