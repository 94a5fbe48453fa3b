"""Compactions file <-> `Compactions`: the compactor's active jobs and the last one finished.

    00-01   u16be envelope version, 1 or 2; we write 2
    02-..   flatbuffer CompactionsV1, in both versions

In version 1 a tiered job has no destination field; the destination is its lowest run, or 0. Source:
`docs/reference/format/compactions.md`.
"""

# mypy: untyped-calls-exclude="slatespark.format._generated"

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias

import flatbuffers

from slatespark.errors import CorruptDataError, UnsupportedFormatError
from slatespark.format._generated import Compaction as JobTable
from slatespark.format._generated import CompactionsV1 as CompactionsTable
from slatespark.format._generated import DrainSegmentSpec as DrainTable
from slatespark.format._generated import Subcompaction as SubTable
from slatespark.format._generated import TieredCompactionContext as ContextTable
from slatespark.format._generated import TieredCompactionSpec as TieredTable
from slatespark.format._generated import WorkerSpec as WorkerTable
from slatespark.format.building import put_offsets, put_u32s, put_ulid, put_ulids
from slatespark.format.codecs import Buffer
from slatespark.format.envelope import open_envelope, refuse_unknown_fields, seal_envelope
from slatespark.format.references import (
    BytesRange,
    SstHandle,
    compacted_sst_of,
    put_compacted_sst,
    put_range,
    range_of,
)
from slatespark.format.schemas import (
    COMPACTION,
    COMPACTIONS_V1,
    DRAIN_SPEC,
    SUBCOMPACTION,
    TIERED_CONTEXT,
    TIERED_SPEC,
    WORKER_SPEC,
)
from slatespark.format.ulid import Ulid
from slatespark.format.verifier import verify
from slatespark.format.wire_columns import ulids_of
from slatespark.format.wire_table import WireTable, field_numbers

_TIERED: Final = 1
_DRAIN: Final = 2
_TIERED_CONTEXT: Final = 1

_EPOCH, _JOBS = field_numbers(COMPACTIONS_V1, "compactor_epoch", "recent_compactions")
_ID, _SPEC, _STATUS, _OUTPUTS, _WORKER, _CONTEXT = field_numbers(
    COMPACTION, "id", "spec", "status", "output_ssts", "worker", "ctx"
)
_SPEC_TYPE, _CONTEXT_TYPE = _SPEC - 1, _CONTEXT - 1  # of a union, the type comes first
_SSTS, _RUNS, _L0, _SEGMENT, _DESTINATION = field_numbers(
    TIERED_SPEC, "ssts", "sorted_runs", "l0_view_ids", "segment", "destination"
)
_DRAINED_SEGMENT, _DRAINED_L0, _DRAINED_RUNS = field_numbers(DRAIN_SPEC, "segment", "l0_view_ids", "sorted_runs")
_WORKER_ID, _HEARTBEAT = field_numbers(WORKER_SPEC, "worker_id", "last_heartbeat_ms")
_PARTS, _MIN_SEQ = field_numbers(TIERED_CONTEXT, "subcompactions", "retention_min_seq")
_PART_RANGE, _PART_OUTPUTS, _PART_STATUS = field_numbers(SUBCOMPACTION, "range", "output_ssts", "status")


class CompactionStatus(IntEnum):
    """State of a job. On disk, do not change."""

    SUBMITTED = 0
    RUNNING = 1
    COMPLETED = 2
    FAILED = 3
    COMPACTED = 4
    SCHEDULED = 5

    def is_active(self) -> bool:
        """Tell whether the job may still change the manifest."""
        return self not in (CompactionStatus.COMPLETED, CompactionStatus.FAILED)


@dataclass(frozen=True, slots=True)
class TieredSpec:
    """Merge the sources, newest first, into run `destination`.

    Attributes
    ----------
    segment : prefix of the tree, empty for the root
    """

    l0_view_ids: tuple[Ulid, ...]
    sorted_runs: tuple[int, ...]
    destination: int
    segment: bytes = b""


@dataclass(frozen=True, slots=True)
class DrainSpec:
    """Drop all sources of a segment."""

    segment: bytes
    l0_view_ids: tuple[Ulid, ...]
    sorted_runs: tuple[int, ...]


CompactionSpec: TypeAlias = TieredSpec | DrainSpec


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """The worker of a job and its last heartbeat."""

    worker_id: str
    last_heartbeat_ms: int


@dataclass(frozen=True, slots=True)
class Subcompaction:
    """A key range of a running job and its finished output files.

    Attributes
    ----------
    status : 0 in progress, 1 completed; clients before 0.18 do not write it
    """

    keys: BytesRange
    output_ssts: tuple[SstHandle, ...]
    status: int = 0


@dataclass(frozen=True, slots=True)
class TieredContext:
    """Progress of a running job."""

    subcompactions: tuple[Subcompaction, ...]
    retention_min_seq: int


@dataclass(frozen=True, slots=True)
class Compaction:
    """One job."""

    id: Ulid
    spec: CompactionSpec
    status: CompactionStatus
    output_ssts: tuple[SstHandle, ...] = ()
    worker: WorkerSpec | None = None
    context: TieredContext | None = None


@dataclass(frozen=True, slots=True)
class Compactions:
    """A version of the compactor's state. The order of jobs is not significant.

    Attributes
    ----------
    unknown_fields : fields that the object has and this class lacks, by name; such a file can be read, not changed
    """

    compactor_epoch: int
    jobs: tuple[Compaction, ...] = ()
    unknown_fields: frozenset[str] = frozenset()

    def active_jobs(self) -> tuple[Compaction, ...]:
        """Return the jobs that may still change the manifest."""
        return tuple(job for job in self.jobs if job.status.is_active())


def decode_compactions(data: Buffer) -> Compactions:
    """Decode a compactions file.

    Raises
    ------
    CorruptDataError : damaged
    UnsupportedFormatError : unknown envelope version, or unknown kind or status of a job
    """
    version, body = open_envelope(data, "Compactions file")
    unknown_fields = verify(body, COMPACTIONS_V1, what="compactions file")
    table = WireTable.root(body)
    jobs = tuple(_job_of(job, states_destination=version != 1) for job in table.tables(_JOBS))
    if len({job.id for job in jobs}) != len(jobs):
        raise CorruptDataError("The compactions file lists a job twice.")
    return Compactions(table.u64(_EPOCH), jobs, unknown_fields)


def _job_of(table: WireTable, *, states_destination: bool) -> Compaction:
    ulid, status = table.ulid(_ID), table.i8(_STATUS)
    if not 0 <= status < len(CompactionStatus):
        raise UnsupportedFormatError(
            f"Compaction {ulid} has status {status}, expected 0 to {len(CompactionStatus) - 1}."
        )
    return Compaction(
        id=ulid,
        spec=_spec_of(table, ulid, states_destination=states_destination),
        status=CompactionStatus(status),
        output_ssts=_handles_of(table.tables(_OUTPUTS)),
        worker=_worker_of(table),
        context=_context_of(table),
    )


def _worker_of(job: WireTable) -> WorkerSpec | None:
    worker = job.find(_WORKER)
    worker_id = None if worker is None else worker.text(_WORKER_ID)
    return None if worker is None or worker_id is None else WorkerSpec(worker_id, worker.u64(_HEARTBEAT))


def _spec_of(job: WireTable, ulid: Ulid, *, states_destination: bool) -> CompactionSpec:
    kind = job.u8(_SPEC_TYPE)
    if kind not in (_TIERED, _DRAIN):
        raise UnsupportedFormatError(f"Compaction {ulid} has kind {kind}, expected 1 (tiered) or 2 (drain).")
    spec = job.table(_SPEC)  # verified, as its kind is known
    if kind == _TIERED:
        runs = spec.u32s(_RUNS)
        # A client of before the views lists SSTs: there a view has the id of its SST.
        sources = _SSTS if spec.target(_L0) is None else _L0
        return TieredSpec(
            l0_view_ids=tuple(ulids_of(spec, sources)),
            sorted_runs=runs,
            destination=spec.u32(_DESTINATION) if states_destination else min(runs, default=0),
            segment=spec.octets(_SEGMENT) or b"",
        )
    return DrainSpec(
        segment=spec.octets(_DRAINED_SEGMENT) or b"",
        l0_view_ids=tuple(ulids_of(spec, _DRAINED_L0)),
        sorted_runs=spec.u32s(_DRAINED_RUNS),
    )


def _context_of(job: WireTable) -> TieredContext | None:
    if job.target(_CONTEXT) is None:
        return None
    kind = job.u8(_CONTEXT_TYPE)
    if kind != _TIERED_CONTEXT:
        raise UnsupportedFormatError(f"A compaction has a context of kind {kind}, expected 1 (tiered).")
    context = job.table(_CONTEXT)
    parts = (
        Subcompaction(range_of(part.table(_PART_RANGE)), _handles_of(part.tables(_PART_OUTPUTS)), part.i8(_PART_STATUS))
        for part in context.tables(_PARTS)
    )
    return TieredContext(tuple(parts), context.u64(_MIN_SEQ))


def _handles_of(tables: Iterable[WireTable]) -> tuple[SstHandle, ...]:
    """Return output files. They have no visible range: neither the client nor slatespark writes one."""
    handles = []
    for table in tables:
        handle, visible_range = compacted_sst_of(table)
        if visible_range is not None:
            raise UnsupportedFormatError(f"Compaction output {handle.id} has a visible range, expected none.")
        handles.append(handle)
    return tuple(handles)


def encode_compactions(compactions: Compactions) -> bytes:
    """Encode a compactions file, always as version 2.

    Raises
    ------
    UnsupportedFormatError : it was decoded from a file with fields that would be erased
    """
    refuse_unknown_fields(compactions.unknown_fields, "The list of compactions")
    builder = flatbuffers.Builder(1024)
    jobs = put_offsets(builder, [_put_job(builder, job) for job in compactions.jobs])
    CompactionsTable.Start(builder)
    CompactionsTable.AddCompactorEpoch(builder, compactions.compactor_epoch)
    CompactionsTable.AddRecentCompactions(builder, jobs)
    builder.Finish(CompactionsTable.End(builder))
    return seal_envelope(builder.Output())


def _put_job(builder: flatbuffers.Builder, job: Compaction) -> int:
    ulid = put_ulid(builder, job.id)
    tiered = isinstance(job.spec, TieredSpec)
    spec = _put_tiered(builder, job.spec) if isinstance(job.spec, TieredSpec) else _put_drain(builder, job.spec)
    outputs = put_offsets(builder, [put_compacted_sst(builder, handle) for handle in job.output_ssts])
    worker = None if job.worker is None else _put_worker(builder, job.worker)
    context = None if job.context is None else _put_context(builder, job.context)
    JobTable.Start(builder)
    JobTable.AddId(builder, ulid)
    JobTable.AddSpecType(builder, _TIERED if tiered else _DRAIN)
    JobTable.AddSpec(builder, spec)
    JobTable.AddStatus(builder, job.status)
    JobTable.AddOutputSsts(builder, outputs)
    if worker is not None:
        JobTable.AddWorker(builder, worker)
    if context is not None:
        JobTable.AddCtxType(builder, _TIERED_CONTEXT)
        JobTable.AddCtx(builder, context)
    return int(JobTable.End(builder))


def _put_tiered(builder: flatbuffers.Builder, spec: TieredSpec) -> int:
    runs, views = put_u32s(builder, spec.sorted_runs), put_ulids(builder, spec.l0_view_ids)
    segment = builder.CreateByteVector(spec.segment)
    TieredTable.Start(builder)
    TieredTable.AddSortedRuns(builder, runs)
    TieredTable.AddL0ViewIds(builder, views)
    TieredTable.AddSegment(builder, segment)
    TieredTable.AddDestination(builder, spec.destination)
    return int(TieredTable.End(builder))


def _put_drain(builder: flatbuffers.Builder, spec: DrainSpec) -> int:
    segment = builder.CreateByteVector(spec.segment)
    views, runs = put_ulids(builder, spec.l0_view_ids), put_u32s(builder, spec.sorted_runs)
    DrainTable.Start(builder)
    DrainTable.AddSegment(builder, segment)
    DrainTable.AddL0ViewIds(builder, views)
    DrainTable.AddSortedRuns(builder, runs)
    return int(DrainTable.End(builder))


def _put_worker(builder: flatbuffers.Builder, worker: WorkerSpec) -> int:
    worker_id = builder.CreateString(worker.worker_id)
    WorkerTable.Start(builder)
    WorkerTable.AddWorkerId(builder, worker_id)
    WorkerTable.AddLastHeartbeatMs(builder, worker.last_heartbeat_ms)
    return int(WorkerTable.End(builder))


def _put_context(builder: flatbuffers.Builder, context: TieredContext) -> int:
    parts = []
    for part in context.subcompactions:
        keys = put_range(builder, part.keys)
        outputs = put_offsets(builder, [put_compacted_sst(builder, handle) for handle in part.output_ssts])
        SubTable.Start(builder)
        SubTable.AddRange(builder, keys)
        SubTable.AddOutputSsts(builder, outputs)
        SubTable.AddStatus(builder, part.status)
        parts.append(SubTable.End(builder))
    subcompactions = put_offsets(builder, parts)
    ContextTable.Start(builder)
    ContextTable.AddSubcompactions(builder, subcompactions)
    ContextTable.AddRetentionMinSeq(builder, context.retention_min_seq)
    return int(ContextTable.End(builder))
