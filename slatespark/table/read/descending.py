"""Splits read in descending key order: in parts small enough to hold, from the last one to the first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import pyarrow as pa

from slatespark.table.read.arrow import turned
from slatespark.table.read.fetch import measure_slices, sample_indexes
from slatespark.table.read.materialise import UndecodableRows
from slatespark.table.read.planning.plan import Split, plan_ranges
from slatespark.table.read.planning.wal_share import WalShare
from slatespark.table.read.scan import scan_split
from slatespark.table.read.scan_settings import ScanSettings
from slatespark.table.stores import TableStores

DESCENDING_SPLIT_BYTES: Final = 8 << 20  # a descending read holds a split for each thread


def scan_descending(
    stores: TableStores, split: Split, settings: ScanSettings, tally: UndecodableRows
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split in descending key order; parameters and errors as for `scan_split`."""
    for part in reversed(_small_parts(stores, split)):
        for batch in reversed([*scan_split(stores, part, settings, tally)]):
            yield turned(batch)


def _small_parts(stores: TableStores, split: Split) -> Sequence[Split]:
    """Return a split in parts to hold one by one: a plan of many files cuts most of them at no key between."""
    whole = {part.file for layer in split.layers for part in layer.slices if part.is_whole}
    if split.points is not None or sum(file.data_bytes for file in whole) <= DESCENDING_SPLIT_BYTES:
        return (split,)
    parts = plan_ranges(
        split.layers,
        split.ranges or (split.keys,),
        target_bytes=DESCENDING_SPLIT_BYTES,
        sample=partial(sample_indexes, stores),
        measure=partial(measure_slices, stores),
    )
    return [replace(part, copies=split.copies, wal=_share(split, part)) for part in parts]


def _share(split: Split, part: Split) -> WalShare | None:
    return None if split.wal is None else split.wal.within(part.ranges or [part.keys])
