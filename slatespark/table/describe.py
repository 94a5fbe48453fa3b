"""Facts of a table, for people and scripts: what `slatespark describe` and `slatespark files` show.

All of it comes from the manifest and a few listings. Only counting rows costs more: one request per file.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from slatespark.errors import CorruptDataError
from slatespark.format.codecs import Compression
from slatespark.format.manifest import NO_TICK, Manifest
from slatespark.format.properties import SstProperties
from slatespark.format.stats import SstStats, decode_stats_section
from slatespark.options import ReadOptions
from slatespark.table.clock import Clock
from slatespark.table.read.fetch import external_roots, reading
from slatespark.table.read.plan import FileSlice, Layer, SstFile, plan_layers
from slatespark.table.records import fetch_commit_records
from slatespark.table.snapshot import Snapshot, manifest_log, resolve_snapshot
from slatespark.table.stores import OWN_ROOT, TableStores
from slatespark.table.write.protocol import fetch_compactions
from slatespark.units import s_to_ms

MAX_COMMIT_RECORDS: Final = 1000  # looked through for properties of files

_ENVELOPE = struct.Struct(">H")


@dataclass(frozen=True, slots=True)
class CheckpointFacts:
    """A checkpoint; `expires_ms` is None for one that stays."""

    id: str
    name: str | None
    version: int
    created_ms: int
    expires_ms: int | None


@dataclass(frozen=True, slots=True)
class ExternalFacts:
    """Another database that owns files of this one."""

    path: str
    files: int
    checkpoint: str | None


@dataclass(frozen=True, slots=True)
class JobFacts:
    """A compaction that has not ended."""

    id: str
    status: str
    created_ms: int
    sources: int
    worker: str | None
    heartbeat_ms: int | None


@dataclass(frozen=True, slots=True)
class CodecFacts:
    """How much of a table is stored with one codec."""

    codec: str
    files: int
    stored_bytes: int


@dataclass(frozen=True, slots=True)
class WalFacts:
    """The WAL files that hold rows above the trees: ids [start, end)."""

    start: int
    end: int
    last_seq: int | None


@dataclass(frozen=True, slots=True)
class RowFacts:
    """Row versions in files by kind; those of the WAL are not among them."""

    puts: int
    deletes: int
    merges: int
    files_without_stats: int


@dataclass(frozen=True, slots=True)
class TableFacts:
    """One version of a table.

    Attributes
    ----------
    kind : `raw`, key and value as bytes
    manifest_format, sst_formats : versions of the envelope of the manifest, and of the files' blocks
    last_seq : highest visible sequence number, of files and WAL
    clock_tick_ms : highest create_ts of any row; None when nothing was ever written
    segments : prefixes, in hexadecimal
    external : other databases that own files of this one
    versions : manifest ids that exist, ascending
    rows : only where they were asked for
    """

    url: str
    kind: str
    version: int
    manifest_format: int
    sst_formats: tuple[int, ...]
    writer_epoch: int
    compactor_epoch: int
    l0_views: int
    sorted_runs: int
    segments: tuple[str, ...]
    files: int
    stored_bytes: int
    codecs: tuple[CodecFacts, ...]
    rows: RowFacts | None
    last_seq: int
    clock_tick_ms: int | None
    wal: WalFacts
    checkpoints: tuple[CheckpointFacts, ...]
    external: tuple[ExternalFacts, ...]
    jobs: tuple[JobFacts, ...]
    versions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FileFacts:
    """A file, or a part of one, as a layer shows it.

    Attributes
    ----------
    layer : `L0` or `run 7`; layers are listed newest first
    root : URL of the database that owns the file; None for this one
    start, end : keys [start, end) that the layer shows of it; None is open
    stored_bytes : of the whole file, but for its footer
    rows, blocks : from the file's statistics, where they were asked for
    min_seq, max_seq, min_create_ms, max_create_ms, min_expire_ms, max_expire_ms : from our commit records
    """

    layer: str
    id: str
    root: str | None
    start: bytes
    end: bytes | None
    stored_bytes: int
    compression: str
    created_ms: int
    rows: int | None = None
    blocks: int | None = None
    min_seq: int | None = None
    max_seq: int | None = None
    min_create_ms: int | None = None
    max_create_ms: int | None = None
    min_expire_ms: int | None = None
    max_expire_ms: int | None = None


def describe_table(stores: TableStores, options: ReadOptions, clock: Clock, *, count_rows: bool = False) -> TableFacts:
    """Return the facts of the version that a read with these options sees.

    Raises
    ------
    TableNotFoundError, HistoryTrimmedError, CorruptDataError, UnsupportedFormatError, InvalidRequestError
    """
    snapshot = resolve_snapshot(stores, options, clock)
    manifest = snapshot.manifest
    files = _files(_layers(stores, manifest) if count_rows else plan_layers(manifest, {}))
    log = manifest_log(stores)
    return TableFacts(
        url=stores.url,
        kind="raw",
        version=snapshot.manifest_id,
        manifest_format=_ENVELOPE.unpack_from(log.get(snapshot.manifest_id))[0],
        sst_formats=tuple(sorted({file.format_version for file in files})),
        writer_epoch=manifest.writer_epoch,
        compactor_epoch=manifest.compactor_epoch,
        l0_views=sum(len(tree.l0) for tree in manifest.trees()),
        sorted_runs=sum(len(tree.compacted) for tree in manifest.trees()),
        segments=tuple(segment.prefix.hex() for segment in manifest.segments),
        files=len(files),
        stored_bytes=sum(file.info.sections_end for file in files),
        codecs=_codecs(files),
        rows=_count_rows(stores, files) if count_rows else None,
        last_seq=snapshot.max_seq,
        clock_tick_ms=snapshot.tick_ms if snapshot.tick_ms > NO_TICK else None,
        wal=_wal(snapshot),
        checkpoints=_checkpoints(manifest),
        external=_external(manifest),
        jobs=_jobs(stores),
        versions=tuple(log.numbers()),
    )


def list_files(
    stores: TableStores, options: ReadOptions, clock: Clock, *, count_rows: bool = False
) -> tuple[FileFacts, ...]:
    """Return the files of the version that a read with these options sees, layer by layer, newest first."""
    snapshot = resolve_snapshot(stores, options, clock)
    layers = _layers(stores, snapshot.manifest)
    known = _recorded_properties(stores, {str(file.id) for file in _files(layers)})
    stats = {file: _fetch_stats(stores, file) for file in _files(layers)} if count_rows else {}
    return tuple(_file_facts(layer, part, known, stats) for layer in layers for part in layer.slices)


def _layers(stores: TableStores, manifest: Manifest) -> tuple[Layer, ...]:
    return plan_layers(manifest, external_roots(stores, manifest))


def _files(layers: Iterable[Layer]) -> list[SstFile]:
    """Return every file once, in the order of the layers."""
    return list(dict.fromkeys(part.file for layer in layers for part in layer.slices))


def _codecs(files: Sequence[SstFile]) -> tuple[CodecFacts, ...]:
    counts = Counter(file.info.compression for file in files)
    return tuple(
        CodecFacts(
            codec.name.lower(),
            counts[codec],
            sum(file.info.sections_end for file in files if file.info.compression is codec),
        )
        for codec in Compression
        if counts[codec]
    )


def _count_rows(stores: TableStores, files: Sequence[SstFile]) -> RowFacts:
    found = [_fetch_stats(stores, file) for file in files]
    known = [stats for stats in found if stats is not None]
    return RowFacts(
        puts=sum(stats.num_puts for stats in known),
        deletes=sum(stats.num_deletes for stats in known),
        merges=sum(stats.num_merges for stats in known),
        files_without_stats=len(found) - len(known),
    )


def _fetch_stats(stores: TableStores, file: SstFile) -> SstStats | None:
    span = file.info.stats_range
    if span is None:
        return None
    store = stores.at(file.root)
    with reading(store, file.path, span.start):
        return decode_stats_section(store.get_range(file.path, span), file.info)


def _wal(snapshot: Snapshot) -> WalFacts:
    tail = snapshot.wal
    return WalFacts(tail.start, tail.end, tail.last_seq or None)


def _checkpoints(manifest: Manifest) -> tuple[CheckpointFacts, ...]:
    return tuple(
        CheckpointFacts(
            id=str(point.id),
            name=point.name,
            version=point.manifest_id,
            created_ms=s_to_ms(point.create_time_s),
            expires_ms=s_to_ms(point.expire_time_s) if point.expire_time_s else None,
        )
        for point in manifest.checkpoints
    )


def _external(manifest: Manifest) -> tuple[ExternalFacts, ...]:
    return tuple(
        ExternalFacts(
            path=database.path,
            files=len(database.sst_ids),
            checkpoint=None if database.final_checkpoint_id is None else str(database.final_checkpoint_id),
        )
        for database in manifest.external_dbs
    )


def _jobs(stores: TableStores) -> tuple[JobFacts, ...]:
    return tuple(
        JobFacts(
            id=str(job.id),
            status=job.status.name.lower(),
            created_ms=job.id.timestamp_ms,
            sources=len(job.spec.l0_view_ids) + len(job.spec.sorted_runs),
            worker=None if job.worker is None else job.worker.worker_id,
            heartbeat_ms=None if job.worker is None else job.worker.last_heartbeat_ms,
        )
        for job in fetch_compactions(stores)[1].active_jobs()
    )


def _recorded_properties(stores: TableStores, wanted: set[str]) -> dict[str, SstProperties]:
    """Return what our commit records say of files; they are best effort, so a damaged one says nothing."""
    found: dict[str, SstProperties] = {}
    try:
        for record in fetch_commit_records(stores.main, MAX_COMMIT_RECORDS):
            for file_id in wanted & set(record.files):
                found.setdefault(file_id, SstProperties.from_json(record.files[file_id]))
    except CorruptDataError:
        return found
    return found


def _file_facts(
    layer: Layer, part: FileSlice, known: Mapping[str, SstProperties], stats: Mapping[SstFile, SstStats | None]
) -> FileFacts:
    file = part.file
    counted, properties = stats.get(file), known.get(str(file.id))
    facts = FileFacts(
        layer=layer.name,
        id=str(file.id),
        root=None if file.root == OWN_ROOT else file.root,
        start=part.keys.start,
        end=part.keys.end,
        stored_bytes=file.info.sections_end,
        compression=file.info.compression.name.lower(),
        created_ms=file.id.timestamp_ms,
        rows=None if counted is None else counted.num_rows,
        blocks=None if counted is None else len(counted.block_counts) or None,
    )
    if properties is None:
        return facts
    return replace(
        facts,
        rows=properties.num_rows,
        min_seq=properties.min_seq,
        max_seq=properties.max_seq,
        min_create_ms=properties.min_create_ts,
        max_create_ms=properties.max_create_ts,
        min_expire_ms=properties.min_expire_ts,
        max_expire_ms=properties.max_expire_ts,
    )
