"""The commit of a load: the files of all its tasks become visible at once."""

from __future__ import annotations

from collections.abc import Sequence

from slatespark.table.clock import Clock
from slatespark.table.commit.commit import commit_write
from slatespark.table.commit.empty_commit import end_without_commit
from slatespark.table.commit.read_set import ReadSet
from slatespark.table.commit.tree_edit import DROP_TREES, KEEP_TREES
from slatespark.table.read.merge.merge_function import resolve_operator
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.records.operations import Operation
from slatespark.table.rows.sst_upload import NewFile
from slatespark.table.rows.throughput import clear_marks
from slatespark.table.stores import TableStores
from slatespark.table.write.load import Load


def commit_load(
    stores: TableStores,
    clock: Clock,
    load: Load,
    outputs: Sequence[tuple[NewFile, ...]],
    *,
    depends_on: ReadSet | None = None,
) -> CommitRecord | None:
    """Publish the files of all tasks in one manifest; see `commit_write` and `commit_beside_client`.

    Parameters
    ----------
    depends_on : the read set, which must be unchanged; by default the one in the options
    """
    if depends_on is None and load.options.read_set is not None:
        depends_on = ReadSet.from_text(load.options.read_set)
    if load.bytes_per_s is not None:
        clear_marks(stores.main, load.job.write_id)
    if load.encoder.sequence_column is not None or load.encoder.has_times or _shares_operands(load, outputs):
        from slatespark.table.rows.overlaps import merge_overlaps  # here and below: most loads need none of these

        first_seq, fold = load.job.stamp(0, load.options).seq, resolve_operator(load.merge_operator)
        outputs = merge_overlaps(
            stores,
            clock,
            outputs,
            load.encoder,
            load.options,
            first_seq=first_seq,
            fold=fold,
            segments=load.job.segments,
        )
    if load.keeps_past and load.encoder.bounds is not None:
        from slatespark.table.write.history_replace import upload_tombstones

        tombstones, interval = upload_tombstones(stores, clock, load.job, load.options, load.encoder.bounds)
        outputs = (tombstones, *outputs)
        depends_on = interval if depends_on is None else depends_on.adding(ranges=interval.ranges)
    if load.encoder.bounds is not None and not load.keeps_past:
        from slatespark.table.write.range_replace import commit_cut

        keys = load.encoder.bounds.ranges
        return commit_cut(stores, clock, load.job, outputs, load.options, keys, depends_on=depends_on)
    if load.options.cooperates:
        if any(outputs):
            from slatespark.table.cooperation.load_commit import commit_beside_client

            return commit_beside_client(stores, clock, load.job, outputs, load.options)
        end_without_commit(stores, clock, load.job, load.options)
        return None
    edit = DROP_TREES if load.job.operation is Operation.OVERWRITE else KEEP_TREES
    return commit_write(stores, clock, load.job, outputs, load.options, edit=edit, depends_on=depends_on)


def _shares_operands(load: Load, outputs: Sequence[tuple[NewFile, ...]]) -> bool:
    """Tell whether operands of several tasks may have to be folded, as a live client takes one row of a key."""
    return load.options.cooperates and any(file.properties.merges for files in outputs for file in files)
