"""Intervals of every key type replaced, deleted, erased and kept in shape among our writes and the client's.

After each step the table shows what the model says, to us and to the client, and no view is without rows.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark import SlateStore
from slatespark.table.log.manifests import fetch_latest_manifest
from tests.support.client import Client, ClientOptions, Location
from tests.support.client_admin import compact_full
from tests.support.effort import examples
from tests.support.upkeep import keep_up
from tests.unit.table.write.test_neighbouring_intervals import KEYS

SHOPS = (None, "", "a", "b")

Key: TypeAlias = tuple[str | None, Any, int]


@dataclass(frozen=True)
class Condition:
    """A condition as text, and as the model understands it."""

    text: str
    holds: Callable[[Key], bool]


@dataclass(frozen=True)
class Step:
    kind: str
    where: Condition
    keys: tuple[Key, ...] = ()


@dataclass(frozen=True)
class Case:
    name: str  # of the key type
    steps: tuple[Step, ...]


def conditions(name: str) -> st.SearchStrategy[Condition]:
    """One to three intervals, which may meet or overlap."""
    return st.lists(_intervals(name), min_size=1, max_size=3).map(_any_of)


def _any_of(parts: list[Condition]) -> Condition:
    text = " OR ".join(part.text for part in parts)
    return Condition(text, lambda key: any(part.holds(key) for part in parts))


@st.composite
def _intervals(draw: st.DrawFn, name: str) -> Condition:
    _, values, literal = KEYS[name]
    shop = draw(st.sampled_from(SHOPS))
    of_shop = "shop IS NULL" if shop is None else f"shop = '{shop}'"
    one, two = (values[at] for at in sorted(draw(st.tuples(*[st.integers(0, len(values) - 1)] * 2))))
    low, high = literal(one), literal(two)
    forms: list[tuple[str, Callable[[Any], bool]]] = [
        (f"k = {low}", lambda k: k == one),
        (f"k IN ({high}, {low})", lambda k: k in (one, two)),
        (f"k >= {low} AND k < {high}", lambda k: k is not None and one <= k < two),
        (f"k > {low} AND k <= {high}", lambda k: k is not None and one < k <= two),
        (f"k <= {high}", lambda k: k is not None and k <= two),
        ("k IS NULL", lambda k: k is None),
    ]
    if one == two:  # else no key may lie in between
        del forms[2:4]
    text, holds = draw(st.sampled_from(forms))
    return Condition(f"{of_shop} AND {text}", lambda key: key[0] == shop and holds(key[1]))


def keys_of(name: str) -> st.SearchStrategy[tuple[Key, ...]]:
    values = st.none() | st.sampled_from(KEYS[name][1])
    return st.lists(st.tuples(st.sampled_from(SHOPS), values, st.integers(1, 3)), max_size=8, unique=True).map(tuple)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    name = draw(st.sampled_from(sorted(KEYS)))
    kinds = st.sampled_from(
        [
            "replace",
            "replace",
            "deleteRange",
            "deleteRange",
            "delete",
            "upsert",
            "erase",
            "compact",
            "vacuum",
            "upkeep",
            "client",
        ]
    )
    steps = st.lists(st.builds(Step, kinds, conditions(name), keys_of(name)), min_size=1, max_size=7)
    return Case(name, (Step("upsert", draw(conditions(name)), draw(keys_of(name))), *draw(steps)))


class TypedTable:
    """A table of one key type, and the rows that it must show."""

    def __init__(self, name: str, folder: Path) -> None:
        self.folder = folder
        self.schema = pa.schema(
            [("shop", pa.string()), ("k", KEYS[name][0]), ("n", pa.int64()), ("value", pa.string())]
        )
        self.store = SlateStore.create(
            str(folder), self.schema, ["shop", "k", "n"], versionRetention="none", valueFormat="utf8"
        )
        self.codec = self.store.definition.codec()
        self.rows: dict[bytes, str] = {}
        self.by_key: dict[bytes, Key] = {}
        self.count = 0

    def take(self, step: Step) -> None:
        self.count += 1
        match step.kind:
            case "upsert":
                self.store.write(self.table(step.keys), ifClientActive="fence")
                self.put(step.keys)
            case "client":
                self.client_session(step)
            case "vacuum":
                self.vacuum()
            case "upkeep":
                keep_up(str(self.folder), ifClientActive="fence")
            case "compact":
                self.store.compact(where=step.where.text, ifClientActive="fence")
            case "replace":
                self.replace(step)
            case _:
                self.remove(step)

    def replace(self, step: Step) -> None:
        inside = tuple(key for key in step.keys if step.where.holds(key))
        chosen: dict[str, Any] = {"mode": "overwrite", "replaceWhere": step.where.text}
        self.store.write(self.table(inside), ifClientActive="fence", sstSize="64k", **chosen)
        self.drop(step.where)
        self.put(inside)

    def remove(self, step: Step) -> None:
        """Remove the rows of a condition in one of several ways."""
        where = step.where.text
        match step.kind:
            case "deleteRange":
                before = self.store.resolve().version
                held = any(step.where.holds(key) for key in self.by_key.values())
                version = self.store.deleteRange(where, ifClientActive="fence")
                assert version > before or not held
            case "delete":
                for part in where.split(" OR "):  # the filter of a read knows no OR
                    self.store.delete(part, ifClientActive="fence")
            case "erase":
                report = self.store.erase(where=where, ifClientActive="fence")
                assert all(place.is_kept and not place.is_current for place in report.found)
        self.drop(step.where)

    def table(self, keys: tuple[Key, ...]) -> pa.Table:
        columns = list(zip(*keys, strict=True)) or [(), (), ()]
        arrays = [pa.array(list(column), field.type) for column, field in zip(columns, self.schema, strict=False)]
        return pa.table([*arrays, pa.array([f"{self.count}"] * len(keys), pa.string())], self.schema.names)

    def put(self, keys: tuple[Key, ...]) -> None:
        for key in keys:
            self.rows[self.codec.encode_key(key)] = f"{self.count}"
            self.by_key[self.codec.encode_key(key)] = key

    def drop(self, where: Condition) -> None:
        for data in [data for data, key in self.by_key.items() if where.holds(key)]:
            del self.by_key[data], self.rows[data]

    def client_session(self, step: Step) -> None:
        """Rows written, some of them in the WAL alone, and removed by the client."""
        with Client.open(Location.local(self.folder), ClientOptions(compactor=True)) as client:
            for key in step.keys:
                client.put(self.codec.encode_key(key), b"%d" % self.count)
            client.flush_wal()
            self.put(step.keys)
            for data in [data for data, key in self.by_key.items() if step.where.holds(key)][:2]:
                client.delete(data)
                del self.by_key[data], self.rows[data]
            client.flush_wal()
            if self.count % 2:
                client.flush_memtable()
                compact_full(client)

    def vacuum(self) -> None:
        for point in self.store.checkpoints():  # of the versions before compactions
            self.store.deleteCheckpoint(point.id)
        self.store.vacuum("0s", force=True)

    def check(self) -> None:
        found = self.store.scan(metadataColumns="key").read_all()
        assert dict(zip(found["_key"].to_pylist(), found["value"].to_pylist(), strict=True)) == self.rows
        report = self.store.verify()
        assert not report.has_damage
        assert report.empty_views == ()

    def finish(self) -> None:
        """Delete everything shop by shop: nothing is left after a vacuum."""
        with Client.open(Location.local(self.folder)) as client:
            assert {row.key: row.value.decode() for row in client.scan()} == self.rows
        self.store.write(self.table((("a", None, 1),)), ifClientActive="fence")  # else the client might publish a file
        for shop in SHOPS:
            self.store.deleteRange("shop IS NULL" if shop is None else f"shop = '{shop}'", ifClientActive="fence")
        assert list(fetch_latest_manifest(self.store._stores)[1].views()) == []
        self.vacuum()
        assert self.store._stores.main.list("compacted/") == []


@pytest.mark.slow
@settings(max_examples=examples(8))
@given(cases())
def test_intervals_of_every_key_type(case: Case) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = TypedTable(case.name, Path(folder) / "db")
        for step in case.steps:
            table.take(step)
            table.check()
        table.finish()
