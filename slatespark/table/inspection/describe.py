"""Facts of a table, for people and scripts: shown by `slatespark describe`, and in notebooks.

They come from the manifest, the definition and a few listings. Only counting rows costs more: one request per file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from slatespark.encoding.row_codec import RAW_CODEC, RowCodec
from slatespark.encoding.type_names import sql_type
from slatespark.errors import TableNotFoundError
from slatespark.format.codecs import Compression
from slatespark.format.envelope import open_envelope
from slatespark.format.manifest import NO_TICK, Manifest
from slatespark.format.segments import KeySegments
from slatespark.options import Call, ReadOptions
from slatespark.shown import Shown
from slatespark.storage import run_ahead
from slatespark.table.checkpoints.store import CheckpointFacts, checkpoint_facts
from slatespark.table.clock import Clock
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.definition.versions import fetch_definition
from slatespark.table.inspection.files import LayerFacts, layer_facts
from slatespark.table.log.compactions import fetch_compactions
from slatespark.table.log.manifests import list_manifests, manifest_log
from slatespark.table.log.versioned_object import Version
from slatespark.table.read.copies.stored import list_copies
from slatespark.table.read.fetch import fetch_stats
from slatespark.table.read.planning.layers import distinct_files, fetch_layers
from slatespark.table.read.planning.plan import Layer, SstFile, plan_layers
from slatespark.table.read.versions.floor import HistoryFloors, find_floors
from slatespark.table.read.versions.resolve import resolve_snapshot
from slatespark.table.snapshot import Snapshot
from slatespark.table.stores import TableStores


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
    """Row versions in files by kind, without those of the WAL."""

    puts: int
    deletes: int
    merges: int
    files_without_stats: int


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """A column of a typed table.

    Attributes
    ----------
    type : type in SQL syntax
    key : its position among the key columns, from 0; None for a value column
    """

    name: str
    type: str
    nullable: bool
    key: int | None


@dataclass(frozen=True, slots=True)
class DefinitionFacts:
    """The definition of a table, see `TableDefinition`.

    Attributes
    ----------
    version : the number of the definition
    columns : columns in the order of the table; none for a raw table
    properties : such as `defaultTtl`
    dropped_columns : names that may not be used again
    writer_schemas : number of schemas that stored values may have
    """

    version: int
    key_columns: tuple[str, ...]
    key_format: str
    value_format: str
    columns: tuple[ColumnFacts, ...]
    properties: Mapping[str, str]
    dropped_columns: tuple[str, ...]
    writer_schemas: int


@dataclass(frozen=True, slots=True, repr=False)
class TableFacts(Shown):
    """One version of a table.

    Attributes
    ----------
    kind : `raw`, key and value as bytes, or `typed`; `unknown` for a clone whose parent was not found
    manifest_format, sst_formats : versions of the envelope of the manifest, and of the files' blocks
    last_seq : highest visible sequence number, of files and WAL
    clock_tick_ms : highest create_ts of any row; None if nothing was ever written
    segments : prefixes, in hexadecimal
    segment_extractor : its name; None for a table without segments
    copies, copy_bytes : columnar copies of its files, and their size
    external : other databases that own files of this one
    versions : existing manifest ids, ascending
    rows : None unless requested
    definition : None for a raw table without properties
    history_floors : stored and effective; None for a plain table
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
    definition: DefinitionFacts | None = None
    history_floors: HistoryFloors | None = None
    segment_extractor: str | None = None
    copies: int = 0
    copy_bytes: int = 0


@dataclass(frozen=True, slots=True)
class TableSummary:
    """Summary of a table in one snapshot: facts, layers newest first, and the codec of its keys."""

    facts: TableFacts
    layers: tuple[LayerFacts, ...]
    codec: RowCodec


def describe_table(stores: TableStores, options: ReadOptions, clock: Clock, *, count_rows: bool = False) -> TableFacts:
    """Return the facts of the version that a read with these options sees.

    Raises
    ------
    TableNotFoundError, HistoryTrimmedError, CorruptDataError, UnsupportedFormatError, InvalidRequestError
    """
    options.require_options_of(Call.INSPECTION, "A description")
    snapshot = resolve_snapshot(stores, options, clock)
    manifest = snapshot.manifest
    # Only reading files requires their owners; without them the facts of a clone need no parent.
    layers = fetch_layers(stores, manifest) if count_rows else plan_layers(manifest, {})
    return _table_facts(stores, options, clock, snapshot, layers, _find_definition(stores, manifest), count_rows)


def summarise_table(stores: TableStores, options: ReadOptions, clock: Clock) -> TableSummary:
    """Return facts and layers of the version that a read with these options sees; raises as `describe_table`."""
    options.require_options_of(Call.INSPECTION, "A description")
    snapshot = resolve_snapshot(stores, options, clock)
    layers = plan_layers(snapshot.manifest, {})
    found = _find_definition(stores, snapshot.manifest)
    facts = _table_facts(stores, options, clock, snapshot, layers, found)
    codec = RAW_CODEC if found is None else found.value.codec()
    return TableSummary(facts, layer_facts(layers, KeySegments.of(snapshot.manifest)), codec)


def _table_facts(
    stores: TableStores,
    options: ReadOptions,
    clock: Clock,
    snapshot: Snapshot,
    layers: Sequence[Layer],
    definition: Version[TableDefinition] | None,
    count_rows: bool = False,
) -> TableFacts:
    is_remote = stores.main.is_remote
    copies_of = run_ahead(partial(list_copies, stores.main), is_remote=is_remote)
    stored = run_ahead(partial(manifest_log(stores).get, snapshot.manifest_id), is_remote=is_remote)
    jobs = run_ahead(partial(_jobs, stores), is_remote=is_remote)
    versions = run_ahead(partial(list_manifests, stores), is_remote=is_remote)
    manifest, files = snapshot.manifest, distinct_files(layers)
    borrowed = {sst_id for database in manifest.external_dbs for sst_id in database.sst_ids}
    owned = {file.id for file in files} - borrowed
    copies = [meta for sst_id, meta in copies_of().items() if sst_id in owned]
    return TableFacts(
        url=stores.url,
        kind="unknown" if definition is None else "typed" if definition.value.is_typed else "raw",
        version=snapshot.manifest_id,
        manifest_format=open_envelope(stored(), "Manifest")[0],
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
        checkpoints=tuple(checkpoint_facts(point) for point in manifest.checkpoints),
        external=_external(manifest),
        jobs=jobs(),
        versions=tuple(versions()),
        definition=None if definition is None else _definition(*definition),
        history_floors=None if definition is None else find_floors(stores, options, clock, snapshot, definition.value),
        segment_extractor=manifest.segment_extractor_name,
        copies=len(copies),
        copy_bytes=sum(meta.size for meta in copies),
    )


def _find_definition(stores: TableStores, manifest: Manifest) -> Version[TableDefinition] | None:
    """Return the definition, even an empty one; None if it belongs to a parent that was not found."""
    try:
        return fetch_definition(stores, manifest)
    except TableNotFoundError:
        return None


def _definition(version: int, definition: TableDefinition) -> DefinitionFacts | None:
    """Return the facts of a definition; None if it is empty."""
    if not definition.is_typed and not definition.properties:
        return None
    keys = definition.key_columns
    return DefinitionFacts(
        version=version,
        key_columns=keys,
        key_format=definition.key_format,
        value_format=definition.value_format,
        columns=tuple(
            ColumnFacts(item.name, sql_type(item), item.nullable, keys.index(item.name) if item.name in keys else None)
            for item in definition.schema or ()
        ),
        properties=dict(definition.properties),
        dropped_columns=tuple(definition.dropped_columns),
        writer_schemas=len(definition.writer_schemas),
    )


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
    found = [fetch_stats(stores, file) for file in files]
    known = [stats for stats in found if stats is not None]
    return RowFacts(
        puts=sum(stats.num_puts for stats in known),
        deletes=sum(stats.num_deletes for stats in known),
        merges=sum(stats.num_merges for stats in known),
        files_without_stats=len(found) - len(known),
    )


def _wal(snapshot: Snapshot) -> WalFacts:
    tail = snapshot.wal
    return WalFacts(tail.start, tail.end, tail.last_seq or None)


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
