"""The plan of the log between two positions: splits, each of which holds some of its writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from slatespark.options import ReadOptions
from slatespark.ranges import KeyRange
from slatespark.table.changes.bounds import resolve_bounds
from slatespark.table.changes.log.commits import LoggedCommit
from slatespark.table.changes.log.positions import LogPosition, LogTail, position_of, refuse_backwards
from slatespark.table.changes.log.survey import LogSurvey, first_versions, survey_log
from slatespark.table.changes.log.wal import WalStretch
from slatespark.table.clock import Clock
from slatespark.table.definition.versions import resolve_definition
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read.arrow import Projection, project
from slatespark.table.read.fetch import sample_indexes
from slatespark.table.read.planning.plan import FileSlice, Layer, cut_layers, plan_splits, stored_bytes
from slatespark.table.read.reader import bind_condition, chosen_range, renewed
from slatespark.table.stores import TableStores

if TYPE_CHECKING:
    from slatespark.encoding.predicates import Filter

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WalPart:
    """Writes of clients, in some WAL files.

    Attributes
    ----------
    files : ids, ascending
    versions : for each file, the first version that still exists and shows it; None if there is none yet
    after_seq, last_seq : only writes with sequence numbers (after_seq, last_seq]
    """

    files: tuple[int, ...]
    versions: tuple[int | None, ...]
    after_seq: int
    last_seq: int


@dataclass(frozen=True, slots=True)
class CommitPart:
    """Writes of a slatespark commit, in some of its files.

    Attributes
    ----------
    version, committed_ms : the version of the commit, and when it was published
    slices : parts of its files, by their first keys; no other part has any of these keys
    after_seq, last_seq : only writes with sequence numbers (after_seq, last_seq]
    """

    version: int
    committed_ms: int
    slices: tuple[FileSlice, ...]
    after_seq: int
    last_seq: int


@dataclass(frozen=True, slots=True)
class LogSplit:
    """A partition of the log: its parts follow each other."""

    parts: tuple[WalPart | CommitPart, ...]

    @property
    def wal(self) -> list[WalPart]:
        """The parts in the WAL."""
        return [part for part in self.parts if isinstance(part, WalPart)]

    @property
    def commits(self) -> list[CommitPart]:
        """The parts in files of slatespark's commits."""
        return [part for part in self.parts if isinstance(part, CommitPart)]


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What all splits share.

    Attributes
    ----------
    condition : only writes whose own columns fulfil it are returned; None for all
    keys : only writes with these keys
    buffer_bytes : memory for stored bytes in flight
    table : name of the table, for messages
    """

    projection: Projection
    condition: Filter | None
    keys: KeyRange
    buffer_bytes: int
    table: str


@dataclass(frozen=True, slots=True)
class LogPlan:
    """The plan of a log.

    Attributes
    ----------
    survey : what lies between them
    settings : the same for all splits
    splits : splits in the order of the log; each can be read on its own, by any process
    """

    start: LogPosition
    end: LogPosition
    survey: LogSurvey
    settings: LogSettings
    splits: tuple[LogSplit, ...]


def fetch_log(
    stores: TableStores, options: ReadOptions, clock: Clock, *, projection: Projection | None = None
) -> LogPlan:
    """Return the plan of a change feed of kind `log`, from the start to the end of the options.

    Raises
    ------
    InvalidRequestError, OptionError, HistoryTrimmedError, CorruptDataError, UnsupportedFormatError
        As `resolve_log_bounds` and `fetch_log_plan`.
    """
    start, end = resolve_log_bounds(stores, options, clock)
    return fetch_log_plan(stores, options, clock, start, end, projection=projection)


def resolve_log_bounds(stores: TableStores, options: ReadOptions, clock: Clock) -> tuple[LogPosition, LogPosition]:
    """Return the positions that the options of a change feed of kind `log` ask for.

    Without an end it goes as far as the WAL goes now.

    Raises
    ------
    InvalidRequestError, OptionError, HistoryTrimmedError
        As `resolve_bounds`; the last one also when WAL files of a version were collected.
    """
    bounds = resolve_bounds(stores, options, clock)
    start = position_of(stores, bounds.before)
    is_open = options.ending_version is None and options.ending_timestamp_ms is None
    end = LogTail(stores).poll() if is_open else position_of(stores, bounds.after)
    return start, end


def fetch_log_plan(
    stores: TableStores,
    options: ReadOptions,
    clock: Clock,
    start: LogPosition,
    end: LogPosition,
    *,
    projection: Projection | None = None,
) -> LogPlan:
    """Find the writes between two positions, and cut them into splits.

    It reads the records of the commits in between, the first and last WAL file of each writer, and what tells versions
    apart. Nothing of the log before `start` is looked at.

    Parameters
    ----------
    options : options with `readChangeFeed`; its bounds are not looked at
    start, end : positions from where to where
    projection : the columns that were promised, if not those of the options

    Raises
    ------
    HistoryTrimmedError
        When any write in between is not known any more, naming the first version from which on all are.
    InvalidRequestError, CorruptDataError, UnsupportedFormatError
    """
    refuse_backwards(stores, start, end)
    latest = fetch_latest_manifest(stores).value
    definition = resolve_definition(stores, latest)
    codec = definition.codec()
    columns = project(options, codec=codec) if projection is None else renewed(projection, codec)
    condition = bind_condition(options, codec)
    settings = LogSettings(
        projection=columns,
        condition=condition if condition is not None and condition.columns else None,
        keys=chosen_range(options, codec),
        buffer_bytes=options.read_buffer_bytes,
        table=stores.url,
    )
    survey = survey_log(stores, clock, start, end, latest)
    parts = _Cutter(stores, settings.keys, options.split_bytes)
    return LogPlan(start, end, survey, settings, parts.splits(survey))


# --- splits ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Cutter:
    """Cuts a stretch of the log into splits of about `target_bytes`: large parts are cut, small ones joined."""

    stores: TableStores
    keys: KeyRange
    target_bytes: int

    def splits(self, survey: LogSurvey) -> tuple[LogSplit, ...]:
        return tuple(LogSplit(parts) for parts, _ in self._grouped(self._parts(survey)))

    def _parts(self, survey: LogSurvey) -> Iterator[tuple[WalPart | CommitPart, int]]:
        """Yield parts of at most about `target_bytes`, with their stored bytes."""
        for each in survey.stretches:
            yield from self._of_wal(each, survey) if isinstance(each, WalStretch) else self._of_commit(each, survey)

    def _of_wal(self, stretch: WalStretch, survey: LogSurvey) -> Iterator[tuple[WalPart, int]]:
        versions = first_versions(self.stores, survey, stretch.files(survey.sizes))
        for files, size in self._grouped((number, survey.sizes[number]) for number in versions):
            shown = tuple(versions[each] for each in files)
            yield WalPart(files, shown, stretch.after_seq, stretch.last_seq), size

    def _of_commit(self, commit: LoggedCommit, survey: LogSurvey) -> Iterator[tuple[CommitPart, int]]:
        """Yield the parts of a commit by keys: the writes of a key are in one part, in whichever files they are."""
        after_seq, last_seq = commit.start_seq - 1, commit.end_seq - 1
        whole = (Layer("commit", (file.whole(),)) for file in survey.files[commit.version])
        layers = cut_layers(list(whole), self.keys)
        sample = partial(sample_indexes, self.stores)
        splits = plan_splits(layers, self.keys, target_bytes=self.target_bytes, sample=sample)
        size = stored_bytes(layers) // len(splits)
        for split in splits:
            slices = tuple(part for layer in split.layers for part in layer.slices)
            if slices:
                yield CommitPart(commit.version, commit.committed_ms, slices, after_seq, last_seq), size

    def _grouped(self, sized: Iterable[tuple[T, int]]) -> Iterator[tuple[tuple[T, ...], int]]:
        """Yield items with their sizes in groups of at most `target_bytes`, unless one item alone is larger."""
        group: list[T] = []
        filled = 0
        for item, size in sized:
            if group and filled + size > self.target_bytes:
                yield tuple(group), filled
                group, filled = [], 0
            group.append(item)
            filled += size
        if group:
            yield tuple(group), filled
