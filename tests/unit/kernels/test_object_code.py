from __future__ import annotations

import os
import platform
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from slatespark.kernels import _object_code, build
from slatespark.kernels._object_code import ObjectCodeError, file_name, levels, load_object_code, pack_file, unpack_file
from tests.unit.kernels.object_code import FOLDER, load_slowest, needs_object_code

_WITH_ADDENDS, _ABSOLUTE = 4, 1  # SHT_RELA, R_X86_64_64


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "SLATESPARK_KERNELS": "", **environment}
    command = [sys.executable, "-W", "error", "-c", program]
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


FIRST_USE = """
import sys
import pyarrow as pa
from slatespark import SlateStore
schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
store = SlateStore.create(sys.argv[1], schema, "id")
store.write(pa.table({"id": [1, 2], "name": ["a", "b"]}))
store.compact(full=True)
assert store.get(2)["name"] == "b"
assert store.scan().read_all().num_rows == 2
print("numba" in sys.modules)
"""


@needs_object_code
def test_a_new_process_compiles_nothing(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    program = FIRST_USE.replace("sys.argv[1]", repr(str(tmp_path / "table")))
    result = run(program, NUMBA_CACHE_DIR=str(cache))
    assert (result.stdout, result.stderr) == ("False\n", "")
    assert not cache.exists()


@needs_object_code
def test_every_kernel_is_in_every_file() -> None:
    symbols = [(kernel.symbol, kernel.parameters) for kernel in build.kernels(levels()[0].name)]
    assert len(symbols) >= 20
    for level in levels():
        code = _object_code.ObjectCode(level.name, unpack_file(level.name, (FOLDER / file_name(level)).read_bytes()))
        for symbol, parameters in symbols:
            assert code.function(symbol, parameters) is not None


def relocations(code: bytes) -> set[int]:
    """The kinds of references that loading an ELF file of 64 bits has to fill in."""
    start, entry, count = struct.unpack_from("<Q", code, 40)[0], *struct.unpack_from("<2H", code, 58)
    kinds: set[int] = set()
    for number in range(count):
        _, kind, _, _, offset, size = struct.unpack_from("<2I4Q", code, start + number * entry)
        if kind == _WITH_ADDENDS:
            kinds |= {info & 0xFFFFFFFF for _, info, _ in struct.iter_unpack("<2Qq", code[offset : offset + size])}
    return kinds


@needs_object_code
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers of the kinds are those of x86-64")
def test_code_can_be_loaded_anywhere() -> None:
    """In a crowded address space two sections may be out of each other's reach; LLVM aborts the process then."""
    for level in levels():
        code = unpack_file(level.name, (FOLDER / file_name(level)).read_bytes())
        assert relocations(code) == {_ABSOLUTE}


@needs_object_code
def test_unknown_kernels_and_numbers_that_do_not_fit_are_refused() -> None:
    code = load_slowest()
    with pytest.raises(ObjectCodeError):
        code.function("slatespark.kernels.merge._unknown", 1)
    mark = code.function("slatespark.kernels.sort._is_sorted", 2)
    with pytest.raises(struct.error):
        mark(2**63, 0)
    with pytest.raises(struct.error):
        mark(0)


def test_a_file_holds_what_was_packed() -> None:
    assert unpack_file("a", pack_file(b"co\nde", "numba 1")) == b"co\nde"
    assert unpack_file("a", pack_file(b"co\nde", "numba 1"), built_with="numba 1") == b"co\nde"


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data + b"x",
        lambda data: data[:-1] + b"x",
        lambda data: data[5:],
        lambda data: b"",
        lambda data: b"{}\ncode",
        lambda data: b"[]\ncode",
        lambda data: data.replace(_object_code.source_digest().encode(), b"0" * 64),
    ],
)
def test_damaged_and_outdated_files_are_refused(damage: object) -> None:
    assert callable(damage)
    with pytest.raises(ObjectCodeError):
        unpack_file("a", damage(pack_file(b"code", "numba 1")))


def test_other_tools_make_a_file_outdated() -> None:
    with pytest.raises(ObjectCodeError):
        unpack_file("a", pack_file(b"code", "numba 1"), built_with="numba 2")


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(ObjectCodeError):
        load_object_code(tmp_path / "missing")
    assert build.outdated_levels(tmp_path) == list(levels())


@needs_object_code
@pytest.mark.skipif(len(levels()) < 2, reason="one level of processor")
def test_the_next_level_where_the_first_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (file_name(level) for level in levels())
    for name in (first, second):
        (tmp_path / name).write_bytes((FOLDER / name).read_bytes())
    monkeypatch.setattr(_object_code, "processor_features", lambda: levels()[1].required)
    assert load_object_code(tmp_path).name == second
    monkeypatch.setattr(_object_code, "processor_features", lambda: levels()[0].required)
    assert load_object_code(tmp_path).name == first
    (tmp_path / first).write_bytes((FOLDER / first).read_bytes()[:-100])
    assert load_object_code(tmp_path).name == second
    monkeypatch.setattr(_object_code, "processor_features", frozenset)
    with pytest.raises(ObjectCodeError):
        load_object_code(tmp_path)


@pytest.mark.parametrize("machine", ["riscv64", "s390x"])
def test_other_machines_have_no_code(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert levels() == ()
    with pytest.raises(ObjectCodeError, match=machine):
        load_object_code(FOLDER)


def test_code_for_another_kind_of_processor_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    arm = {file_name(level) for level in levels()}
    monkeypatch.setattr(platform, "machine", lambda: "AMD64")
    assert arm.isdisjoint(file_name(level) for level in levels())


WITHOUT = """
import logging
logging.basicConfig(level=logging.INFO, format="%(name)s %(levelname)s")
from slatespark.kernels import _object_code
_object_code._LEVELS.clear()
import numpy as np
from slatespark.kernels import probe_bloom, lower_bounds
probe_bloom(bytes(9), np.zeros(1, np.uint64))
none = np.zeros(0, np.uint8), np.zeros(1, np.int64)
lower_bounds(*none, *none)
"""


def test_one_line_says_that_kernels_are_compiled() -> None:
    result = run(WITHOUT)
    assert (result.returncode, result.stderr) == (0, "slatespark.kernels INFO\n")


def test_object_code_can_be_demanded() -> None:
    result = run(WITHOUT, SLATESPARK_KERNELS="prebuilt")
    assert "OptionError: SLATESPARK_KERNELS is 'prebuilt', but there is no object code" in result.stderr


FORKS = """
import os
from concurrent.futures import ThreadPoolExecutor
import numpy as np
from slatespark.kernels import merge_all, probe_bloom

def check(_=None):
    hashes = np.arange(50_000, dtype=np.uint64)
    return int(probe_bloom(b"\\x00\\x03" + b"\\xff" * 4096, hashes).sum())

def in_child():
    child = os.fork()
    if child == 0:
        os._exit(0 if check() == 50_000 else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

before = in_child()
assert check() == 50_000
after = in_child()
with ThreadPoolExecutor(4) as threads:
    found = set(threads.map(check, range(40)))
print(before, after, found)
"""


@needs_object_code
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_forked_processes_and_threads() -> None:
    """Spark forks its workers, before or after kernels are loaded."""
    assert run(FORKS).stdout == "0 0 {50000}\n"
