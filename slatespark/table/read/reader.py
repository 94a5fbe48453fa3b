"""A read from options to batches: snapshot, plan, scan. What Spark distributes and `SlateStore` runs in place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from slatespark.errors import InvalidRequestError
from slatespark.kernels import hash_key
from slatespark.kernels.columns import Visibility
from slatespark.options import ReadOptions
from slatespark.ranges import point_range
from slatespark.table.clock import Clock
from slatespark.table.read.arrow import Projection, project
from slatespark.table.read.fetch import external_roots, fetch_filter, sample_index
from slatespark.table.read.fold import resolve_operator
from slatespark.table.read.plan import Layer, Split, SstFile, cut_layers, plan_layers, plan_splits
from slatespark.table.read.scan import ScanSettings, scan_split
from slatespark.table.snapshot import Snapshot, resolve_snapshot
from slatespark.table.stores import TableStores


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What a read will do.

    Attributes
    ----------
    manifest_id : the version it reads
    now_ms : the instant at which it judges expiry
    settings : the same for all splits
    splits : in key order; each can be scanned on its own, by any process
    """

    manifest_id: int
    now_ms: int
    settings: ScanSettings
    splits: tuple[Split, ...]

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of the batches."""
        return self.settings.projection.schema


def plan_read(
    stores: TableStores, options: ReadOptions, clock: Clock, *, projection: Projection | None = None
) -> ReadPlan:
    """Fix the snapshot of a read and cut it into splits.

    Parameters
    ----------
    stores, options, clock : what to read, and how
    projection : the columns, if not those of the options

    Raises
    ------
    InvalidRequestError, HistoryTrimmedError, CorruptDataError, UnsupportedFormatError
    """
    snapshot = resolve_snapshot(stores, options, clock)
    keys = options.key_range
    layers = plan_layers(snapshot.manifest, external_roots(stores, snapshot.manifest))
    if keys.is_empty():
        splits: tuple[Split, ...] = ()
    else:
        splits = plan_splits(
            layers,
            keys,
            target_bytes=options.split_bytes,
            sample=lambda file, spacing_bytes: sample_index(stores, file, spacing_bytes),
        )
    settings = _settings(snapshot, options, projection or project(options))
    return ReadPlan(snapshot.manifest_id, snapshot.now_ms, settings, splits)


def _settings(snapshot: Snapshot, options: ReadOptions, projection: Projection) -> ScanSettings:
    visibility = Visibility(
        max_seq=snapshot.max_seq,
        now_ms=snapshot.now_ms,
        include_expired=options.include_expired,
        include_deleted=options.include_deleted,
        all_versions=options.read_versions == "all",
    )
    return ScanSettings(
        visibility=visibility,
        projection=projection,
        fold=resolve_operator(options.merge_operator),
        wal=snapshot.wal,
        wal_above_seq=snapshot.manifest.last_l0_seq,
        buffer_bytes=options.read_buffer_bytes,
    )


def run_read(stores: TableStores, plan: ReadPlan) -> Iterator[pa.RecordBatch]:
    """Yield all rows of a plan in key order."""
    for split in plan.splits:
        yield from scan_split(stores, split, plan.settings)


def run_read_descending(stores: TableStores, plan: ReadPlan) -> Iterator[pa.RecordBatch]:
    """Yield all rows of a plan in descending key order; one split at a time is held in memory.

    Requires: splits small enough to hold, so a plan made with a small `splitSize`.
    """
    for split in reversed(plan.splits):
        for batch in reversed(list(scan_split(stores, split, plan.settings))):
            yield batch.take(pa.array(np.arange(len(batch) - 1, -1, -1)))


def look_up(stores: TableStores, key: bytes, options: ReadOptions, clock: Clock) -> pa.RecordBatch | None:
    """Return the row of one key as a batch of one; None if there is none.

    Only files whose key range and bloom filter admit the key are read.
    """
    if not key:
        raise InvalidRequestError("The key is empty; SlateDB has no empty keys.", todo="Give a key.")
    snapshot = resolve_snapshot(stores, options, clock)
    layers = plan_layers(snapshot.manifest, external_roots(stores, snapshot.manifest))
    settings = _settings(snapshot, options, project(options))
    keys = point_range(key)
    admitted = tuple(layer for layer in cut_layers(layers, keys) if _may_hold(stores, layer, key))
    batches = list(scan_split(stores, Split(keys, admitted), settings))
    return batches[0].slice(0, 1) if batches else None


def _may_hold(stores: TableStores, layer: Layer, key: bytes) -> bool:
    """Tell whether a bloom filter of the layer admits the key; two files may hold it, at a shared boundary."""
    return any(_file_may_hold(stores, part.file, key) for part in layer.slices)


def _file_may_hold(stores: TableStores, file: SstFile, key: bytes) -> bool:
    filters = fetch_filter(stores, file)
    return filters is None or filters.may_contain(hash_key(key))
