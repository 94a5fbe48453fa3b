"""Files and layers of a table, for people and scripts: listed by `slatespark files`, and shown in pictures of layers.

They come from the manifest, with two exceptions: row counts cost one request per file, and file properties from commit
records one per record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from slatespark.format.properties import VERSION as PROPERTIES_VERSION
from slatespark.format.properties import SstProperties
from slatespark.format.segments import KeySegments
from slatespark.format.stats import SstStats
from slatespark.format.ulid import Ulid
from slatespark.options import Call, ReadOptions
from slatespark.shown import Shown
from slatespark.table.clock import Clock
from slatespark.table.definition.versions import resolve_definition
from slatespark.table.read.copies.stored import list_copies
from slatespark.table.read.fetch import fetch_stats
from slatespark.table.read.gaps import may_show_rows
from slatespark.table.read.planning.layers import distinct_files, fetch_layers
from slatespark.table.read.planning.plan import FileSlice, Layer, SstFile
from slatespark.table.read.versions.file_properties import MAX_COMMIT_RECORDS, file_properties
from slatespark.table.read.versions.resolve import resolve_snapshot
from slatespark.table.stores import OWN_ROOT, TableStores


@dataclass(frozen=True, slots=True, repr=False)
class FileFacts(Shown):
    """A file, or a part of one, as a layer shows it.

    Attributes
    ----------
    layer : `L0` or `run 7`; layers are listed newest first
    root : URL of the database that owns the file; None for this one
    start, end : keys [start, end) that the layer shows of it; None is open
    stored_bytes : the stored bytes of the whole file without its footer
    created_ms : time of creation
    rows, blocks : numbers from the file's statistics, if requested
    min_seq, max_seq, min_create_ms, max_create_ms, min_expire_ms, max_expire_ms : bounds from slatespark's commit
        records
    features : features used by its rows, from slatespark's commit records: `create_ts`, `ttl`, `tombstones`, `merges`;
        None if unknown, as for files of other clients
    properties_version : format version of the properties; None without any
    shows_rows : False if no key can lie between `start` and `end`: a commit, compaction or vacuum removes such a view
    segment : prefix of its segment; None in a table without segments
    copy_bytes : size of its columnar copy; None if it has none
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
    features: tuple[str, ...] | None = None
    properties_version: int | None = None
    shows_rows: bool = True
    segment: bytes | None = None
    copy_bytes: int | None = None


@dataclass(frozen=True, slots=True, repr=False)
class LayerFacts(Shown):
    """A layer, the unit of a search step: an L0 view, or a sorted run.

    Attributes
    ----------
    number : 0 is the newest layer
    name : `L0` or `run 7`; trees of several segments may repeat it
    files : number of different files
    stored_bytes : the stored bytes of the whole files
    start, end : keys [start, end) from its first to its last; None is open
    parts : its files in key order
    segment : prefix of its segment; None in a table without segments
    """

    number: int
    name: str
    files: int
    stored_bytes: int
    start: bytes
    end: bytes | None
    parts: tuple[FileFacts, ...]
    segment: bytes | None = None


def list_files(
    stores: TableStores, options: ReadOptions, clock: Clock, *, count_rows: bool = False
) -> tuple[FileFacts, ...]:
    """Return the files of the version that a read with these options resolves to, layer by layer, newest first."""
    options.require_options_of(Call.INSPECTION, "A list of files")
    manifest = resolve_snapshot(stores, options, clock).manifest
    layers = fetch_layers(stores, manifest)
    known = file_properties(stores, manifest, limit=MAX_COMMIT_RECORDS)
    stats = {file: fetch_stats(stores, file) for file in distinct_files(layers)} if count_rows else {}
    codec, segments = resolve_definition(stores, manifest).codec(), KeySegments.of(manifest)
    copies = list_copies(stores.main)
    return tuple(
        replace(
            _file_facts(layer, part, known, stats, segments),
            shows_rows=may_show_rows(part.keys, part.file.info, codec),
            copy_bytes=copies[part.file.id].size if part.file.root == OWN_ROOT and part.file.id in copies else None,
        )
        for layer in layers
        for part in layer.slices
    )


def list_layers(stores: TableStores, options: ReadOptions, clock: Clock) -> tuple[LayerFacts, ...]:
    """Return the layers of the version that a read with these options resolves to, newest first, from the manifest."""
    options.require_options_of(Call.INSPECTION, "A list of layers")
    manifest = resolve_snapshot(stores, options, clock).manifest
    return layer_facts(fetch_layers(stores, manifest), KeySegments.of(manifest))


def layer_facts(layers: Sequence[Layer], segments: KeySegments) -> tuple[LayerFacts, ...]:
    """Return the facts of layers, in the same order."""
    return tuple(_layer_facts(number, layer, segments) for number, layer in enumerate(layers))


def _layer_facts(number: int, layer: Layer, segments: KeySegments) -> LayerFacts:
    files = distinct_files([layer])
    ends = [part.keys.end for part in layer.slices]
    return LayerFacts(
        number=number,
        name=layer.name,
        files=len(files),
        stored_bytes=sum(file.info.sections_end for file in files),
        start=min((part.keys.start for part in layer.slices), default=b""),
        end=None if None in ends else max((end for end in ends if end is not None), default=None),
        parts=tuple(_file_facts(layer, part, {}, {}, segments) for part in layer.slices),
        segment=_segment_of(layer.slices[0], segments) if layer.slices else None,
    )


def _segment_of(part: FileSlice, segments: KeySegments) -> bytes | None:
    """Return the prefix of the segment that a file belongs to; None in a table without segments."""
    return segments.find_prefix(part.keys.start) or None


def _file_facts(
    layer: Layer,
    part: FileSlice,
    known: Mapping[Ulid, SstProperties],
    stats: Mapping[SstFile, SstStats | None],
    segments: KeySegments,
) -> FileFacts:
    file = part.file
    counted, properties = stats.get(file), known.get(file.id)
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
        segment=_segment_of(part, segments),
    )
    if properties is None:
        return facts
    return replace(
        facts,
        created_ms=properties.created_ms,
        rows=properties.num_rows,
        min_seq=properties.min_seq,
        max_seq=properties.max_seq,
        min_create_ms=properties.min_create_ts,
        max_create_ms=properties.max_create_ts,
        min_expire_ms=properties.min_expire_ts,
        max_expire_ms=properties.max_expire_ts,
        features=properties.features(),
        properties_version=PROPERTIES_VERSION,
    )
