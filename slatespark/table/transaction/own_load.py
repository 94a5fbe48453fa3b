"""The plan of one write of a transaction, whose rows get the provisional time of the transaction."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from slatespark.options import WriteOptions
from slatespark.table.clock import Clock
from slatespark.table.commit.job import WriteJob
from slatespark.table.definition.plan import plan_definition
from slatespark.table.rows.encoder_plan import lasting_columns, plan_encoder
from slatespark.table.stores import TableStores
from slatespark.table.transaction.options import has_instants
from slatespark.table.write.load import Load
from slatespark.table.write.load_plan import check_times


def plan_own_load(
    stores: TableStores, clock: Clock, job: WriteJob, schema: pa.Schema, options: WriteOptions, *, last_seq: int
) -> Load:
    """Return the plan of a write whose rows come after those that the transaction has written so far.

    Parameters
    ----------
    options : the options of this write
    last_seq : the highest sequence number of the transaction's own rows, 0 if it has none

    Raises
    ------
    SchemaError, OptionError, InvalidRequestError
        When rows or options do not fit.
    """
    current = job.definition
    plan_definition(current, lasting_columns(schema, options, current), options, is_new=False)
    check_times(stores, current, replace(options, timestamp_ms=job.create_ts_ms), overwrite=False)
    has_instants(options, current)  # refuses rows of both kinds
    encoder = plan_encoder(schema, current.codec(), options, own_time=current.has_own_time)
    base_seq = max(job.base_seq, last_seq)
    return Load(replace(job, base_seq=base_seq, planned_ms=clock.now_ms()), encoder, options)
