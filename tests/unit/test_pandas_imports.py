"""A process that only looks up, reads or deletes imports no pandas: pyarrow does so in its first conversion."""

from __future__ import annotations

import shutil
import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from slatespark import SlateStore

# Says where pandas was wanted, whether it is installed or not.
_WATCH = """
import sys, traceback
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "pandas":
            traceback.print_stack()
            print("pandas was imported")
sys.meta_path.insert(0, Watch())
"""
_SCHEMA = "tenant STRING, id BIGINT, name STRING, x DOUBLE, at TIMESTAMP, day DATE, tags ARRAY<STRING>"
_SCHEMA += ", ok BOOLEAN, d DECIMAL(9, 2)"
_COUNT = "print(store.scan(filter={!r}).read_all().num_rows)"
_KEYS = "pyarrow.csv.read_csv('keys.csv')"
_CALLS = {
    "get": ("print(store.get('a', 1)['name'])", "n1"),
    "get at": ("print(store.get('a', 1)['at'])", "2026-01-01 00:00:00+00:00"),
    "get by snapshot": ("print(store.snapshot().get('b', 2)['name'])", "None"),
    "scan": ("print(store.scan().read_all().num_rows)", "4"),
    "keys": (_COUNT.format("tenant = 'a' AND id BETWEEN 1 AND 3"), "2"),
    "some keys": (_COUNT.format("tenant = 'a' AND id IN (1, 3, 5)"), "2"),
    "number": (_COUNT.format("x > 0.25"), "3"),
    "text": (_COUNT.format("name = 'n1'"), "1"),
    "in": (_COUNT.format("name IN ('n1', 'n3')"), "2"),
    "not in": (_COUNT.format("name NOT IN ('n1', 'n4')"), "1"),
    "numbers in": (_COUNT.format("x IN (0.25, 0.5)"), "2"),
    "combinations": (_COUNT.format("(name, x) IN (('n1', 0.25), ('n3', 1.0))"), "1"),
    "like": (_COUNT.format("name LIKE 'n%'"), "3"),
    "null": (_COUNT.format("name IS NULL"), "1"),
    "not null": (_COUNT.format("name IS NOT NULL"), "3"),
    "date": (_COUNT.format("day > DATE '2026-01-01' AND ok = true AND d >= 1.25"), "0"),
    "metadata": ("print(store.scan(metadataColumns=True).read_all().num_rows)", "4"),
    "lookup": (f"print(store.lookup({_KEYS}).read_all().num_rows)", "2"),
    "changes": ("print(store.changes(startingVersion=1).read_all().num_rows)", "4"),
    "delete": (f"print(store.delete(keys={_KEYS}) > 1)", "True"),
    "delete by filter": ("print(store.delete(\"name = 'n1'\") > 1)", "True"),
    "update": ("print(store.update('id = 1', {'name': 'n'}) > 1)", "True"),
    "write": (f"print(store.write({_KEYS}, mergeSchema=True) > 1)", "True"),
}
_COMMANDS = {
    "get": (["get", "table", "a", "1", "--columns", "name"], "name\nn1"),
    "get json": (["get", "table", "a", "1", "--columns", "at", "--json"], '{"at": "2026-01-01T00:00:00.000Z"}'),
    "scan": (["scan", "table", "--where", "name = 'n1'", "--columns", "x"], "x\n0.25"),
    "scan down": (["scan", "table", "--desc", "--limit", "1", "--columns", "id,day"], "id  day\n2   2026-01-01"),
    "delete": (["delete", "table", "a", "1"], "Deleted 1 row"),
    "delete where": (["delete", "table", "--where", "name = 'n1'"], "Deleted 1 row"),
    "changes": (["changes", "table", "--from", "1", "--columns", "id", "--limit", "1"], ""),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    store = SlateStore.create(str(folder / "table"), _SCHEMA, "tenant,id")
    ids = [1, 2, 3, 4]
    columns = {
        "tenant": ["a", "b", "a", "a"],
        "id": ids,
        "name": ["n1", None, "n3", "n4"],
        "x": [number / 4 for number in ids],
        "at": [datetime(2026, 1, 1, tzinfo=UTC)] * 4,
        "day": [date(2026, 1, 1)] * 4,
        "tags": [["a", None], None, [], ["b"]],
        "ok": [True, False, None, True],
        "d": [Decimal("1.25")] * 4,
    }
    schema = store.scan().schema
    store.write(pa.table([pa.array(columns[name], schema.field(name).type) for name in columns], names=list(columns)))
    (folder / "keys.csv").write_text("tenant,id\na,1\nb,2\nz,9\n")
    return folder


def _printed(made: Path, folder: Path, code: str) -> str:
    shutil.copytree(made, folder / "copy")
    script = f"{_WATCH}\n{code}"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder / "copy", capture_output=True, text=True, check=True
    )
    assert "pandas was imported" not in done.stdout, done.stderr
    return done.stdout


def test_calls_import_no_pandas(made: Path, tmp_path: Path) -> None:
    opened = "import pyarrow.csv\nfrom slatespark import SlateStore\nstore = SlateStore.open('table')"
    printed = _printed(made, tmp_path, "\n".join([opened, *(code for code, _ in _CALLS.values())]))
    assert dict(zip(_CALLS, printed.splitlines(), strict=True)) == {name: shown for name, (_, shown) in _CALLS.items()}


@pytest.mark.parametrize("name", _COMMANDS)
def test_a_command_imports_no_pandas(made: Path, tmp_path: Path, name: str) -> None:
    arguments, expected = _COMMANDS[name]
    called = f"sys.argv = ['slatespark', *{arguments!r}]\nfrom slatespark.cli.main import main\nmain()"
    shown = "\n".join(line.rstrip() for line in _printed(made, tmp_path, called).splitlines())
    assert expected in shown
