"""Options of the change feed of a table, and of a stream of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from slatespark.errors import OptionError
from slatespark.options.fields import Call, option
from slatespark.options.values import (
    Parser,
    both_given,
    parse_choice,
    parse_duration_of,
    parse_flag,
    parse_positive,
    parse_size,
    parse_stream_id,
    parse_time,
)

_CALLS: Final = (Call.READ,)  # not in a transaction, which fixes the table and the state that its reads see
_STREAM_FIELDS: Final = (
    "max_files_per_trigger",
    "max_bytes_per_trigger",
    "max_rows_per_trigger",
    "poll_interval_ms",
    "fail_on_data_loss",
    "stream_retention_ms",
    "stream_id",
)
_END_FIELDS: Final = ("ending_version", "ending_timestamp_ms", "ending_bound_inclusive")


def _feed_option(key: str, *, doc: str, parse: Parser, shown: str | None = None) -> Any:
    """Declare an option of the change feed or of a stream of it; None where it is not given."""
    return option(key, doc=doc, parse=parse, calls=_CALLS, shown=shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedOptions:
    """The options of a read that only a change feed takes."""

    read_change_feed: bool = option(
        "readChangeFeed",
        doc="Return what changed between two versions, instead of the rows of one.",
        parse=parse_flag,
        calls=_CALLS,
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
        parse=parse_positive,
    )
    starting_timestamp_ms: int | None = _feed_option(
        "startingTimestamp",
        doc="Change feed: changes committed at or after this instant are returned, ISO-8601 or epoch ms.",
        parse=parse_time,
    )
    ending_version: int | None = _feed_option(
        "endingVersion",
        doc="Change feed: the last version whose changes are returned. Default: the newest.",
        parse=parse_positive,
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
        doc="Change feed: `delete`: a row that expired or retired in between is a change. `ignore`: it is not "
        "reported; both versions are evaluated at the time of the later one.",
        parse=parse_choice("delete", "ignore"),
        shown="`delete`",
    )
    max_files_per_trigger: int | None = _feed_option(
        "maxFilesPerTrigger",
        doc="Stream: as maxBytesPerTrigger, given as a number of files of average size.",
        parse=parse_positive,
    )
    max_bytes_per_trigger: int | None = _feed_option(
        "maxBytesPerTrigger",
        doc="Stream: a batch ends after about so many stored bytes, possibly within a file.",
        parse=parse_size,
    )
    max_rows_per_trigger: int | None = _feed_option(
        "maxRowsPerTrigger",
        doc="Stream: a batch has at most so many changes; those of one key are never split between two batches.",
        parse=parse_positive,
    )
    poll_interval_ms: int | None = _feed_option(
        "pollInterval",
        doc="Stream: how long to wait between two checks for a new version.",
        parse=parse_duration_of(1),
        shown="`1s`",
    )
    fail_on_data_loss: bool | None = _feed_option(
        "failOnDataLoss",
        doc="Stream: `false` continues with the next version that exists if the one to continue from was collected. "
        "Changes in between are lost. `true` ends the query with an error.",
        parse=parse_flag,
        shown="`true`",
    )
    stream_retention_ms: int | None = _feed_option(
        "streamRetention",
        doc="Stream: how long the versions that it needs to continue are kept after it stopped; at least a second.",
        parse=parse_duration_of(1000),
        shown="`24h`",
    )
    stream_id: str | None = _feed_option(
        "streamId",
        doc="Stream: names its checkpoints `slatespark/stream/<streamId>`. It belongs to one query: another one that "
        "uses it takes over what that one holds. At most 100 letters, digits, dots, hyphens and underscores. Default: "
        "a random name, which the offsets remember.",
        parse=parse_stream_id,
    )

    @classmethod
    def none(cls) -> dict[str, Any]:
        """Return the fields of a read that is not a change feed."""
        return {item.name: item.default for item in fields(FeedOptions)}

    def check_feed(self, others: Mapping[str, bool], of_rows: Mapping[str, bool]) -> None:
        """Raise `OptionError` where options of a change feed do not fit together, or are given without one.

        Parameters
        ----------
        others : options that a change feed does not take, and whether they are given
        of_rows : options that only a feed takes that compares rows, and whether they are given
        """
        given = self._given()
        if not self.read_change_feed:
            if given:
                raise OptionError(
                    f"{next(iter(given))} is an option of the change feed.", todo="Add readChangeFeed=true."
                )
            return
        for name, is_given in others.items():
            if is_given:
                raise both_given(name, "readChangeFeed")
        self._refuse_with_log([*given, *(name for name, is_given in of_rows.items() if is_given)])
        if self.expired is not None and of_rows["includeExpired"]:
            raise OptionError(
                "expired and includeExpired are both given.", why="No row expires then.", todo="Give one of them."
            )
        for pair in (("startingVersion", "startingTimestamp"), ("endingVersion", "endingTimestamp")):
            if given.keys() >= set(pair):
                raise both_given(*pair)
        for kind in ("Version", "Timestamp"):
            start, end = given.get(f"starting{kind}"), given.get(f"ending{kind}")
            if start is not None and end is not None and start > end:
                raise OptionError(
                    f"starting{kind} {start} is after ending{kind} {end}.", todo="Give the earlier one as the start."
                )

    def refuse_for_batch(self) -> None:
        """Raise `OptionError` where the changes between two versions cannot be read with these options."""
        if given := self._given(_STREAM_FIELDS):
            raise OptionError(f"{next(iter(given))} is an option of streams.", todo="Omit it, or use readStream.")
        if not self.has_start:
            raise OptionError(
                "readChangeFeed needs a start.",
                todo="Give startingVersion, or startingTimestamp; 1 is the first version.",
            )
        if self.ending_bound_inclusive is False and not self.has_end:
            raise OptionError(
                "endingBoundInclusive=false is given without an end.",
                todo="Give endingVersion or endingTimestamp, or omit it.",
            )

    def refuse_for_stream(self) -> None:
        """Raise `OptionError` where the changes of a table cannot be read as a stream with these options."""
        if not self.read_change_feed:
            raise OptionError(
                "To read a table as a stream is to read its change feed.", todo="Add readChangeFeed=true."
            )
        if given := self._given(_END_FIELDS):
            raise OptionError(
                f"{next(iter(given))} is given, but a stream has no end.",
                todo="Omit it; the trigger availableNow ends at the newest version.",
            )
        if not self.has_start and self._given({"starting_bound_inclusive"}):
            raise OptionError(
                "startingBoundInclusive is given without a start.",
                why="Such a stream begins with all rows.",
                todo="Give startingVersion or startingTimestamp, or omit it.",
            )
        if self.shows_log and self.max_files_per_trigger is not None:
            raise OptionError("maxFilesPerTrigger is given with changes=log.", todo="Use maxBytesPerTrigger.")

    def _refuse_with_log(self, given: Collection[str]) -> None:
        """Raise `OptionError` where an option of kind `net` is given with kind `log`."""
        if self.shows_log:
            for name in ("preImages", "expired", "includeExpired", "mergeOperator"):
                if name in given:
                    raise OptionError(f"{name} is given with changes=log.", todo="Omit it, or read changes=net.")
            if self.fail_on_data_loss is False:
                raise OptionError(
                    "failOnDataLoss=false is given with changes=log.",
                    why="A comparison of versions cannot fill a gap in the log.",
                    todo="Omit it, or read changes=net.",
                )

    def _given(self, names: Collection[str] | None = None) -> dict[str, Any]:
        """Return the given options of the feed by their keys: all of them, or those of some fields."""
        return {
            item.metadata["key"]: value
            for item in fields(FeedOptions)
            if item.name != "read_change_feed" and (names is None or item.name in names)
            if (value := getattr(self, item.name)) is not None
        }

    @property
    def has_start(self) -> bool:
        """Whether a change feed has a start."""
        return self.starting_version is not None or self.starting_timestamp_ms is not None

    @property
    def has_end(self) -> bool:
        """Whether a change feed has an end."""
        return self.ending_version is not None or self.ending_timestamp_ms is not None

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
        """Whether a feed shows no change where a row expires or retires."""
        return self.expired == "ignore"
