"""A read from options to batches: snapshot, plan, scan. Spark distributes the plan, `SlateStore` runs it in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from slatespark.encoding.row_codec import RowCodec
from slatespark.errors import OptionError, SchemaError
from slatespark.format.ulid import Ulid
from slatespark.kernels.columns import Visibility
from slatespark.options import ReadOptions
from slatespark.options.values import normalize_name
from slatespark.ranges import KeyRange, overlapping_ranges
from slatespark.table.clock import Clock
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.definition.versions import DefinitionFetch
from slatespark.table.read.arrow import Projection, project, readable_schema
from slatespark.table.read.as_of_join import AsOfJoin, added_columns, check_join_columns
from slatespark.table.read.copies.usable import KnownCopies
from slatespark.table.read.descending import DESCENDING_SPLIT_BYTES, scan_descending
from slatespark.table.read.fetch import measure_slices, sample_indexes
from slatespark.table.read.materialise import UndecodableRows
from slatespark.table.read.merge.merge_function import resolve_operator
from slatespark.table.read.merge.retention import retired_until_ms
from slatespark.table.read.merge.validity import ValiditySettings
from slatespark.table.read.ordered_threads import ordered_batches
from slatespark.table.read.planning.layers import fetch_layers
from slatespark.table.read.planning.metadata_filter import file_test
from slatespark.table.read.planning.plan import Layer, Sample, Split, plan_points, plan_ranges, stored_bytes
from slatespark.table.read.planning.skipping import SkipRule, skip_files
from slatespark.table.read.scan import scan_split
from slatespark.table.read.scan_settings import ScanSettings
from slatespark.table.read.versions.file_properties import Listing, begin_listing, file_properties
from slatespark.table.read.versions.floor import history_floor, judged_definition
from slatespark.table.read.versions.read_point import Point
from slatespark.table.read.versions.resolve import resolve_snapshot
from slatespark.table.read.wal_tail import share_tail
from slatespark.table.snapshot import Snapshot, without_flushed
from slatespark.table.stores import TableStores

if TYPE_CHECKING:
    from slatespark.encoding.predicates import Comparison, Filter


PARALLEL_SPLIT_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """The plan of a read.

    Attributes
    ----------
    manifest_id : the version it reads
    newest_sst : newest id of an SST of that version; None without one
    max_seq : highest sequence number it sees
    now_ms : the instant at which it evaluates expiry
    settings : the same for all splits
    splits : splits in key order; each can be scanned on its own, by any process
    layers : layers of the snapshot, with the files that no split needs
    seeks_copies : whether it may use columnar copies
    """

    manifest_id: int
    newest_sst: Ulid | None
    max_seq: int
    now_ms: int
    settings: ScanSettings
    splits: tuple[Split, ...]
    layers: tuple[Layer, ...] = ()
    seeks_copies: bool = False

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of the batches."""
        return self.settings.projection.schema


def _plan_of(
    snapshot: Snapshot,
    settings: ScanSettings,
    splits: tuple[Split, ...],
    layers: tuple[Layer, ...] = (),
    *,
    seeks_copies: bool = False,
) -> ReadPlan:
    newest = snapshot.manifest.newest_sst()
    return ReadPlan(
        snapshot.manifest_id, newest, snapshot.max_seq, snapshot.now_ms, settings, splits, layers, seeks_copies
    )


def fetch_read_plan(
    stores: TableStores,
    options: ReadOptions,
    clock: Clock,
    *,
    projection: Projection | None = None,
    pushed: Sequence[Comparison] = (),
    point: Point | None = None,
    keys: Sequence[KeyRange] | None = None,
) -> ReadPlan:
    """Fix the snapshot of a read and cut it into splits.

    Parameters
    ----------
    stores, options, clock : stores, options and clock of the read
    projection : the columns that were promised, if not those of the options
    pushed : comparisons that hold besides the option `filter`
    point : read point of a transaction; None for the snapshot of the options
    keys : the ranges to read, ascending, apart from each other; by default those of the options

    Raises
    ------
    InvalidRequestError, HistoryTrimmedError, CorruptDataError, UnsupportedFormatError
    """
    # A filter may look keys up, which needs no properties.
    listing = begin_listing(stores) if options.filter is None and not options.shows_intervals else None
    snapshot, definition = resolve_read(stores, options, clock, point)
    codec = definition.codec()
    columns = project(options, codec=codec) if projection is None else renewed(projection, codec)
    layers = fetch_layers_of(stores, snapshot, point)
    condition = bind_condition(options, codec, pushed)
    settings = scan_settings(stores, snapshot, definition, options, columns, condition)
    skip = partial(_skip_files, stores, snapshot, settings, listing) if not options.shows_intervals else tuple
    ranges = (chosen_range(options, codec),) if keys is None else keys
    seeks_copies = definition.columnar != "false" if options.use_copies is None else options.use_copies
    copies = KnownCopies(stores, settings, seeks_copies)
    given = stores, layers, options, ranges, codec, condition, skip, copies.sample
    splits, residual = plan_key_splits(*given, wal_bytes=settings.shared_wal_bytes)
    settings, splits = replace(settings, residual=residual), copies.add_to(splits)
    splits = share_tail(stores, splits, settings)
    return _plan_of(snapshot, settings, splits, layers, seeks_copies=seeks_copies)


def resolve_table(stores: TableStores, options: ReadOptions, clock: Clock) -> tuple[Snapshot, TableDefinition]:
    """Return the snapshot that a read with these options sees, and the definition; raises as `fetch_read_plan`.

    The definition has the bounds of the past by which the read is judged. On a table with a clock of its own, `now` is
    the last tick unless it is given: no other clock matches its times.
    """
    fetch = DefinitionFetch(stores, reuses=True)
    snapshot = resolve_snapshot(stores, options, clock, fetch)
    definition = judged_definition(fetch.resolve(snapshot.version).value, options, snapshot, clock)
    if definition.has_own_time and options.now_ms is None and not options.reads_past:
        snapshot = replace(snapshot, now_ms=snapshot.tick_ms)
    return snapshot, definition


def resolve_held(
    stores: TableStores, options: ReadOptions, clock: Clock, check: Callable[[TableDefinition], object] | None = None
) -> tuple[Snapshot, TableDefinition]:
    """Do as `resolve_table`, and pin the result against garbage collection if the options say so.

    Parameters
    ----------
    check : raises for arguments that do not fit the table, as this does for options: what is refused pins nothing
    """
    if options.pin_ms is None:
        return resolve_table(stores, options, clock)
    from slatespark.table.checkpoints.pins import resolve_pinned  # which most reads do without

    def resolve() -> tuple[Snapshot, TableDefinition]:
        snapshot, definition = resolve_table(stores, options, clock)
        if check is not None:
            check(definition)
        codec = definition.codec()
        chosen_range(options, codec)
        columns, condition = project(options, codec=codec), bind_condition(options, codec)
        scan_settings(stores, snapshot, definition, options, columns, condition)
        return snapshot, definition

    return resolve_pinned(stores, clock, options.pin_ms, resolve)


def resolve_read(
    stores: TableStores,
    options: ReadOptions,
    clock: Clock,
    point: Point | None,
    check: Callable[[TableDefinition], object] | None = None,
) -> tuple[Snapshot, TableDefinition]:
    """Return the snapshot and definition of a point, or those of the options without one; `check` as there."""
    return resolve_held(stores, options, clock, check) if point is None else point.resolve(options)


def fetch_layers_of(stores: TableStores, snapshot: Snapshot, point: Point | None) -> tuple[Layer, ...]:
    """Return all layers that a read may need, newest first."""
    own = () if point is None else point.own
    return (*own, *fetch_layers(stores, snapshot.manifest))


def renewed(projection: Projection, codec: RowCodec) -> Projection:
    """Return a projection made earlier with the table's present codec; its columns must be unchanged."""
    renewed = replace(projection, codec=codec)
    lost = [name for name in projection.names if name not in readable_schema(codec, intervals=True).names]
    if lost or renewed.schema != projection.schema:
        raise SchemaError(
            "The columns of the table have changed since they were looked at.", todo="Load the table again."
        )
    return renewed


def check_filter(options: ReadOptions, codec: RowCodec) -> None:
    """Raise `OptionError` or `SchemaError` for an invalid option `filter`, before anything is read."""
    bind_condition(options, codec)


def bind_condition(options: ReadOptions, codec: RowCodec, pushed: Sequence[Comparison] = ()) -> Filter | None:
    """Return the condition on rows; None if there is none. Raises as `check_filter`."""
    if options.filter is None and not pushed:
        return None
    from slatespark.encoding.predicates import bind_filter, parse_filter  # most reads have no filter

    given = () if options.filter is None else parse_filter(options.filter)
    return bind_filter((*given, *pushed), readable_schema(codec, intervals=options.shows_intervals))


def _skip_files(
    stores: TableStores, snapshot: Snapshot, settings: ScanSettings, listing: Listing | None, layers: Sequence[Layer]
) -> tuple[Layer, ...]:
    """Return the layers without the files that a scan does not need; `settings` hold the whole condition."""
    known = file_properties(stores, snapshot.manifest, listing=listing)
    return skip_files(layers, known, skip_rule(settings))


def skip_rule(settings: ScanSettings) -> SkipRule:
    """Return the rule by which a scan skips files."""
    return SkipRule(
        settings.visibility,
        settings.retired_ms,
        file_test(settings.residual, settings.projection.codec.schema.names),
        newest_may_fold=settings.has_tail,
    )


def plan_key_splits(
    stores: TableStores,
    layers: Sequence[Layer],
    options: ReadOptions,
    ranges: Sequence[KeyRange],
    codec: RowCodec,
    condition: Filter | None,
    skip: Callable[[Sequence[Layer]], Sequence[Layer]],
    sample: Sample | None = None,
    *,
    wal_bytes: int = 0,
) -> tuple[tuple[Split, ...], Filter | None]:
    """Return the splits, and the part of the condition that they do not fulfil by themselves.

    Parameters
    ----------
    ranges : key ranges to read, ascending, apart from each other
    skip : leaves out files that a scan does not need; a lookup of keys asks their filters instead
    sample : as for `plan_splits`; by default cut points are those of the indexes
    wal_bytes : size of the WAL, of which each split will get a part: its keys are taken to lie like those of the files
    """
    residual = condition
    if condition is not None:
        from slatespark.encoding.predicates import plan_keys

        found = plan_keys(condition, codec)
        residual = found.residual if found.residual.columns else None
        if found.points is not None:
            points = [key for key in found.points if key and any(keys.contains(key) for keys in ranges)]
            return plan_points(layers, points, target_bytes=options.split_bytes), residual
        ranges = [keys.intersect(each) for keys in found.ranges for each in overlapping_ranges(ranges, keys)]
    target_bytes = options.split_bytes
    if wal_bytes:  # each split leaves room for its rows of the WAL
        file_bytes = stored_bytes(layers)
        target_bytes = max(1, target_bytes * file_bytes // (file_bytes + wal_bytes))
    splits = plan_ranges(
        skip(layers),
        [keys for keys in ranges if not keys.is_empty()],
        target_bytes=target_bytes,
        sample=sample or partial(sample_indexes, stores),
        measure=partial(measure_slices, stores),
    )
    return splits, residual


def chosen_range(options: ReadOptions, codec: RowCodec) -> KeyRange:
    """Return the key range of the options; raises `OptionError` where the table has none."""
    given = list(options.given_keys)
    if given and not codec.is_raw:
        raise OptionError(
            f"{given[0]} is for raw tables, and this one has the key columns {', '.join(codec.key_columns)}.",
            todo="Use the option filter.",
        )
    return options.key_range


def scan_settings(
    stores: TableStores,
    snapshot: Snapshot,
    definition: TableDefinition,
    options: ReadOptions,
    projection: Projection,
    residual: Filter | None,
) -> ScanSettings:
    """Return what a scan of a snapshot shows; `residual` is the part of the condition that rows are tested by."""
    visibility = Visibility(
        max_seq=snapshot.max_seq,
        now_ms=snapshot.now_ms,
        include_expired=options.include_expired,
        include_deleted=options.include_deleted,
        all_versions=options.read_versions != "latest",
        max_create_ts_ms=snapshot.as_of_ts_ms,
    )
    hides_expired = not (visibility.include_expired or visibility.all_versions)
    return ScanSettings(
        visibility=visibility,
        projection=projection,
        fold=resolve_operator(options.merge_operator or definition.merge_operator),
        wal=without_flushed(stores, snapshot.wal, snapshot.manifest.last_l0_seq),
        wal_above_seq=snapshot.manifest.last_l0_seq,
        buffer_bytes=options.read_buffer_bytes,
        wal_buffer_bytes=options.wal_buffer_bytes,
        residual=residual,
        ignore_undecodable=options.ignore_undecodable,
        retired_ms=retired_until_ms(definition.retention_ms, snapshot.now_ms) if hides_expired else None,
        validity=_validity(stores, snapshot, definition, options) if options.shows_intervals else None,
        table=stores.url,
    )


def check_history(url: str, definition: TableDefinition, asked: str = "readVersions=intervals") -> None:
    """Raise `OptionError` where rows have no intervals; `asked` is the option or call that needs them."""
    if not definition.has_history:
        raise OptionError(
            f"{asked}: {url} is not a history table.",
            why="Other tables keep older versions only by chance.",
            todo="Create the table with history=true.",
        )


def _validity(
    stores: TableStores, snapshot: Snapshot, definition: TableDefinition, options: ReadOptions
) -> ValiditySettings:
    check_history(stores.url, definition)
    return ValiditySettings(
        now_ms=snapshot.now_ms,
        ends_by_expiry=not options.include_expired,
        retention_ms=definition.retention_ms,
        floor_ms=history_floor(stores, snapshot.manifest, definition),
    )


def fetch_as_of_join(
    stores: TableStores,
    options: ReadOptions,
    clock: Clock,
    rows: pa.Schema,
    names: Sequence[str],
    time_column: str,
    how: str,
) -> AsOfJoin:
    """Fix the snapshot of an as-of join, and check the rows that are to be joined.

    Parameters
    ----------
    options : what `parse_join` returned
    rows, names : the columns of the rows, with the types of key and time at least, and the names of all
    time_column, how : time column and kind of the join

    Raises
    ------
    OptionError
        When the table has no history.
    SchemaError, InvalidRequestError, HistoryTrimmedError
    """

    def check(definition: TableDefinition) -> list[str]:
        check_history(stores.url, definition, "asOf")
        added = added_columns(options, definition.codec())
        check_join_columns(rows, names, definition.codec(), time_column, added)
        return added

    snapshot, definition = resolve_held(stores, options, clock, check)
    codec, added = definition.codec(), check(definition)
    projection = project(replace(options, columns=tuple(added)), codec=codec)
    settings = scan_settings(stores, snapshot, definition, options, projection, None)
    assert settings.validity is not None  # the options ask for intervals
    layers = fetch_layers_of(stores, snapshot, None)
    return AsOfJoin(settings, settings.validity, layers, time_column, how, options.split_bytes)


def run_read(stores: TableStores, plan: ReadPlan, *, threads: int = 1) -> Iterator[pa.RecordBatch]:
    """Yield all rows of a plan in key order; `threads` splits are read at a time, and share the `readBuffer`."""
    yield from (batch for _, batch in numbered_batches(stores, plan, plan.splits, threads=threads))


def run_read_descending(stores: TableStores, plan: ReadPlan, *, threads: int = 1) -> Iterator[pa.RecordBatch]:
    """Yield all rows of a plan in descending key order; parts of `threads` splits at a time are held in memory."""
    splits = plan.splits[::-1]
    yield from (batch for _, batch in numbered_batches(stores, plan, splits, threads=threads, is_descending=True))


def numbered_batches(
    stores: TableStores, plan: ReadPlan, splits: Sequence[Split], *, threads: int, is_descending: bool = False
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of splits of a plan in their order, each batch with the number of its split."""
    buffer_bytes = plan.settings.buffer_bytes
    parallelism = min(threads, max(1, len(splits)))
    settings = replace(plan.settings, buffer_bytes=max(1, buffer_bytes // parallelism))
    tallies = [UndecodableRows() for _ in splits]  # threads may not share one
    scan_rows = scan_descending if is_descending else scan_split

    def scan(numbered: tuple[int, Split]) -> Iterator[pa.RecordBatch]:
        number, split = numbered
        return scan_rows(stores, split, settings, tallies[number])

    try:
        yield from ordered_batches([*enumerate(splits)], scan, threads=threads, ahead_bytes=buffer_bytes)
    finally:
        UndecodableRows(sum(each.count for each in tallies)).warn(plan.settings.table)


def options_for_order(order: str, options: Mapping[str, Any], *, threads: int = 1) -> dict[str, Any]:
    """Return read options for a read in key order, `asc` or `desc`, by some threads.

    Threads share the work by splits, and what is ahead of the consumer is held in memory: so splits are small.

    Raises
    ------
    OptionError
        For another order.
    """
    if order not in ("asc", "desc"):
        raise OptionError(f"order: {order!r} is not valid.", todo="Choose asc or desc.")
    small = DESCENDING_SPLIT_BYTES if order == "desc" else PARALLEL_SPLIT_BYTES if threads > 1 else None
    given = {name: value for name, value in options.items() if normalize_name(name) != "splitsize" or value is not None}
    if small is None or "splitsize" in map(normalize_name, given):
        return given
    return {"splitSize": small, **given}


def open_batches(stores: TableStores, plan: ReadPlan, order: str = "asc", *, threads: int = 1) -> pa.RecordBatchReader:
    """Return the rows of a plan as batches, in key order; the plan is of `options_for_order`."""
    run = run_read if order == "asc" else run_read_descending
    return pa.RecordBatchReader.from_batches(plan.schema, run(stores, plan, threads=threads))


def look_up(
    stores: TableStores, key: Sequence[Any], options: ReadOptions, clock: Clock, *, point: Point | None = None
) -> pa.RecordBatch | None:
    """Return the row of one key as a batch of one; None if there is none.

    Only files whose key range and bloom filter admit the key are read, and of them the blocks that may hold it.

    Parameters
    ----------
    key : a value for each key column
    point : read point of a transaction; None for the snapshot of the options

    Raises
    ------
    OptionError
        When the options have a key range.
    InvalidRequestError, HistoryTrimmedError, CorruptDataError, UnsupportedFormatError
    """
    options.refuse_keys("get")

    def encode(definition: TableDefinition) -> bytes:
        return definition.codec().encode_key(key)

    snapshot, definition = resolve_read(stores, options, clock, point, check=encode)
    wanted = [encode(definition)]
    plan = _fetch_look_up_plan(stores, snapshot, definition, wanted, options, point)
    batches = [batch for split in plan.splits for batch in scan_split(stores, split, plan.settings)]
    return batches[0].slice(0, 1) if batches else None


def fetch_look_up_plan(
    stores: TableStores, keys: Sequence[bytes], options: ReadOptions, clock: Clock, *, point: Point | None = None
) -> ReadPlan:
    """Return the plan of a read of some keys alone, given as they are encoded; the rest is as for `look_up`."""
    options.refuse_keys("getForUpdate")
    snapshot, definition = resolve_read(stores, options, clock, point)
    return _fetch_look_up_plan(stores, snapshot, definition, sorted(set(keys)), options, point)


def _fetch_look_up_plan(
    stores: TableStores,
    snapshot: Snapshot,
    definition: TableDefinition,
    keys: Sequence[bytes],
    options: ReadOptions,
    point: Point | None,
) -> ReadPlan:
    codec = definition.codec()
    columns = project(options, codec=codec)
    settings = scan_settings(stores, snapshot, definition, options, columns, bind_condition(options, codec))
    splits = plan_points(fetch_layers_of(stores, snapshot, point), keys, target_bytes=options.split_bytes)
    return _plan_of(snapshot, settings, splits)
