"""Manifest object -> `ManifestOutline`: enough to compare versions, at a fraction of the cost of a full decode.

Of an SST only the id is read, of a sorted run only its id and size. The sequence tracker is skipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Final

from slatespark.format.codecs import Buffer
from slatespark.format.envelope import open_envelope
from slatespark.format.schemas import (
    CHECKPOINT,
    COMPACTED_SST,
    COMPACTED_SST_V2,
    MANIFEST_V1,
    MANIFEST_V2,
    SEGMENT,
    SORTED_RUN,
    SORTED_RUN_V2,
    SST_VIEW,
)
from slatespark.format.ulid import Ulid
from slatespark.format.verifier import Kind, Slot, Table, verify
from slatespark.format.wire_columns import WireColumns
from slatespark.format.wire_table import WireTable, field_numbers


@dataclass(frozen=True, slots=True)
class ManifestOutline:
    """Summary of a version; see `Manifest`.

    Attributes
    ----------
    sst_ids : ids of all listed SSTs
    l0 : ids of the L0 views of all trees
    runs : id and number of views of the sorted runs of all trees
    checkpoints : id -> manifest id and second of expiry
    external_dbs : number of other databases whose SSTs it references
    """

    nonce: int
    initialized: bool
    writer_epoch: int
    compactor_epoch: int
    replay_after_wal_id: int
    wal_id_last_seen: int
    last_l0_seq: int
    sst_ids: frozenset[Ulid]
    l0: frozenset[Ulid]
    runs: frozenset[tuple[int, int]]
    checkpoints: dict[int, tuple[int, int]]
    external_dbs: int


def _part(table: Table, *names: str, **targets: Table) -> Table:
    """Return a table restricted to some fields; a vector of tables without a target is only counted."""
    slots = []
    for slot in table.slots:
        if slot.name in targets:
            slots.append(Slot(slot.name, slot.offset, slot.kind, required=slot.required, target=targets[slot.name]))
        elif slot.name in names and slot.kind is Kind.TABLES:
            slots.append(Slot(slot.name, slot.offset, Kind.SCALARS, width=4, required=slot.required))
        elif slot.name in names:
            slots.append(slot)
    return Table(table.name, tuple(slots))


_SCALARS: Final = (
    "manifest_id",
    "initialized",
    "writer_epoch",
    "compactor_epoch",
    "replay_after_wal_id",
    "wal_id_last_seen",
    "last_l0_seq",
    "external_dbs",
)
_CHECKPOINT = _part(CHECKPOINT, "id", "manifest_id", "checkpoint_expire_time_s")
_SEGMENT = _part(SEGMENT, l0=_part(SST_VIEW, "id"), compacted=_part(SORTED_RUN_V2, "id", "ssts"))
_V2 = _part(
    MANIFEST_V2,
    *_SCALARS,
    ssts=_part(COMPACTED_SST_V2, "id"),
    l0=_part(SST_VIEW, "id"),
    compacted=_part(SORTED_RUN_V2, "id", "ssts"),
    checkpoints=_CHECKPOINT,
    segments=_SEGMENT,
)
_SST_V1 = _part(COMPACTED_SST, "id")
_V1 = _part(
    MANIFEST_V1,
    *_SCALARS,
    l0=_SST_V1,
    compacted=_part(SORTED_RUN, "id", ssts=_SST_V1),
    checkpoints=_CHECKPOINT,
)
_SEGMENT_L0, _SEGMENT_RUNS = field_numbers(SEGMENT, "l0", "compacted")
_RUN_ID, _RUN_VIEWS = field_numbers(SORTED_RUN_V2, "id", "ssts")  # as in version 1
(_ID,) = field_numbers(COMPACTED_SST_V2, "id")  # as in every table that has one
_POINT_VERSION, _POINT_EXPIRY = field_numbers(CHECKPOINT, "manifest_id", "checkpoint_expire_time_s")


def decode_outline(data: Buffer) -> ManifestOutline:
    """Decode the outline of a manifest object.

    Raises
    ------
    CorruptDataError : damaged in the fields of the outline
    UnsupportedFormatError : unknown version of the envelope
    """
    version, body = open_envelope(data, "Manifest")
    verify(body, _V1 if version == 1 else _V2, what="manifest")
    table = WireTable.root(body)
    return _outline_of_v1(table) if version == 1 else _outline_of_v2(table)


def _outline_of_v2(table: WireTable) -> ManifestOutline:
    fields = MANIFEST_V2.field_numbers
    trees = [
        (_ids_of(table, fields["l0"]), table.tables(fields["compacted"])),
        *((_ids_of(one, _SEGMENT_L0), one.tables(_SEGMENT_RUNS)) for one in table.tables(fields["segments"])),
    ]
    l0 = frozenset(chain.from_iterable(l0 for l0, _ in trees))
    runs = frozenset((run.u32(_RUN_ID), run.count(_RUN_VIEWS)) for _, found in trees for run in found)
    return _outline(table, fields, frozenset(_ids_of(table, fields["ssts"])), l0, runs)


def _outline_of_v1(table: WireTable) -> ManifestOutline:
    fields = MANIFEST_V1.field_numbers
    l0 = frozenset(_ids_of(table, fields["l0"]))
    runs = table.tables(fields["compacted"])
    ids = l0.union(*(_ids_of(run, _RUN_VIEWS) for run in runs))
    sizes = frozenset((run.u32(_RUN_ID), run.count(_RUN_VIEWS)) for run in runs)
    return _outline(table, fields, ids, l0, sizes)


def _outline(
    table: WireTable,
    fields: dict[str, int],
    sst_ids: frozenset[Ulid],
    l0: frozenset[Ulid],
    runs: frozenset[tuple[int, int]],
) -> ManifestOutline:
    return ManifestOutline(
        nonce=table.u64(fields["manifest_id"]),
        initialized=table.i8(fields["initialized"]) != 0,
        writer_epoch=table.u64(fields["writer_epoch"]),
        compactor_epoch=table.u64(fields["compactor_epoch"]),
        replay_after_wal_id=table.u64(fields["replay_after_wal_id"]),
        wal_id_last_seen=table.u64(fields["wal_id_last_seen"]),
        last_l0_seq=table.u64(fields["last_l0_seq"]),
        sst_ids=sst_ids,
        l0=l0,
        runs=runs,
        checkpoints=dict(map(_checkpoint_of, table.tables(fields["checkpoints"]))),
        external_dbs=table.count(fields["external_dbs"]),
    )


def _ids_of(table: WireTable, field: int) -> list[Ulid]:
    """Return the ids of the tables of a vector."""
    many = WireColumns.of_vector(table, field)
    return [each.ulid(_ID) for each in table.tables(field)] if many is None else many.tables(_ID).ulids()


def _checkpoint_of(table: WireTable) -> tuple[int, tuple[int, int]]:
    return table.uuid(_ID).int, (table.u64(_POINT_VERSION), table.u32(_POINT_EXPIRY))
