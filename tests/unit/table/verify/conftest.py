from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pytest

from slatespark.format.manifest import Manifest
from slatespark.format.manifest_codec import decode_manifest, encode_manifest
from slatespark.format.paths import manifest_path
from slatespark.table.clock import SystemClock
from slatespark.table.stores import open_stores
from slatespark.table.verify.findings import Finding, VerifyReport
from slatespark.table.verify.run import verify_table
from tests.support.fixture_databases import FIXTURES


@dataclass(frozen=True)
class Copy:
    """A database that a test may damage."""

    folder: Path

    def verify(self, *, all_versions: bool = False) -> VerifyReport:
        stores = open_stores(str(self.folder), storage={"root": str(FIXTURES)})
        return verify_table(stores, SystemClock(), all_versions=all_versions)

    def findings(self, *, all_versions: bool = False) -> list[Finding]:
        return list(self.verify(all_versions=all_versions).findings)

    def newest(self, folder: str) -> Path:
        """The object with the highest name."""
        return max(path for path in (self.folder / folder).iterdir() if path.stat().st_size)

    @property
    def manifest_id(self) -> int:
        return int(self.newest("manifest").stem)

    def manifest(self) -> Manifest:
        return decode_manifest(self.newest("manifest").read_bytes())

    def publish(self, manifest: Manifest) -> None:
        """Make a manifest the newest, without any check."""
        (self.folder / manifest_path(self.manifest_id + 1)).write_bytes(encode_manifest(manifest))


CopyMaker: TypeAlias = Callable[[str], Copy]


@pytest.fixture
def copy_of(tmp_path: Path) -> CopyMaker:
    """Copy a database of the fixtures."""

    def make(name: str) -> Copy:
        shutil.copytree(FIXTURES / name, tmp_path / "database")
        return Copy(tmp_path / "database")

    return make


def flip(path: Path, offset: int, mask: int = 0x10) -> None:
    """Change one byte of a file."""
    data = bytearray(path.read_bytes())
    data[offset] ^= mask
    path.write_bytes(data)
