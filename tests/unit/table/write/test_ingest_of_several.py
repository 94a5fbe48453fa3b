"""What an ingest refuses as a write does: times and operands of files that would get lost, or count twice."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slatespark import InvalidRequestError, OptionError, SlateStore, SstWriter
from tests.support.fake_clock import FakeClock
from tests.support.our_reads import our_rows

NOW_MS = 1_700_000_000_000
MADE_MS = NOW_MS - 5000  # by another clock, elsewhere
HOUR_MS = 3_600_000
SCHEMA = "id BIGINT, v BIGINT, t TIMESTAMP, u TIMESTAMP"

_numbers = count()


def new_store(schema: str | None = SCHEMA, **properties: Any) -> SlateStore:
    keys = None if schema is None else "id"
    url = f"memory://ingest-times-{next(_numbers)}"
    return SlateStore.create(url, schema, keys, **{"clock": FakeClock(NOW_MS), **properties})


def new_file(path: Path, rows: pa.Table, schema: str | None = None, **options: Any) -> str:
    keys = "id" if "id" in rows.column_names else None
    SstWriter(str(path), schema, keys, clock=FakeClock(MADE_MS)).write(rows, **options)
    return str(path)


def timed(value: int, micros: int) -> pa.Table:
    time = pa.array([micros], pa.timestamp("us", "UTC"))
    return pa.table({"id": [1], "v": [value], "t": time, "u": time})


def pairs(**more: Any) -> pa.Table:
    return pa.table({"key": [b"a"], "value": [b"v"], **more})


def _reversed(value: bytes | None, operands: list[bytes]) -> bytes:
    return b"".join(reversed([*([] if value is None else [value]), *operands]))


# --- versions within a millisecond ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("micros", "more"),
    [
        ((1_000_900, 1_000_100), [{}, {}]),
        ((1_000_000, 1_000_100), [{}, {}]),
        ((1_000_900, 1_000_100), [{"sequenceColumn": "t"}, {"sequenceColumn": "t"}]),
        ((1_000_900, 1_000_100), [{}, {"timestampColumn": "u"}]),
    ],
    ids=["both cut", "one cut", "sequenceColumn", "other columns"],
)
def test_times_less_than_a_millisecond_apart(
    micros: tuple[int, int], more: list[dict[str, Any]], tmp_path: Path
) -> None:
    store = new_store(history=True)
    paths = [
        new_file(tmp_path / f"{n}.sst", timed(n, time), SCHEMA, **{"timestampColumn": "t", **more[n]})
        for n, time in enumerate(micros)
    ]
    with pytest.raises(InvalidRequestError, match="millisecond"):
        store.ingest(paths)
    assert store.scan(readVersions="all").read_all().num_rows == 0
    store.ingest(paths[0])  # alone it is what a write of its rows is


@pytest.mark.parametrize("micros", [(1_000_100, 1_001_100), (1_000_100, 1_000_100), (1_000_000, 1_000_000)])
def test_times_that_may_be_in_one_ingest(micros: tuple[int, int], tmp_path: Path) -> None:
    store = new_store(history=True)
    paths = [
        new_file(tmp_path / f"{n}.sst", timed(n, time), SCHEMA, timestampColumn="t") for n, time in enumerate(micros)
    ]
    store.ingest(paths)
    assert store.get(1, columns="v") == {"v": 1}
    assert store.scan(readVersions="all").read_all().num_rows == len(set(micros))


def test_equal_times_of_a_key_that_has_them(tmp_path: Path) -> None:
    url = f"memory://ingest-times-{next(_numbers)}"
    store = SlateStore.create(url, SCHEMA, "id,t", history=True, clock=FakeClock(NOW_MS))
    paths = [str(tmp_path / f"{n}.sst") for n in range(2)]
    for n, path in enumerate(paths):
        SstWriter(path, SCHEMA, "id,t", clock=FakeClock(MADE_MS)).write(timed(n, 1_000_100), timestampColumn="t")
    store.ingest(paths)
    assert store.scan(columns="v", readVersions="all").read_all().to_pylist() == [{"v": 1}]


def test_one_column_of_times_however_it_is_spelt(tmp_path: Path) -> None:
    store, rows = new_store(history=True), timed(0, 1_000_100)
    spelt = {"t": rows, "T": rows.rename_columns(["id", "v", "T", "u"])}
    store.ingest([new_file(tmp_path / f"{n}.sst", spelt[n], SCHEMA, timestampColumn=n) for n in spelt])
    assert store.scan(readVersions="all").read_all().num_rows == 1


def test_times_that_no_column_keeps(tmp_path: Path) -> None:
    """A raw table has bytes alone, so nothing tells what the times have lost."""
    store = new_store(None, history=True)
    time = pa.array([1_000_100], pa.timestamp("us", "UTC"))
    paths = [new_file(tmp_path / f"{n}.sst", pairs(t=time), timestampColumn="t") for n in range(2)]
    with pytest.raises(InvalidRequestError, match="millisecond"):
        store.ingest(paths)


# --- TTLs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", [None, "t"])
def test_a_ttl_from_the_write_beside_times_counts_from_the_ingest(column: str | None, tmp_path: Path) -> None:
    store = new_store(None, history=True)
    times = {"timestamp": 1000} if column is None else {"timestampColumn": "t"}
    rows = pairs() if column is None else pairs(t=pa.array([1000], pa.timestamp("ms")))
    store.ingest(new_file(tmp_path / "a.sst", rows, ttl="1h", ttlFrom="write", **times))
    assert [(row.create_ts, row.expire_ts) for row in our_rows(store)] == [(1000, NOW_MS + HOUR_MS)]


def test_instants_do_not_mix_with_ttls_from_the_write(tmp_path: Path) -> None:
    rows = pairs(gone=pa.array([NOW_MS + 5], pa.timestamp("ms")))
    options: dict[str, Any] = {"expireAtColumn": "gone", "ttlFrom": "write", "timestamp": 1000}
    with pytest.raises(OptionError, match="expireAtColumn"):
        new_file(tmp_path / "a.sst", rows, ttl="1h", **options)
    store = new_store(None, history=True)
    store.ingest(new_file(tmp_path / "b.sst", rows, **options))
    assert [row.expire_ts for row in our_rows(store)] == [NOW_MS + 5]


def test_a_ttl_from_the_write_needs_the_clock(tmp_path: Path) -> None:
    store = new_store(None, clock="custom")
    path = new_file(tmp_path / "a.sst", pairs(), ttl="1h", ttlFrom="write")
    with pytest.raises(OptionError, match="clock=custom"):
        store.write(pairs(), ttl="1h", ttlFrom="write", timestamp=5)
    with pytest.raises(OptionError, match=rf"{path}.*clock=custom"):
        store.ingest(path, timestamp=5)
    assert store.scan().read_all().num_rows == 0


# --- operands -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("options", "value"), [({}, b"01"), ({"mergeOperator": _reversed}, b"10")])
def test_operands_of_one_time_fold_by_the_property_unless_an_option_is_given(
    options: dict[str, Any], value: bytes, tmp_path: Path
) -> None:
    store = new_store(None, history=True, mergeOperator="concat")
    rows = [pairs().set_column(1, "value", pa.array([b"%d" % n])) for n in range(2)]
    paths = [new_file(tmp_path / f"{n}.sst", given, operation="merge", timestamp=1000) for n, given in enumerate(rows)]
    store.ingest(paths, **options)
    assert store.get(b"a") == {"key": b"a", "value": value}


@pytest.mark.parametrize("other", ["./a.sst", "../{folder}/a.sst", "link.sst", "link/a.sst"])
def test_a_file_under_two_paths_is_ingested_once(other: str, tmp_path: Path) -> None:
    store = new_store(None, history=True, mergeOperator="concat")
    path = new_file(tmp_path / "a.sst", pairs(), operation="merge", timestamp=1000)
    (tmp_path / "link.sst").symlink_to(path) if other == "link.sst" else (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(InvalidRequestError, match="twice"):
        store.ingest([path, f"{tmp_path}/{other.format(folder=tmp_path.name)}"])
    assert store.scan().read_all().num_rows == 0


# --- paths ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "paths", [None, 5, [1], [None], b"/tmp/a.sst", [""], ["/tmp/\ud800.sst"], "/tmp/\ud800/a.sst"], ids=ascii
)
def test_paths_that_are_none(paths: Any) -> None:
    with pytest.raises(OptionError, match="paths"):
        new_store(None).ingest(paths)
