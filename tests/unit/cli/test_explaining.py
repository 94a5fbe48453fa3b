"""`explain`: what an operation touches and costs, in the shell."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from slatespark import SlateStore
from tests.support.fake_clock import FakeClock
from tests.unit.cli.shell import answer, done, refused, rows, run
from tests.unit.table.explain.tables import forget, new_table
from tests.unit.table.explain.tables import rows as some_rows


@pytest.fixture
def table(tmp_path: Path) -> Path:
    store = new_table(tmp_path / "t", FakeClock(), retention="1d")
    for number in range(5):
        store.write(some_rows(100 * number, 100))
    forget()
    return tmp_path / "t"


def test_a_read(table: Path) -> None:
    lines = done("explain", "read", table, "--where", "id < 50", "--price", "get=0.0004", "--price", "list=0.005")
    assert "files      1 of 5 files" in lines
    assert "skipped    4 outside the keys" in lines
    assert "price" in lines
    assert "measured" not in lines
    found = answer("explain", "read", table, "--where", "id < 50", "--analyze", "--columns", "id", "--price", "get=1")
    assert (found["rows"], found["skipped"], found["operation"]) == (50, {"outside the keys": 4}, "read")
    low, high = (found["estimated"][bound]["get"] for bound in ("low", "high"))
    assert low <= found["measured"]["get"] <= high
    assert found["measured_cost"] == pytest.approx(found["measured"]["get"] / 1000)
    assert answer("explain", "read", table, "--version-as-of", "3")["files"] == 1
    assert answer("explain", "read", table, "--option", "seqAsOf=2")["skipped"] == {}  # seqAsOf finds the version


def test_a_compaction(table: Path) -> None:
    assert "merges     full of 5 files" in done("explain", "compact", table, "--full")
    assert len(SlateStore.open(table).runs()) == 5
    before = rows(table)
    found = answer("explain", "compact", table, "--analyze", "--option", "minCompactionSources=4")
    assert found["measured"]["put"] > 0
    assert len(found["report"]["jobs"]) == 1
    assert len(SlateStore.open(table).runs()) == 1
    assert rows(table) == before


def test_a_vacuum_and_a_reap(table: Path) -> None:
    assert "objects    0 of" in done("explain", "vacuum", table)
    found = answer("explain", "vacuum", table, "--min-age", "0s", "--force", "--analyze")
    deleted = [file for file in found["report"]["files"] if file["action"] == "deleted"]
    assert 0 < found["measured"]["delete"] < len(deleted)  # many at a time
    assert "--force" in refused("OptionError", "explain", "vacuum", table, "--min-age", "5m", "--analyze")
    assert "objects" in done("explain", "vacuum", table, "--min-age", "5m")
    assert "looked through  0 files" in done("explain", "reap", table)
    later = ["--now", "2100-01-01"]
    refused("OptionError", "explain", "reap", table, *later)


def test_a_reap_with_limits_of_its_commits(tmp_path: Path) -> None:
    table = tmp_path / "t"
    store = SlateStore.create(table, "id BIGINT", "id")
    store.write(pa.table({"id": [1, 50]}), timestamp="2020-01-01")
    store.write(pa.table({"id": range(100, 200)}))
    store.compact(full=True)
    store.setProperties(retention="1d")
    limits = ["--max-batch-rows", "1", "--max-batch-bytes", "1m"]
    report = answer("explain", "reap", table, "--analyze", *limits)["report"]
    assert (report["rows"], report["passes"]) == (2, 2)
    refused("OptionError", "explain", "reap", table, "--max-batch-rows", "0")
    refused("OptionError", "explain", "reap", table, "--max-batch-bytes", "soon")


def test_an_erasure(table: Path, tmp_path: Path) -> None:
    lines = done("explain", "erase", table, "150", "--price", "get=0.0004")
    assert "rewritten  1 file" in lines
    assert "copies     1 row version; 1 object with rows or names of the keys" in lines
    assert "measured" not in lines
    (tmp_path / "keys.csv").write_text("id\n150\n250\n")
    found = answer("explain", "erase", table, "--file", tmp_path / "keys.csv", "--analyze")
    assert (found["plan"]["files"], found["report"]["gone"]) == (2, True)
    assert len(rows(table)) == 498
    assert answer("explain", "erase", table, "--where", "id < 10")["plan"]["rows"] == 10
    refused("OptionError", "explain", "erase", table)
    refused("OptionError", "explain", "erase", table, "150", "--file", tmp_path / "keys.csv")


def test_wrong_arguments(table: Path) -> None:
    refused("OptionError", "explain", "read", table, "--price", "gets=1")
    refused("OptionError", "explain", "read", table, "--price", "get")
    refused("OptionError", "explain", "compact", table, "--option", "full=true")
    refused("OptionError", "explain", "vacuum", table, "--min-age", "0s", "--analyze")
    refused("TableNotFoundError", "explain", "reap", table / "no")
    assert run("explain", "write", table).exit_code == 2


def test_a_change_feed(table: Path) -> None:
    versions = [str(facts.version) for facts in SlateStore.open(table).history() if facts.operation == "write"]
    found = answer("explain", "changes", table, "--from", versions[1], "--where", "id > 0", "--analyze")
    assert (found["operation"], found["rows"]) == ("changes", 200)
    assert "operation  changes" in done("explain", "changes", table, "--from", versions[0], "--kind", "log")
    assert "--from" in run("explain", "changes", table).stderr
