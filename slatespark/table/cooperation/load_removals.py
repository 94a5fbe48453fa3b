"""Deletions of a load that leave no row: transactions that have read such a key find them by a record.

Where nothing lies below the layers that a load is merged with, the merge drops its deletions, and rows of it that have
expired. Then neither a row nor, if all are gone, a file tells that keys have changed. See
docs/explanation/how-conflicts-are-found.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from slatespark.table.clock import Clock
from slatespark.table.cooperation.load_plan import LoadSources
from slatespark.table.records.filtered_jobs import FilteredJob, publish_filtered_job
from slatespark.table.records.handed_loads import HandedLoad
from slatespark.table.rows.sst_upload import NewFile
from slatespark.table.stores import TableStores


def record_load_removals(
    stores: TableStores,
    clock: Clock,
    load: HandedLoad,
    sources: Sequence[LoadSources],
    files: Mapping[bytes, Iterable[Sequence[NewFile]]],
) -> None:
    """Record which parts of a load may remove rows without a newer one, right before its hand-over.

    Parameters
    ----------
    sources : what each part is merged with
    files : files of the load, by task, by the prefix of their tree
    """
    for part, each in zip(load.parts, sources, strict=True):
        own = (file for task in files[each.tree.prefix] for file in task)
        if each.is_lowest and any(_may_remove(file, each.manifest.last_l0_clock_tick) for file in own):
            replaced = tuple(dict.fromkeys(str(one.file.id) for layer in each.layers for one in layer.slices))
            found = FilteredJob(part.job_id, part.segment, replaced, part.outputs)
            publish_filtered_job(stores.main, found, clock.random_bits(64))


def _may_remove(file: NewFile, tick_ms: int) -> bool:
    """Tell whether a file of a load has deletions, or rows that the merge takes for deletions as they have expired."""
    ends_ms = file.properties.min_expire_ts
    return file.properties.deletes > 0 or (ends_ms is not None and ends_ms <= tick_ms)
