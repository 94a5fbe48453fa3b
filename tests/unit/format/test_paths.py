from __future__ import annotations

import pytest

from slatespark.errors import CorruptDataError
from slatespark.format import paths
from slatespark.format.ulid import Ulid


def test_names_are_those_of_the_client() -> None:
    assert paths.manifest_path(7) == "manifest/00000000000000000007.manifest"
    assert paths.wal_path(7) == "wal/00000000000000000007.sst"
    assert paths.sst_path(Ulid(0)) == "compacted/00000000000000000000000000.sst"
    assert paths.boundary_path("compactions") == "gc/compactions.boundary"
    assert paths.sst_id("compacted/01M7YRCVEB9T5DR5R9WRNDXZHY.sst") == Ulid.parse("01M7YRCVEB9T5DR5R9WRNDXZHY")


@pytest.mark.parametrize(
    "name",
    [
        "manifest/7.manifest",
        "manifest/00000000000000000007",
        "manifest/00000000000000000007.manifest.tmp",
        "manifest/0000000000000000000x.manifest",
        "manifest/99999999999999999999.manifest",
        "manifest/.manifest",
        "",
        f"manifest/{chr(0x660) * 20}.manifest",
    ],
)
def test_foreign_names_are_ignored(name: str) -> None:
    assert paths.numbered(name, "manifest") is None


@pytest.mark.parametrize(
    "name", ["compacted/x.sst", "compacted/01M7YRCVEB9T5DR5R9WRNDXZHY", "compacted/01m7yrcveb9t5dr5r9wrndxzhy.sst"]
)
def test_foreign_ssts_are_ignored(name: str) -> None:
    assert paths.sst_id(name) is None


def test_objects_of_a_database_by_their_paths() -> None:
    own = [
        paths.manifest_path(1),
        paths.wal_path(1),
        paths.sst_path(Ulid(1)),
        paths.compactions_path(1),
        paths.boundary_path("manifest"),
        paths.boundary_path("compactions"),
        paths.DELETING_MARKER,
    ]
    assert all(map(paths.is_object, own))
    foreign = [path.rpartition("/")[0] + "/.DS_Store" for path in own]
    other = ["gc/wal.boundary", "manifest/00000000000000000001.sst", "notes.txt"]
    assert not any(map(paths.is_object, [*foreign, *other]))


def test_numbers_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="64-bit"):
        paths.manifest_path(-1)


@pytest.mark.parametrize("data", [b"", b"x", b"1\n", b"-1", b"18446744073709551616", b"1" * 50])
def test_damaged_boundaries_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptDataError):
        paths.decode_boundary(data)
