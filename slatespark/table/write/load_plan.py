"""Planning a load: checks a write against its table, before any task runs."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial

import pyarrow as pa

from slatespark.errors import OptionError, SlateError, TableExistsError, TableNotFoundError
from slatespark.format.manifest import Manifest
from slatespark.options import WriteOptions
from slatespark.storage import run_ahead
from slatespark.table.clock import Clock, read_clock
from slatespark.table.commit.cooperate_option import refuse_cooperation
from slatespark.table.commit.definition_run import check_creation
from slatespark.table.commit.idempotence import find_outcome
from slatespark.table.commit.job import begin_write, draw_write_id
from slatespark.table.commit.wal_place import fetch_state_with_wal, find_state_with_wal
from slatespark.table.definition.plan import plan_definition
from slatespark.table.definition.table_definition import NO_DEFINITION, TableDefinition
from slatespark.table.definition.versions import DefinitionFetch, resolve_definition
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.log.versioned_object import retry_lost_races
from slatespark.table.read.merge.merge_function import resolve_operator
from slatespark.table.records.leases import delete_lease, publish_lease
from slatespark.table.records.operations import Operation
from slatespark.table.rows.encoder import RowEncoder
from slatespark.table.rows.encoder_plan import lasting_columns, plan_encoder
from slatespark.table.rows.throughput import resolve_throughput
from slatespark.table.stores import TableStores
from slatespark.table.write.exact_ranges import find_segment, plan_bounds
from slatespark.table.write.load import Load


def begin_load(
    stores: TableStores,
    clock: Clock,
    schema: pa.Schema,
    options: WriteOptions,
    *,
    overwrite: bool = False,
    creates: bool = True,
) -> Load | None:
    """Check a write against its table, plan its tasks, and publish a lease; None when there is nothing to do.

    There is nothing to do if the table exists and `ifExists=ignore`, or if the write was committed before under its
    `txnAppId`. Then it leaves no object behind. The lease is there before the first file, whatever its age: an erasure
    collects files of any age.

    Parameters
    ----------
    creates : create the table if there is none; else that is an error

    Raises
    ------
    TableNotFoundError
        When there is no table, and the write does not create it.
    TableExistsError
        When the table exists and `ifExists=error`.
    SchemaError, OptionError, InvalidRequestError, UnsupportedFormatError, ClockRegressionError
        When the write does not fit the table.
    """
    plan, name = partial(_plan_once, stores, clock, schema, options, overwrite, creates), f"{stores.url}: the table"
    # What is created first in a store shows whether that can be written to at all.
    if not (stores.main.is_remote and stores.heads.creations):
        return retry_lost_races(clock, lambda _: plan(None), name)
    write_id = draw_write_id(clock)
    published = run_ahead(partial(publish_lease, stores.main, write_id, read_clock(clock)), is_remote=True)
    load = None
    try:
        load = retry_lost_races(clock, lambda _: plan(write_id), name)
    finally:
        published()
        if load is None:
            delete_lease(stores.main, write_id)
    return load


def _plan_once(
    stores: TableStores,
    clock: Clock,
    schema: pa.Schema,
    options: WriteOptions,
    overwrite: bool,
    creates: bool,
    write_id: str | None,
) -> Load | None:
    _refuse_cooperation(stores, options, overwrite=overwrite)
    fetch = DefinitionFetch(stores)
    state = (find_state_with_wal if creates else fetch_state_with_wal)(stores, fetch.begin)
    found = None if state is None else state.version
    if found is not None and _is_settled(stores, found.value, options):
        return None
    resolve_operator(options.merge_operator)
    if found is None and options.cooperates:
        raise TableNotFoundError(
            f"{stores.url}: there is no table, so no client has it open.",
            todo="Create it with a client, or write with ifClientActive=fail.",
        )
    known = NO_DEFINITION if found is None else fetch.resolve(found).value
    if known.has_history:
        refuse_cooperation(options, "a history table")
    lasting = lasting_columns(schema, options, known)
    definition = plan_definition(known, lasting, options, is_new=found is None)
    if found is None:
        check_creation(stores, clock, definition, merge=options.merge_schema)
    encoder, operation = plan_rows(stores, schema, options, definition, overwrite=overwrite, is_new=found is None)
    bytes_per_s = resolve_throughput(stores.main, options.throughput_bytes_per_s)
    job = begin_write(
        stores,
        clock,
        operation=operation,
        found=found,
        definition=definition,
        timestamp_ms=options.timestamp_ms,
        state=state,
        write_id=write_id,
    )
    return Load(job, encoder, options, bytes_per_s)


def plan_rows(
    stores: TableStores,
    schema: pa.Schema,
    options: WriteOptions,
    definition: TableDefinition,
    *,
    overwrite: bool,
    is_new: bool,
) -> tuple[RowEncoder, Operation]:
    """Return how the rows of a write are encoded, and what the write does; raises where they do not fit the table.

    Parameters
    ----------
    is_new : whether the write creates the table
    """
    encoder = plan_encoder(schema, definition.codec(), options, own_time=definition.has_own_time)
    encoder = replace(encoder, bounds=plan_bounds(options, encoder.codec, overwrite=overwrite))
    if is_new and encoder.bounds is None and definition.has_history:
        overwrite = False  # there is nothing to replace, and rows of a concurrent creator must stay
    check_times(stores, definition, options, overwrite=overwrite and encoder.bounds is None)
    _refuse_times_of_interval(encoder)
    return encoder, _operation(overwrite=overwrite, is_interval=encoder.bounds is not None)


def _is_settled(stores: TableStores, latest: Manifest, options: WriteOptions) -> bool:
    """Tell whether there is nothing to do, as the table exists; raises `TableExistsError` for `ifExists=error`."""
    if find_outcome(stores, latest, options) is not None or options.if_exists == "ignore":
        return True
    if options.if_exists is not None:
        raise TableExistsError(f"{stores.url} exists already.", todo="Omit ifExists, or choose another path.")
    return False


def _refuse_times_of_interval(encoder: RowEncoder) -> None:
    if encoder.bounds is not None and encoder.has_times:
        raise OptionError(
            "timestampColumn: the rows of an interval are replaced at one time, that of the write.",
            todo="Give the write a timestamp, or delete the range and then write the rows.",
        )


def _refuse_cooperation(stores: TableStores, options: WriteOptions, *, overwrite: bool) -> None:
    """Refuse `ifClientActive=cooperate` for a write that needs cuts, checks, or times of its own."""
    if options.cooperates and (options.replace_where is not None or options.given_keys):
        instead = f"Upsert and delete rows by key{_dropping(stores, options)}."
        refuse_cooperation(options, "a replacement of intervals", instead)
    if overwrite:
        refuse_cooperation(options, "overwrite", "Upsert and delete rows by key.")
    if options.timestamp_column is not None:
        refuse_cooperation(options, "timestampColumn")
    if options.if_last_seq is not None:
        refuse_cooperation(options, "ifLastSeq", "Omit it.")
    if options.read_set is not None:
        refuse_cooperation(options, "a write that depends on a read")


def _dropping(stores: TableStores, options: WriteOptions) -> str:
    """Return what a client can do with the keys that a write replaces: drop them, if they are a segment; else empty."""
    with suppress(SlateError):  # the write is refused in any case
        manifest = fetch_latest_manifest(stores).value
        bounds = plan_bounds(options, resolve_definition(stores, manifest).codec(), overwrite=True)
        if bounds is not None and find_segment(bounds.ranges, manifest) is not None:
            given = "keyPrefix=..." if options.replace_where is None else f'"{options.replace_where}"'
            return f"; to remove all rows of this segment and write none, call deleteRange({given})"
    return ""


def check_times(
    stores: TableStores,
    definition: TableDefinition,
    options: WriteOptions,
    *,
    overwrite: bool,
    per_row: bool | None = None,
) -> None:
    """Refuse times that the table does not accept; raises `OptionError`.

    Parameters
    ----------
    per_row : whether each row has its own time; by default, whether `timestampColumn` is given
    """
    per_row = options.timestamp_column is not None if per_row is None else per_row
    if options.timestamp_column is not None and not definition.has_history:
        raise OptionError(
            f"timestampColumn: {stores.url} is not a history table.",
            why="On plain tables all rows of a write have the same time.",
            todo="Create the table with history=true, or give the write a timestamp.",
        )
    if definition.has_own_time and options.timestamp_ms is None and not per_row:
        raise OptionError(f"{stores.url} has clock=custom, and no timestamp is given.", todo="Give the timestamp.")
    if definition.has_own_time and options.ttl_from == "write":
        raise OptionError(
            f"ttlFrom=write: {stores.url} has clock=custom, so no clock tells the time of the write.",
            todo="Omit ttlFrom.",
        )
    if definition.has_history and overwrite:
        raise OptionError(
            f"{stores.url} is a history table, and cannot be overwritten.",
            why="An overwrite would remove its past.",
            todo="Use replaceWhere, or delete the rows and write the new ones; their earlier versions stay readable.",
        )


def _operation(*, overwrite: bool, is_interval: bool) -> Operation:
    if not overwrite:
        return Operation.WRITE
    return Operation.REPLACE if is_interval else Operation.OVERWRITE
