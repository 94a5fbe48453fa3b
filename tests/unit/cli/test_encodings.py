"""Output in an encoding that lacks letters: they are escaped, and JSON stays JSON. Instead of ASCII, UTF-8 is meant."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from slatespark import SlateStore

TEXT = "é€\U0001f600"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("encodings") / "t"
    store = SlateStore.create(place, "id BIGINT, v STRING", "id")
    store.write(pa.table({"id": [1, 2], "v": [TEXT, "plain"]}))
    return place


def printed(encoding: str, *arguments: str | Path) -> bytes:
    found = subprocess.run(
        [sys.executable, "-m", "slatespark", *map(str, arguments)],
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        check=False,
    )
    assert (found.returncode, found.stderr) == (0, b"")
    return found.stdout


@pytest.mark.parametrize(
    ("encoding", "seen_as"), [("latin-1", "latin-1"), ("cp1252", "cp1252"), ("utf-8", "utf-8"), ("ascii", "utf-8")]
)
def test_json_is_whole(table: Path, encoding: str, seen_as: str) -> None:
    lines = printed(encoding, "scan", table, "--json").decode(seen_as).splitlines()
    assert [json.loads(line) for line in lines] == [{"id": 1, "v": TEXT}, {"id": 2, "v": "plain"}]


def test_a_table_of_rows_is_escaped(table: Path) -> None:
    assert b"\xe9\\u20ac\\ud83d\\ude00" in printed("latin-1", "scan", table)
    assert TEXT.encode() in printed("utf-8", "scan", table)
