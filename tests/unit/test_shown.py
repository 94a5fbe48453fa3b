"""What calls return shows itself, in a shell and in a notebook."""

from __future__ import annotations

import dataclasses
import html.parser
import importlib
import inspect
import pickle
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import slatespark
from slatespark import CompactionWorker, Reaper, SlateStore, SlateTable, Transaction, Upkeep
from slatespark.shown import MAX_ROWS, Listing, Shown
from slatespark.table.checkpoints.store import CheckpointFacts
from slatespark.table.gc.report import CollectedFile, VacuumReport
from slatespark.table.retention.reap_report import ReapReport

PUBLIC = (SlateStore, SlateTable, Transaction, CompactionWorker, Reaper, Upkeep)
SHOW_THEMSELVES = {"TableDefinition", "ReadPlan", "Load", "RowCodec"}  # no reports, but what other calls take


def point(number: int, name: str | None = None) -> CheckpointFacts:
    return CheckpointFacts(f"id{number}", name, number, 1_700_000_000_000, None)


class Texts(html.parser.HTMLParser):
    """The elements and the texts of HTML."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_a_report_is_a_few_lines() -> None:
    files = tuple(CollectedFile(f"wal/{number}.sst", 10, "deleted", "old", "wal") for number in range(5))
    report = VacuumReport("file:///t", 7, 1_700_000_000_000, 86_400_000, dry_run=False, files=files)
    assert repr(report).splitlines() == [
        "VacuumReport",
        "  url            file:///t",
        "  version        7",
        "  now_ms         2023-11-14T22:13:20.000Z",
        "  min_age_ms     24h",
        "  dry_run        no",
        "  files          path wal/0.sst, size 10 B, action deleted, reason old, kind wal",
        "                 path wal/1.sst, size 10 B, action deleted, reason old, kind wal",
        "                 path wal/2.sst, size 10 B, action deleted, reason old, kind wal",
        "                 and 2 more",
        "  views_removed  0",
        "  bytes          50 B",
    ]


def test_html_escapes_what_a_table_holds() -> None:
    name = "<script>alert('x')</script>\x1b[31m"
    for shown in (point(1, name)._repr_html_(), Listing([point(1, name)])._repr_html_()):
        found = Texts(shown)
        assert "script" not in found.tags
        assert any("<script>" in text for text in found.texts)
        assert "\x1b" not in shown
    assert "\x1b" not in repr(point(1, name))
    assert "\x1b" not in repr(Listing([point(1, name)]))


def test_a_definition_and_a_plan_cannot_command_a_terminal(tmp_path: Path) -> None:
    name = "v\x1b]0;owned\x07"
    schema = pa.schema([("id", pa.int64()), (name, pa.struct([(name, pa.int32())]))])
    store = SlateStore.create(tmp_path / "t", schema, "id")
    with store.begin() as transaction:
        plan = transaction.planScan()
    for shown in map(repr, (store.definition, plan)):
        assert "\x1b" not in shown
        assert "v\\u001b]0;owned" in shown
    plain = SlateStore.create(tmp_path / "u", "id BIGINT, v INT", "id").definition
    assert repr(plain).startswith(
        "TableDefinition(key_format='tuple', key_columns=('id',), value_format='avro', schema=id"
    )
    assert "\nv: int32, writer_schemas={" in repr(plain)


def test_a_list_is_a_table_without_columns_that_nothing_has() -> None:
    found = Listing([point(1), point(22, "b")])
    header, *rows = [line.split() for line in repr(found).splitlines()]
    assert header == ["id", "name", "version", "created_ms"]
    assert rows == [["id1", "1", "2023-11-14T22:13:20.000Z"], ["id22", "b", "22", "2023-11-14T22:13:20.000Z"]]
    assert "expires_ms" not in Listing([point(1)])._repr_html_()


def test_a_long_list_is_cut() -> None:
    found = Listing(point(number) for number in range(MAX_ROWS + 3))
    assert len(repr(found).splitlines()) == MAX_ROWS + 2
    assert repr(found).endswith("and 3 more rows")
    assert "and 3 more rows" in found._repr_html_()
    assert "more rows" not in repr(found[:2])


def test_a_list_is_a_tuple() -> None:
    items = (point(1), point(2))
    found = Listing(items)
    assert found == items
    assert found[1] is items[1]
    assert found[:1] == items[:1]
    assert pickle.loads(pickle.dumps(found)) == items
    assert repr(Listing(())) == "()"
    assert "nothing" in Listing(())._repr_html_()


def test_a_store_shows_what_it_returns(tmp_path: Path) -> None:
    store = SlateStore.create(tmp_path / "t", "id BIGINT, name STRING", "id")
    store.write(pa.table({"id": [1], "name": ["Ada"]}))
    for found in (store.history(), store.files(), store.checkpoints(), store.verify(), store.detail(), store.explain()):
        assert len(repr(found).splitlines()) > 1
        assert "table" in Texts(found._repr_html_()).tags
    assert "has_damage" in repr(store.verify())


def classes() -> dict[str, type]:
    """Return the dataclasses of the package by name."""
    names = [module.name for module in pkgutil.walk_packages(slatespark.__path__, "slatespark.")]
    return {
        name: value
        for module in names
        if not module.endswith("__main__") and "._generated" not in module
        for name, value in vars(importlib.import_module(module)).items()
        if dataclasses.is_dataclass(value) and isinstance(value, type)
    }


def returned() -> Iterator[tuple[str, str]]:
    for owner in PUBLIC:
        for name, method in inspect.getmembers(owner, callable):
            if not name.startswith("_"):
                yield f"{owner.__name__}.{name}", str(inspect.signature(method).return_annotation)


def test_every_report_of_a_public_call_shows_itself() -> None:
    known, seen = classes(), set()
    for call, annotation in returned():
        for name in re.findall(r"\w+", annotation):
            if name in known and name not in SHOW_THEMSELVES:
                seen.add(name)
                assert issubclass(known[name], Shown) or hasattr(known[name], "_repr_html_"), (call, name)
                assert not annotation.startswith("tuple["), f"{call} returns a tuple, not a Listing"
    assert {"CompactionReport", "VerifyReport", "CheckpointFacts", "VersionFacts"} <= seen


def test_durations_and_instants_are_told_apart() -> None:
    report = ReapReport("memory://t", 1, 1_700_000_000_000, 3650 * 86_400_000, reaped_through_ms=-315_619_200_000)
    text = repr(report)
    assert re.search(r"now_ms +2023-11-14T", text)
    assert re.search(r"retention_ms +\d+[dh]\b", text)
    assert re.search(r"reaped_through_ms +1960-01-01T", text)
