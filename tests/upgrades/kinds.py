"""Every kind of table, small: how it is made, and a model of what it shows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from slatespark import SlateStore, SstWriter
from tests.support.client import Client, Delete, Location, Put
from tests.support.fake_clock import FakeClock
from tests.upgrades.kept import HOUR_MS, Kept, Row

NUMBERED: Final = pa.schema([pa.field("id", pa.int64(), nullable=False), ("n", pa.int32())])


def raw_row(number: int, value: bytes) -> Row:
    return {"key": b"key%03d" % number, "value": value}


def numbered(ids: range, n: int) -> list[Row]:
    return [{"id": number, "n": n} for number in ids]


def raw(root: Path) -> Kept:
    """Three runs of several blocks with filters, in three codecs; operands, deletes, an empty value, a large one."""
    kept = Kept.create(root, "key", mergeOperator="concat")
    first = kept.put(
        *(raw_row(number, b"first %d" % number) for number in range(80)), blockSize=1024, bloomBitsPerKey=10
    )
    kept.keep(versionAsOf=first)
    changes = {number: b"second" * number for number in range(0, 80, 7)}
    second = kept.put(*(raw_row(*each) for each in changes.items()), raw_row(900, bytes(3000)), compression="lz4")
    kept.keep(versionAsOf=second)
    kept.delete(b"key005", b"key007", b"key079")
    operands = pa.table({"key": [b"key010", b"operand"], "value": [b"+", b"alone"]})
    kept.store.write(operands, operation="merge", compression="zlib")
    kept.rows[(b"key010",)] = raw_row(10, b"first 10+")
    kept.rows[(b"operand",)] = {"key": b"operand", "value": b"alone"}
    return kept.go_on(raw_row(5, b""), raw_row(81, b"new"))


TYPES: Final = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        ("day", pa.date32()),
        ("flag", pa.bool_()),
        ("tiny", pa.int8()),
        ("small", pa.int16()),
        ("medium", pa.int32()),
        ("large", pa.int64()),
        ("half", pa.float32()),
        ("whole", pa.float64()),
        ("blob", pa.binary()),
        ("price", pa.decimal128(12, 3)),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("größe in m", pa.float64()),
    ]
)


def typed_row(number: int) -> Row:
    is_odd = number % 2 == 1
    return {
        "name": ("ann", "böb", "c\0d", "")[number % 4],
        "day": None if number % 5 == 4 else date(1969, 12, 30) + timedelta(days=number),
        "flag": is_odd,
        "tiny": -number,
        "small": number * 300,
        "medium": number * 70_000,
        "large": -number << 40,
        "half": number / 4,
        "whole": (float("inf"), -0.0, 1e300)[number % 3],
        "blob": None if is_odd else bytes(range(number)),
        "price": Decimal(number - 3).scaleb(-3),
        "at": datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=number),
        "local": None if number == 3 else datetime(1900, 1, 1, number),  # noqa: DTZ001  # a local time
        "größe in m": number / 3,
    }


def typed(root: Path) -> Kept:
    """Every flat type, and a key of two columns with nulls."""
    kept = Kept.create(root, "name,day", TYPES)
    kept.put(*(typed_row(number) for number in range(20)))
    kept.put(*({**typed_row(number), "large": None} for number in (2, 9)))
    kept.rows = dict(sorted(kept.rows.items(), key=_null_first))
    kept.visible = lambda: [row for _, row in sorted(kept.rows.items(), key=_null_first)]  # type: ignore[method-assign]
    return kept.go_on({**typed_row(19), "medium": -1}, {**typed_row(1), "name": "zoe"})


def _null_first(item: tuple[tuple[Any, ...], Row]) -> Any:
    name, day = item[0]
    return name.encode(), day is not None, day


NESTED: Final = pa.schema(
    [
        pa.field("id", pa.struct([("part", pa.int32()), ("word", pa.string())]), nullable=False),
        ("list", pa.list_(pa.string())),
        ("map", pa.map_(pa.string(), pa.int64())),
        ("days", pa.map_(pa.date32(), pa.float64())),
        ("deep", pa.list_(pa.struct([("a", pa.list_(pa.struct([("b", pa.decimal128(5, 2))]))), ("c", pa.binary())]))),
    ]
)


def nested_row(number: int) -> Row:
    return {
        "id": {"part": number // 3, "word": "abc"[number % 3]},
        "list": None if number == 4 else ["x", None, ""] * number,
        "map": [("one", 1), ("none", None)][: number % 3],
        "days": [(date(2026, 1, 1 + number), 0.5)],
        "deep": [{"a": [{"b": Decimal("1.25")}, None], "c": b"\0"}, None, {"a": None, "c": None}][: number % 4],
    }


class NestedKept(Kept):
    """Its key is a struct."""

    def key_of(self, row: Row) -> tuple[Any, ...]:
        return row["id"]["part"], row["id"]["word"]


def nested(root: Path) -> Kept:
    """Structs, lists and maps in each other, and a struct as the key."""
    kept = NestedKept.create(root, "id", NESTED)
    kept.put(*(nested_row(number) for number in range(8)))
    return kept.go_on({**nested_row(2), "list": []}, nested_row(8))


def plain_text(root: Path) -> Kept:
    """Keys and values that other programs read: UTF-8 and JSON."""
    schema = pa.schema(
        [pa.field("word", pa.string(), nullable=False), ("n", pa.int64()), ("tags", pa.list_(pa.string()))]
    )
    kept = Kept.create(root, "word", schema, keyFormat="utf8", valueFormat="json")
    kept.put(*({"word": word, "n": n, "tags": ["ä", word]} for n, word in enumerate(("A", "a", "z", "é"))))
    return kept.go_on({"word": "a", "n": None, "tags": None}, {"word": "b", "n": 5, "tags": []})


def evolved(root: Path) -> Kept:
    """Columns added, widened and dropped: rows of three schemas."""
    kept = Kept.create(root, "id", NUMBERED)
    kept.put(*numbered(range(6), 1))
    wide = pa.schema([*NUMBERED.remove(1), ("n", pa.int64()), ("word", pa.string())])
    added = [{"id": number, "n": 2**40, "word": "w"} for number in (4, 6)]
    kept.store.write(pa.Table.from_pylist(added, wide), mergeSchema=True)
    kept.rows = {key: {**row, "word": None} for key, row in kept.rows.items()} | {
        kept.key_of(row): row for row in added
    }
    kept.tick()
    kept.store.dropColumns("n")
    kept.rows = {key: {"id": row["id"], "word": row["word"]} for key, row in kept.rows.items()}
    return kept.go_on({"id": 0, "word": "x"}, {"id": 9, "word": "y"})


def segmented(root: Path) -> Kept:
    """A segment for each tenant, one of them emptied, with rows in two layers."""
    schema = pa.schema(
        [pa.field("tenant", pa.string(), nullable=False), pa.field("id", pa.int64(), nullable=False), ("n", pa.int32())]
    )
    kept = Kept.create(root, "tenant,id", schema, segmentExtractor="by_tenant", segmentDelimiter="X'00'")
    first = kept.put(*({"tenant": each, "id": number, "n": 0} for each in "abc" for number in range(4)))
    kept.keep(versionAsOf=first)
    kept.put(*({"tenant": each, "id": number, "n": 1} for each in "bd" for number in range(3, 5)))
    kept.store.deleteRange("tenant = 'c'")
    kept.rows = {key: row for key, row in kept.rows.items() if key[0] != "c"}
    kept.tick()
    return kept.go_on({"tenant": "a", "id": 2, "n": 7}, {"tenant": "c", "id": 1, "n": 7})


def columnar(root: Path) -> Kept:
    """A run with a columnar copy, and a newer one without."""
    kept = Kept.create(root, "id", NUMBERED, columnar="seq")
    first = kept.put(*numbered(range(40), 1))
    kept.keep(versionAsOf=first)
    kept.put(*numbered(range(20, 50), 2))
    kept.store.compact(full=True)
    kept.tick()
    kept.put(*numbered(range(10, 12), 3))
    kept.reads.append(({"filter": "n = 1"}, [row for row in kept.visible() if row["n"] == 1]))
    return kept.go_on(*numbered(range(11, 13), 4))


def clone(root: Path) -> Kept:
    """A clone of a version, with rows of its own; its parent went on."""
    parent = Kept.create(root, "id", NUMBERED)
    version = parent.put(*numbered(range(10), 1))
    parent.put(*numbered(range(5), 2))
    parent.store.clone(str(root / "clone"), version=version)
    kept = Kept(root, ["id"], "clone", parent.clock, {key: {**row, "n": 1} for key, row in parent.rows.items()})
    kept.tick()
    kept.put(*numbered(range(8, 12), 3))
    return kept.go_on(*numbered(range(9, 13), 4))


def replaced(root: Path) -> Kept:
    """An interval replaced, another one deleted, then the whole table overwritten and restored."""
    kept = Kept.create(root, "id", NUMBERED)
    kept.put(*numbered(range(30), 1))
    kept.put(*numbered(range(10, 15), 2), mode="overwrite", replaceWhere="id >= 10 AND id < 20")
    kept.rows = {key: row for key, row in kept.rows.items() if not 15 <= key[0] < 20}
    kept.store.deleteRange("id >= 25")
    kept.rows = {key: row for key, row in kept.rows.items() if key[0] < 25}
    kept.tick()
    version = kept.store.resolve().version
    kept.keep(versionAsOf=version)
    rows = dict(kept.rows)
    kept.rows = {}
    other = kept.put(*numbered(range(3), 3), mode="overwrite")
    kept.keep(versionAsOf=other)
    kept.store.restoreToVersion(version)
    kept.rows = rows
    kept.tick()
    return kept.go_on(*numbered(range(14, 17), 4))


def erased(root: Path) -> Kept:
    """Rows erased from every version."""
    kept = Kept.create(root, "id", NUMBERED, versionRetention="none")
    kept.put(*numbered(range(20), 1))
    kept.put(*numbered(range(5, 10), 2))
    assert kept.store.erase(keys=[3, 7]).gone
    del kept.rows[(3,)], kept.rows[(7,)]
    kept.tick()
    return kept.go_on(*numbered(range(7, 9), 3))


def changed_by_condition(root: Path) -> Kept:
    """Updates, deletes and a transaction, ingested files, and names of writes that happen once."""
    kept = Kept.create(root, "id", NUMBERED, columnar=False)
    kept.put(*numbered(range(10), 1), txnAppId="job", txnVersion=4)
    kept.store.delete("id = 2 AND n = 1")
    kept.store.update("id < 4", {"n": 5})
    with kept.store.begin() as txn:
        txn.getForUpdate([1, 8])
        txn.write(kept.table(numbered(range(8, 9), 6)))
    SstWriter(str(root / "outside.sst"), NUMBERED, "id", clock=kept.clock).write(kept.table(numbered(range(20, 23), 7)))
    kept.store.ingest(str(root / "outside.sst"))
    kept.rows = {(row["id"],): row for row in numbered(range(10), 1) + numbered(range(4), 5) + numbered(range(8, 9), 6)}
    del kept.rows[(2,)]
    kept.rows |= {(row["id"],): row for row in numbered(range(20, 23), 7)}
    kept.tick()
    return kept.go_on(*numbered(range(2, 3), 8), txnAppId="job", txnVersion=5)


def many_commits(root: Path) -> Kept:
    """More than a hundred commits: records in a batch, and runs that writes compacted; a checkpoint on an early one."""
    kept = Kept.create(root, "id", NUMBERED, versionRetention="none", autoCompact=True)
    for number in range(105):
        version = kept.put(*numbered(range(number % 10, number % 10 + 2), number))
        if number == 3:
            kept.store.createCheckpoint("early", version=version)
            kept.keep(checkpoint="early")
    kept.tick(48 * HOUR_MS)
    kept.store.vacuum(minAge="0s", force=True)
    return kept.go_on(*numbered(range(9, 13), 200))


def beside_a_client(root: Path) -> Kept:
    """Rows of the SlateDB client in files and in the WAL, above and below ours."""
    kept = Kept(root, ["key"], clock=FakeClock())
    SlateStore.create(str(root / kept.name), clock=kept.clock, root=str(root))
    kept.put(*(raw_row(number, b"ours") for number in range(6)))
    with Client.open(Location.local(root / kept.name)) as client:
        client.write([Put(b"key001", b"theirs"), Delete(b"key002")])
        client.flush_memtable()
        client.write([Put(b"key003", b"in the WAL")])
        client.flush_wal()
    kept.rows |= {(b"key001",): raw_row(1, b"theirs"), (b"key003",): raw_row(3, b"in the WAL")}
    del kept.rows[(b"key002",)]
    kept.clock = FakeClock(FakeClock().now_ms() + HOUR_MS)
    return kept.go_on(raw_row(3, b"later"), raw_row(7, b"new"))


KINDS: Final[dict[str, Callable[[Path], Kept]]] = {
    kind.__name__: kind
    for kind in (
        raw,
        typed,
        nested,
        plain_text,
        evolved,
        segmented,
        columnar,
        clone,
        replaced,
        erased,
        changed_by_condition,
        many_commits,
        beside_a_client,
    )
}
