"""The beginning of a transaction: its read point, its lease, and the base of its sequence numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from slatespark.table.clock import Clock
from slatespark.table.commit.cooperate_option import refuse_cooperation
from slatespark.table.commit.job import begin_write
from slatespark.table.definition.versions import resolve_definition
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read.merge.merge_function import resolve_operator
from slatespark.table.read.reader import resolve_held
from slatespark.table.read.versions.read_point import ReadPoint
from slatespark.table.records.operations import Operation
from slatespark.table.stores import TableStores
from slatespark.table.transaction.options import parse_begin
from slatespark.table.transaction.times import provisional_ms
from slatespark.table.transaction.transaction import Transaction


def begin_transaction(
    stores: TableStores, clock: Clock, common: Mapping[str, Any], timestamp: object, given: Mapping[str, Any]
) -> Transaction:
    """Return a transaction that reads the table as it is now, or as of an instant; publishes a lease.

    Parameters
    ----------
    common : options of reads and writes: path and storage
    timestamp : the instant to read as of; None for the newest state
    given : further options

    Raises
    ------
    OptionError
        When an option is unknown, or the instant lies in the future.
    HistoryTrimmedError
        When the requested past can no longer be read exactly.
    """
    options, read = parse_begin(common, given, timestamp)
    refuse_cooperation(options, "a transaction")
    resolve_operator(options.merge_operator)
    snapshot, _ = resolve_held(stores, read, clock)
    found = fetch_latest_manifest(stores) if read.reads_past else snapshot.version
    definition = resolve_definition(stores, found.value).declaring(options.properties)
    # After the snapshot: this looks for newer versions, so own sequence numbers lie above those of the snapshot.
    job = begin_write(stores, clock, operation=Operation.TRANSACTION, found=found, definition=definition)
    point = ReadPoint(snapshot, definition)
    job = replace(job, create_ts_ms=provisional_ms(job, point), is_provisional=True)
    return Transaction(
        stores,
        clock,
        common=common,
        begun=given,
        options=options,
        job=job,
        point=point,
        read_ms=read.timestamp_as_of_ms,
    )
