# mypy: untyped-calls-exclude="slatespark.format._generated"

from __future__ import annotations

from dataclasses import replace

import flatbuffers
import pytest

from slatespark.errors import CorruptDataError, UnsupportedFormatError
from slatespark.format import compactions
from slatespark.format._generated import TieredCompactionSpec
from slatespark.format.building import put_u32s, put_ulids
from slatespark.format.compactions import (
    Compaction,
    Compactions,
    CompactionStatus,
    DrainSpec,
    Subcompaction,
    TieredContext,
    TieredSpec,
    WorkerSpec,
    decode_compactions,
    encode_compactions,
)
from slatespark.format.info import SstInfo
from slatespark.format.references import BytesRange, SstHandle
from slatespark.format.ulid import Ulid
from slatespark.ranges import ALL_KEYS, KeyRange

OUTPUT = SstHandle(Ulid(9), SstInfo(b"a", b"z", 100, 20, 100, 0))
TIERED = Compaction(
    id=Ulid(1),
    spec=TieredSpec((Ulid(2), Ulid(3)), (7, 5), 5, b"seg"),
    status=CompactionStatus.RUNNING,
    output_ssts=(OUTPUT,),
    worker=WorkerSpec("worker ü", 1 << 62),
    context=TieredContext(
        (
            Subcompaction(BytesRange.of(KeyRange(b"", b"m")), (OUTPUT,), status=1),
            Subcompaction(BytesRange.of(KeyRange(b"m", None)), ()),
        ),
        retention_min_seq=4,
    ),
)
DRAIN = Compaction(Ulid(4), DrainSpec(b"seg", (Ulid(2),), (1,)), CompactionStatus.COMPLETED)
PLAIN = Compaction(Ulid(5), TieredSpec((), (9, 8), 8), CompactionStatus.SUBMITTED)
STATE = Compactions(3, (TIERED, DRAIN, PLAIN))


def test_every_field_round_trips() -> None:
    assert decode_compactions(encode_compactions(STATE)) == STATE
    assert decode_compactions(memoryview(encode_compactions(Compactions(0)))) == Compactions(0)


@pytest.mark.parametrize("status", list(CompactionStatus))
def test_every_status_round_trips(status: CompactionStatus) -> None:
    state = Compactions(1, (replace(PLAIN, status=status),))
    assert decode_compactions(encode_compactions(state)) == state
    finished = status in (CompactionStatus.COMPLETED, CompactionStatus.FAILED)
    assert state.active_jobs() == (() if finished else state.jobs)


def test_version_one_takes_the_lowest_run_as_destination() -> None:
    state = Compactions(
        1,
        (
            replace(TIERED, spec=TieredSpec((Ulid(2),), (7, 5), 99)),
            replace(PLAIN, spec=TieredSpec((Ulid(2),), (), 99)),
        ),
    )
    found = decode_compactions(b"\0\1" + encode_compactions(state)[2:])
    assert [job.spec.destination for job in found.jobs if isinstance(job.spec, TieredSpec)] == [5, 0]


def test_sources_of_a_client_of_before_the_views(monkeypatch: pytest.MonkeyPatch) -> None:
    def put_old(builder: flatbuffers.Builder, spec: TieredSpec) -> int:
        runs, ssts = put_u32s(builder, spec.sorted_runs), put_ulids(builder, spec.l0_view_ids)
        TieredCompactionSpec.Start(builder)
        TieredCompactionSpec.AddSsts(builder, ssts)
        TieredCompactionSpec.AddSortedRuns(builder, runs)
        return int(TieredCompactionSpec.End(builder))

    with monkeypatch.context() as patched:
        patched.setattr(compactions, "_put_tiered", put_old)
        data = encode_compactions(Compactions(1, (replace(TIERED, spec=TieredSpec((Ulid(2), Ulid(3)), (7,), 7)),)))
    found = decode_compactions(b"\0\1" + data[2:])
    assert found.jobs[0].spec == TieredSpec((Ulid(2), Ulid(3)), (7,), 7)
    assert decode_compactions(encode_compactions(found)) == found


def test_a_kind_of_jobs_that_is_not_known_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(compactions, "_DRAIN", 200)
        data = encode_compactions(Compactions(1, (DRAIN,)))
    with pytest.raises(UnsupportedFormatError, match="kind 200"):
        decode_compactions(data)


def test_the_envelope_is_checked() -> None:
    data = encode_compactions(STATE)
    with pytest.raises(UnsupportedFormatError, match="version"):
        decode_compactions(b"\0\3" + data[2:])
    for damaged in (b"", b"\0\2", b"\0\0" + data[2:], b"<html>"):
        with pytest.raises(CorruptDataError):
            decode_compactions(damaged)


def test_a_job_listed_twice_is_refused() -> None:
    with pytest.raises(CorruptDataError, match="twice"):
        decode_compactions(encode_compactions(Compactions(1, (PLAIN, PLAIN))))


def test_a_job_without_key_range_covers_all() -> None:
    assert BytesRange.of(ALL_KEYS).key_range() == ALL_KEYS
