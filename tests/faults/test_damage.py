"""Damaged bytes: an error of ours that names the object, or the very rows that the real client reads from them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from slatespark import CorruptDataError, SlateError, SlateStore
from tests.faults.damage import (
    CODECS,
    Damage,
    InMemory,
    Objects,
    as_ours,
    damages,
    live_objects,
    make_by_client,
    make_by_us,
    read_objects,
    resealed,
    rows_of,
    scan_table,
)
from tests.support.client import Location, ScanRow, read_rows
from tests.support.cluster import REPOSITORY
from tests.support.effort import THOROUGH

MAKERS = {"client": make_by_client, "us": make_by_us}
CASES = [*(("client", codec) for codec in CODECS), ("us", "None"), ("us", "Zstd")]


class Bench:
    """A database that is damaged in memory for us, and on disk for the client."""

    def __init__(self, folder: Path, maker: str, codec: str) -> None:
        MAKERS[maker](folder, codec)
        self.folder = folder
        self.in_memory = InMemory(read_objects(folder))
        self.sound = scan_table(SlateStore.open(str(folder)))
        self.outcomes: Counter[str] = Counter()
        assert rows_of(self.sound) == self.client_rows()

    def client_rows(self) -> list[ScanRow]:
        return as_ours(read_rows(Location.local(self.folder)))

    def client_rows_of(self, damage: Damage) -> list[ScanRow] | Exception:
        """What the client makes of the same bytes; it stops at many of them."""
        file = self.folder / damage.path
        sound = file.read_bytes()
        if damage.data is None:
            file.unlink()
        else:
            file.write_bytes(damage.data)
        try:
            return self.client_rows()
        except Exception as error:  # whatever the binding raises
            return error
        finally:
            file.write_bytes(sound)

    def check(self, damage: Damage) -> None:
        """A full scan."""
        try:
            found = scan_table(self.in_memory.open(damage.path, damage.data))
        except SlateError as error:
            self.outcomes[self.named(error, damage)] += 1
            return
        if damage.path.startswith("wal/") and found.equals(self.sound):  # the trees may have all rows of the file
            self.outcomes["right"] += 1
            return
        theirs = self.client_rows_of(damage)
        if isinstance(theirs, Exception):
            # Then our rows may only be the right ones.
            assert found.equals(self.sound), (damage.name, theirs)
            self.outcomes["right, though the client stops"] += 1
        else:
            assert rows_of(found) == theirs, damage.name
            self.outcomes["rows"] += 1

    @staticmethod
    def named(error: SlateError, damage: Damage) -> str:
        """The class of an error, which must name an object."""
        folders = ("manifest/", "compacted/", "wal/", "compactions/", "gc/")
        names_object = any(folder in str(error) for folder in folders)
        assert names_object, (damage.name, str(error))
        assert not isinstance(error, CorruptDataError) or error.path, damage.name
        return type(error).__name__


@pytest.mark.slow
@pytest.mark.parametrize(("maker", "codec"), CASES)
def test_a_scan_of_damaged_objects(maker: str, codec: str, tmp_path: Path) -> None:
    bench = Bench(tmp_path / "db", maker, codec)
    rng = np.random.default_rng(CODECS.index(codec))
    stride = 1 if THOROUGH else 2 if codec == "None" else 6  # a codec changes little of what is read
    for damage in list(all_damages(bench.in_memory.objects, rng))[::stride]:
        bench.check(damage)
    assert bench.outcomes["CorruptDataError"] > 50 / stride
    assert bench.outcomes["rows"] > 25 / stride  # statistics, footers of SSTs, gaps: what no scan looks at
    assert bench.outcomes["right, though the client stops"] < 5


def all_damages(objects: Objects, rng: np.random.Generator) -> Iterator[Damage]:
    for path, kind in live_objects(objects).items():
        yield from damages(objects, path, kind, rng, count=2 if THOROUGH else 1)
        if kind != "manifest":
            yield from resealed(objects, path, rng, count=6 if THOROUGH else 3)


@pytest.mark.slow
@pytest.mark.parametrize("maker", list(MAKERS))
def test_look_ups_and_versions_of_damaged_objects(maker: str, tmp_path: Path) -> None:
    """Whatever a checksum covers is either noticed, or not needed for the answer."""
    bench = Bench(tmp_path / "db", maker, "None")
    objects = bench.in_memory.objects
    sound = SlateStore.open(str(bench.folder))
    versions = sound.scan(readVersions="all").read_all()
    keys = [row.key for row in rows_of(bench.sound)][:: len(bench.sound) // 4]
    answers = {key: sound.get(key, mergeOperator="concat") for key in [*keys, b"absent"]}
    rng = np.random.default_rng(1)
    outcomes: Counter[str] = Counter()
    stride = 1 if THOROUGH else 2
    for path, kind in live_objects(objects).items():
        if kind == "manifest":  # no checksum covers it
            continue
        for damage in list(damages(objects, path, kind, rng, count=2 if THOROUGH else 1))[::stride]:
            if kind == "WAL file" and damage.data == b"":
                continue  # that is a fence, to the client too
            try:
                store = bench.in_memory.open(damage.path, damage.data)
                for key, expected in answers.items():
                    assert store.get(key, mergeOperator="concat") == expected, damage.name
                assert store.scan(readVersions="all").read_all().equals(versions), damage.name
                outcomes["right"] += 1
            except SlateError as error:
                outcomes[Bench.named(error, damage)] += 1
    assert outcomes["CorruptDataError"] > 25 / stride
    assert outcomes["right"] > 10 / stride


@pytest.mark.slow
def test_hostile_bytes_crash_no_kernel(tmp_path: Path) -> None:
    """Many more, in processes of their own; both sets of kernels come to the same."""
    MAKERS["client"](tmp_path / "db", "None")
    printed = []
    for kernels in ("", "reference"):
        done = subprocess.run(
            [sys.executable, "-m", "tests.faults.damaged_reads", str(tmp_path / "db"), "40" if THOROUGH else "8"],
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
            cwd=REPOSITORY,
            env={**os.environ, "SLATESPARK_KERNELS": kernels, "PYTHONPATH": str(REPOSITORY)},
        )
        assert done.returncode == 0, done.stderr[-3000:]
        printed.append(json.loads(done.stdout))
    compiled, plain = printed
    assert len(compiled) > (500 if THOROUGH else 100)
    assert {name: outcome for name, outcome in compiled.items() if plain[name] != outcome} == {}


def test_a_large_local_file_that_was_cut(tmp_path: Path) -> None:
    """Large files are mapped: what lies behind the end must not be touched."""
    folder = tmp_path / "db"
    store = SlateStore.create(str(folder))
    rng = np.random.default_rng(0)
    keys = [b"%06d" % number for number in range(4000)]
    store.write(pa.table({"key": keys, "value": [rng.bytes(200) for _ in keys]}))
    [file] = (folder / "compacted").iterdir()
    data = file.read_bytes()
    for number, size in enumerate((0, 1, 131_072, 400_000, 811_008, len(data) - 100)):
        file.unlink()
        file.write_bytes(data[:size])
        link = tmp_path / f"link{number}"  # indexes are cached by place
        link.symlink_to(folder)
        if size < len(data) - 100:
            with pytest.raises(CorruptDataError, match=file.name):
                SlateStore.open(str(link)).scan().read_all()
        else:
            assert SlateStore.open(str(link)).scan().read_all().num_rows == 4000
