"""Whether a client committed a load, by the versions that exist."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from slatespark.errors import UnavailableError
from slatespark.format.manifest import Manifest, Segment
from slatespark.format.paths import manifest_path
from slatespark.format.references import SortedRun, SstMap, SstView
from slatespark.table.commit.handed_loads import find_commit_of, find_committed_load, find_load_seq, record_load
from slatespark.table.records.commit_record import CommitRecord, commit_path
from slatespark.table.records.commits import fetch_commit_record, publish_commit_record
from slatespark.table.records.handed_loads import HandedLoad, HandedPart, fetch_handed_loads, publish_handed_load
from slatespark.table.records.idempotent_writes import fetch_txn_record
from slatespark.table.stores import TableStores
from tests.unit.table.cooperation.lists import database, manifest, publish, sst

_names = itertools.count()
RECORD = CommitRecord(0, "cooperativeWrite", "0123456789abcdef", "slatespark", 5, 4, 9, 9)

OUTPUTS = (sst(50), sst(51))
BEFORE = manifest(l0=2, runs=(4,))
FLUSHED = replace(BEFORE, l0=(SstView(sst(60).id, sst(60).id), *BEFORE.l0), ssts=BEFORE.ssts.adding([sst(60)]))
SHOWN = Manifest(
    ssts=SstMap([*OUTPUTS, sst(60), *BEFORE.ssts.values()]),
    l0=FLUSHED.l0[:1],
    compacted=(SortedRun(5, tuple(SstView(each.id, each.id) for each in OUTPUTS)), *BEFORE.compacted),
)
MERGED = manifest(runs=(4,))  # and later merged with the rest

L0_PART = HandedPart(
    job_id="01M82BFQ5TC5DGSMW160FNH9A1",
    segment="",
    destination=5,
    l0_views=tuple(str(view.id) for view in BEFORE.l0),
    run_files=(),
    outputs=tuple(str(each.id) for each in OUTPUTS),
)
L0_LOAD = HandedLoad(base=1, parts=(L0_PART,), app="app", version=1, record=RECORD)


def versions(*later: Manifest) -> TableStores:
    stores = database(f"handed loads {next(_names)}", BEFORE)
    for number, each in enumerate(later, 2):
        publish(stores, number, each)
    return stores


@pytest.mark.parametrize(
    ("later", "found"),
    [
        pytest.param([], None, id="nothing yet"),
        pytest.param([FLUSHED], None, id="only a flush"),
        pytest.param([FLUSHED, SHOWN], 3, id="committed"),
        pytest.param([SHOWN, MERGED], 2, id="merged since"),
        pytest.param([MERGED], None, id="others merged the sources"),
    ],
)
def test_a_load_that_replaces_l0(later: list[Manifest], found: int | None) -> None:
    assert find_commit_of(versions(*later), L0_LOAD) == found


def test_a_load_that_replaces_a_run_of_the_same_number() -> None:
    before = manifest(runs=(4, 3))
    after = replace(
        before,
        compacted=(SortedRun(4, tuple(SstView(each.id, each.id) for each in OUTPUTS)), before.compacted[1]),
        ssts=before.ssts.adding(OUTPUTS),
    )
    files = tuple(str(view.sst_id) for view in before.compacted[0].views)
    load = replace(L0_LOAD, parts=(replace(L0_PART, destination=4, l0_views=(), run_files=files),))
    stores = database(f"handed loads {next(_names)}", before)
    publish(stores, 2, before)
    assert find_commit_of(stores, load) is None
    publish(stores, 3, after)
    assert find_commit_of(stores, load) == 3


def test_a_load_that_changes_nothing_is_committed_where_its_run_is() -> None:
    """Deletions of keys that nothing holds: the run that they become has no file."""
    load = replace(L0_LOAD, parts=(replace(L0_PART, l0_views=(), outputs=()),))
    stores = versions(FLUSHED)
    assert find_commit_of(stores, load) is None
    publish(stores, 3, replace(FLUSHED, compacted=(SortedRun(5, ()), *FLUSHED.compacted)))
    assert find_commit_of(stores, load) == 3


def test_what_cannot_be_known_is_an_error() -> None:
    stores = versions(SHOWN, MERGED)
    stores.main.delete(manifest_path(2))
    with pytest.raises(UnavailableError, match=L0_LOAD.path):
        find_commit_of(stores, L0_LOAD)
    still_there = versions(FLUSHED, FLUSHED)
    still_there.main.delete(manifest_path(2))
    assert find_commit_of(still_there, L0_LOAD) is None


def segments(*runs: int) -> Manifest:
    """Segments a and b, of one file each: the run of that number."""
    files = [sst(70 + run) for run in runs]
    trees = [
        Segment(prefix, None, (), (SortedRun(run, (SstView(file.id, file.id),)),))
        for prefix, run, file in zip((b"a", b"b"), runs, files, strict=True)
    ]
    return Manifest(ssts=SstMap(files), segments=tuple(trees), segment_extractor_name="first byte")


def rewritten(*outputs: int) -> Manifest:
    """The same with runs 1 and 2, of other files."""
    found = segments(*outputs)
    trees = [
        replace(each, compacted=(replace(each.compacted[0], id=run),))
        for each, run in zip(found.segments, (1, 2), strict=True)
    ]
    return replace(found, segments=tuple(trees))


def part_of_segment(prefix: bytes, run: int, output: int) -> HandedPart:
    return HandedPart(str(run), prefix.hex(), run, (), (str(sst(70 + run).id),), (str(sst(70 + output).id),))


def test_a_load_of_two_segments_is_committed_in_one_version() -> None:
    load = replace(L0_LOAD, parts=(part_of_segment(b"a", 1, 11), part_of_segment(b"b", 2, 12)))
    stores = database(f"handed loads {next(_names)}", segments(1, 2))
    publish(stores, 2, segments(1, 2))
    assert find_commit_of(stores, load) is None
    publish(stores, 3, rewritten(11, 12))
    assert find_commit_of(stores, load) == 3
    stores = database(f"handed loads {next(_names)}", segments(1, 2))
    publish(stores, 2, rewritten(11, 13))
    with pytest.raises(UnavailableError, match="62"):  # somebody else rewrote segment b
        find_commit_of(stores, load)


def test_a_pair_is_found_by_its_load() -> None:
    stores = versions(FLUSHED)
    publish_handed_load(stores.main, L0_LOAD)
    assert find_committed_load(stores, ("app", 1)) is None
    publish(stores, 3, SHOWN)
    outcome = find_committed_load(stores, ("app", 1))
    assert outcome is not None
    assert (outcome.manifest_id, outcome.write_id) == (3, RECORD.write_id)
    assert find_committed_load(stores, ("app", 2)) is None


def test_the_record_of_the_commit_takes_the_place_of_the_load() -> None:
    stores = versions(SHOWN)
    publish_handed_load(stores.main, L0_LOAD)
    record = record_load(stores, L0_LOAD, 2, 99)
    assert record == replace(RECORD, manifest_id=2, committed_ms=99)
    assert fetch_commit_record(stores.main, 2) == record
    assert fetch_handed_loads(stores.main) == []
    outcome = fetch_txn_record(stores.main, "app", 1)
    assert outcome is not None
    assert outcome.manifest_id == 2


def test_a_client_may_commit_another_write_in_the_same_version() -> None:
    """The other one has the record of the version, so this one stays known by its load."""
    stores = versions(SHOWN)
    publish_handed_load(stores.main, L0_LOAD)
    other = replace(RECORD, manifest_id=2, write_id="f" * 16, first_seq=7, last_seq=7)
    publish_commit_record(stores.main, other)
    record_load(stores, L0_LOAD, 2, 99)
    assert fetch_handed_loads(stores.main) == [L0_LOAD]
    assert fetch_txn_record(stores.main, "app", 1) is not None
    assert find_load_seq(stores, 2, {sst(50).id}) == 7
    stores.main.delete(commit_path(2))
    publish_commit_record(stores.main, replace(other, operation="compact"))
    assert find_load_seq(stores, 2, {sst(50).id}) == RECORD.first_seq
