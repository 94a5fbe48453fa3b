from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

from slatespark import kernels
from tests.unit.kernels.implementations import COMPILED, MODULES, REFERENCE

NAMES = [name for names in MODULES.values() for name in names]
MERGE_ONE = """
import sys
import numpy as np
from slatespark.kernels import decode_indexes, encode_index, lower_bound, merge_all
from slatespark.kernels._dispatch import implementation
none = np.zeros(0, np.int64)
section = np.frombuffer(encode_index(none, np.zeros(0, np.uint8), np.zeros(1, np.int64)), np.uint8)
decode_indexes(section, np.zeros(1, np.int64), np.array([len(section)], np.int64))
assert "numba" not in sys.modules
merge_all([], none, none)
print(implementation(), "numba" in sys.modules)
"""


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, **environment}
    command = [sys.executable, "-W", "error", "-c", program]
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", NAMES)
def test_one_signature(name: str) -> None:
    public = inspect.signature(getattr(kernels, name))
    assert inspect.signature(getattr(COMPILED, name)) == public
    assert inspect.signature(getattr(REFERENCE, name)) == public


def test_every_kernel_is_public() -> None:
    assert set(NAMES) <= set(kernels.__all__)
    assert all(hasattr(kernels, name) for name in kernels.__all__)


@pytest.mark.parametrize(("choice", "answer"), [("numba", "compiled True"), ("reference", "reference False")])
def test_choice_and_lazy_import_of_numba(choice: str, answer: str) -> None:
    assert run(MERGE_ONE, SLATESPARK_KERNELS=choice).stdout.strip() == answer


def test_without_the_compiler() -> None:
    assert run(MERGE_ONE, SLATESPARK_KERNELS="", NUMBA_DISABLE_JIT="1").stdout.strip() == "reference False"


def test_unknown_choice() -> None:
    assert "SLATESPARK_KERNELS is 'rust', expected" in run(MERGE_ONE, SLATESPARK_KERNELS="rust").stderr


HASH_ONE = """
import numpy as np
from slatespark.kernels import probe_bloom
from slatespark.kernels._just_in_time import cache_directory
probe_bloom(bytes(9), np.zeros(1, np.uint64))
print(cache_directory())
"""


def test_cache_in_the_chosen_folder(tmp_path: Path) -> None:
    result = run(HASH_ONE, SLATESPARK_KERNELS="numba", NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    folder = Path(result.stdout.strip())
    assert folder.parent == tmp_path / "cache"
    assert any(file.suffix == ".nbc" for file in folder.iterdir())


def test_no_place_for_a_cache(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    result = run(HASH_ONE, SLATESPARK_KERNELS="numba", NUMBA_CACHE_DIR=str(blocked / "cache"))
    assert result.stdout.strip() == "None", result.stderr


def test_a_folder_writable_by_others_is_not_used(tmp_path: Path) -> None:
    shared = tmp_path / f"slatespark-{os.getuid()}"
    shared.mkdir()
    shared.chmod(0o777)
    variables = {"SLATESPARK_KERNELS": "numba", "NUMBA_CACHE_DIR": "", "TMPDIR": str(tmp_path)}
    assert run(HASH_ONE, **variables).stdout.strip() == "None"
    shared.chmod(0o700)
    assert run(HASH_ONE, **variables).stdout.strip().startswith(str(shared))
