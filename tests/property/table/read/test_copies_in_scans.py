"""Random histories and scans: columnar copies change no answer, and the answer is that of a model."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slatespark import CorruptDataError, SlateStore
from slatespark.format.columnar_copy import open_copy
from slatespark.format.paths import COLUMNS_DIR
from slatespark.options import ReadOptions
from slatespark.table.read.parquet_share import plan_parquet_share
from slatespark.table.read.reader import fetch_read_plan, run_read
from tests.support.effort import examples
from tests.support.fake_clock import FakeClock
from tests.support.used_copies import copies_wherever_possible

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS

_numbers = itertools.count()
_shares = {"whole": 0, "shadowed": 0, "rest": 0}

Row = dict[str, Any]
Key = tuple[str, int]

SCHEMA: Final = pa.schema(
    [
        ("t", pa.string()),
        ("id", pa.int16()),
        ("v", pa.int32()),
        ("w", pa.string()),
        ("f", pa.float64()),
        ("l", pa.list_(pa.int8())),
    ]
)
# Text, and what it means; None where the model does not know the columns.
FILTERS: Final[dict[str, Callable[[Row], bool] | None]] = {
    "v > 5": lambda row: row["v"] is not None and row["v"] > 5,
    "v = 2": lambda row: row["v"] == 2,
    "v IS NULL": lambda row: row["v"] is None,
    "v IN (1, 7) AND t = 'b'": lambda row: row["v"] in (1, 7) and row["t"] == "b",
    "w < 'w3'": lambda row: row["w"] < "w3",
    "f > 1.5": lambda row: math.isnan(row["f"]) or row["f"] > 1.5,  # SQL: NaN is above all numbers
    "f <= -3": lambda row: row["f"] <= -3,
    "l IS NULL": lambda row: row["l"] is None,
    "t = 'a'": lambda row: row["t"] == "a",
    "t = 'a' AND id >= 10 AND id < 41": lambda row: row["t"] == "a" and 10 <= row["id"] < 41,
    "t IN ('a', 'c') AND v < 3": lambda row: row["t"] in ("a", "c") and row["v"] is not None and row["v"] < 3,
    "id > 30": lambda row: row["id"] > 30,
    "(t, id) IN (('a', 1), ('b', 9))": lambda row: (row["t"], row["id"]) in (("a", 1), ("b", 9)),
    "_expire_ts IS NOT NULL": None,
    "_create_ts IS NOT NULL AND v > 1": None,
}


@dataclass(frozen=True)
class Written:
    row: Row
    created_ms: int
    expire_ms: int | None


@dataclass
class Case:
    """A table, and what the model says of each of its versions."""

    store: SlateStore
    clock: FakeClock
    retention_ms: int | None
    rows: dict[Key, Written] = field(default_factory=dict)
    versions: dict[int, dict[Key, Written]] = field(default_factory=dict)
    is_wider: bool = False

    def commit(self) -> None:
        self.versions[self.store.resolve().version] = dict(self.rows)

    def write(self, tenant: str, ids: range, factor: int, ttl: bool) -> None:
        rows = [_row(tenant, number, factor) for number in ids]
        schema = SCHEMA
        if self.is_wider:
            place = SCHEMA.get_field_index("v")
            schema = SCHEMA.set(place, pa.field("v", pa.int64())).append(pa.field("extra", pa.string()))
            rows = [{**row, "extra": f"e{row['id'] % 3}"} for row in rows]
        options: dict[str, Any] = {"ttl": "1h"} if ttl else {}
        self.store.write(pa.Table.from_pylist(rows, schema), blockSize="1k", mergeSchema=True, **options)
        now_ms = self.clock.now_ms()
        for row in rows:
            self.rows[row["t"], row["id"]] = Written(row, now_ms, now_ms + HOUR_MS if ttl else None)

    def delete(self, tenant: str, ids: range) -> None:
        keys = pa.table({"t": pa.array([tenant] * len(ids)), "id": pa.array(list(ids), pa.int16())})
        self.store.write(keys, operation="delete")
        for number in ids:
            self.rows.pop((tenant, number), None)

    def delete_range(self, tenant: str, ids: range) -> None:
        self.store.deleteRange(f"t = '{tenant}' AND id >= {ids.start} AND id < {ids.stop}")
        for number in range(ids.start, ids.stop):
            self.rows.pop((tenant, number), None)

    def damage(self, pick: int, at: int, kind: str) -> None:
        objects = self.store._stores.main
        copies = objects.list(COLUMNS_DIR)
        if not copies:
            return
        path = copies[pick % len(copies)].path
        data = bytearray(objects.get(path))
        if kind == "flip" and data:
            data[at % len(data)] ^= 1 << at % 8
        elif kind == "cut":
            del data[at % (len(data) + 1) :]
        if kind == "gone":
            objects.delete(path)
        else:
            objects.put(path, [bytes(data)])

    def restore(self, pick: int) -> None:
        version = sorted(self.versions)[pick % len(self.versions)]
        self.store.restoreToVersion(version)
        self.rows = dict(self.versions[version])

    def shown(self, version: int, now_ms: int) -> list[Row]:
        alive = (
            written.row
            for _, written in sorted(self.versions[version].items())
            if (written.expire_ms is None or written.expire_ms > now_ms)
            and (self.retention_ms is None or written.created_ms + self.retention_ms > now_ms)
        )
        return [{"extra": None, **row} if self.is_wider else row for row in alive]


def _row(tenant: str, number: int, factor: int) -> Row:
    mixed = number * factor
    return {
        "t": tenant,
        "id": number,
        "v": None if mixed % 11 == 10 else mixed // 8,
        "w": f"w{number // 10}" + "-" * (mixed % 30),
        "f": math.nan if mixed % 13 == 5 else number / 8 - 4,
        "l": None if number % 9 == 0 else [factor, None],
    }


IDS = st.builds(
    lambda start, count, step: range(start, start + count * step, step),
    st.integers(0, 50),
    st.integers(1, 60),
    st.integers(1, 3),
)
TENANTS = st.sampled_from(["a", "b", "c"])
COPIES = st.sampled_from(["false", "true", "seq"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), TENANTS, IDS, st.integers(1, 5), st.booleans()),
        st.tuples(st.just("delete"), TENANTS, IDS),
        st.tuples(st.just("delete_range"), TENANTS, IDS),
        st.tuples(st.just("compact"), COPIES, st.booleans()),
        st.tuples(st.just("restore"), st.integers(0, 20)),
        st.tuples(st.just("widen")),
        st.tuples(
            st.just("damage"), st.integers(0, 20), st.integers(0, 1 << 20), st.sampled_from(["flip", "cut", "gone"])
        ),
        st.tuples(st.just("wait"), st.sampled_from([MINUTE_MS, 30 * MINUTE_MS, 3 * HOUR_MS])),
    ),
    max_size=6,
)


@dataclass(frozen=True)
class Scan:
    columns: tuple[str, ...] | None
    filter: str | None
    metadata: str | None
    later_ms: int
    version: int | None
    include_expired: bool
    order: str
    split_size: str | None


SCANS = st.lists(
    st.builds(
        Scan,
        st.none() | st.lists(st.sampled_from(SCHEMA.names), min_size=1, max_size=3, unique=True).map(tuple),
        st.none() | st.sampled_from(sorted(FILTERS)),
        st.none() | st.sampled_from(["true", "key", "create_ts,expire_ts", "seq", "op"]),
        st.sampled_from([0, 35 * MINUTE_MS, 80 * MINUTE_MS, 4 * HOUR_MS]),
        st.none() | st.integers(0, 20),
        st.booleans(),
        st.sampled_from(["asc", "desc"]),
        st.sampled_from([None, "1k"]),
    ),
    min_size=3,
    max_size=6,
)


def run(steps: list[Any], scans: list[Scan], value_format: str, retention_ms: int | None) -> None:
    clock = FakeClock()
    given_retention = {} if retention_ms is None else {"retention": f"{retention_ms // MINUTE_MS}m"}
    store = SlateStore.create(
        f"memory://copies-in-scans-{next(_numbers)}/t",
        SCHEMA,
        "t, id",
        clock=clock,
        columnar=True,
        valueFormat=value_format,
        autoCompact=False,
        versionRetention="none",
        **given_retention,
    )
    case = Case(store, clock, retention_ms)
    for start, ttl in ((0, False), (1, True), (2, False)):  # rows of every age in every file
        for tenant in "abc":
            case.write(tenant, range(start, 70, 3), 1, ttl)
        clock.advance(15 * MINUTE_MS)
    store.compact(full=True, blockSize="1k", sstSize="3k")
    case.commit()
    for name, *arguments in steps:
        if name == "compact":
            columnar, is_full = arguments
            store.setProperties(columnar=columnar != "false")
            store.compact(full=is_full, columnar=columnar, blockSize="1k", sstSize="3k")
        elif name == "widen":
            case.is_wider = True
            case.write("b", range(3, 9), 2, False)
        elif name == "wait":
            clock.advance(arguments[0])
        else:
            getattr(case, name)(*arguments)
        clock.advance(MINUTE_MS)
        case.commit()
    for scan in scans:
        check(case, scan)


def check(case: Case, scan: Scan) -> None:
    versions = sorted(case.versions)
    version = versions[-1] if scan.version is None else versions[scan.version % len(versions)]
    now_ms = case.clock.now_ms() + scan.later_ms
    options: dict[str, Any] = {"order": scan.order, "now": now_ms}
    if scan.version is not None:
        options["versionAsOf"] = version
    if scan.columns is not None and scan.metadata is None:
        options["columns"] = ",".join(scan.columns)
    if scan.metadata is not None:
        options["metadataColumns"] = scan.metadata
    if scan.filter is not None:
        options["filter"] = scan.filter
    if scan.include_expired:
        options["includeExpired"] = True
    if scan.split_size is not None:
        options["splitSize"] = scan.split_size
    plain = case.store.scan(**options, useCopies=False).read_all()
    found = case.store.scan(**options, useCopies=True).read_all()
    assert found.schema == plain.schema
    assert repr(found.to_pylist()) == repr(plain.to_pylist())  # in which NaN is equal to itself
    if scan.metadata is None and scan.filter is None:
        check_share(case.store, options, plain)
    test = FILTERS[scan.filter] if scan.filter is not None else lambda row: True
    if test is None or scan.include_expired:
        return
    names = [name for name in found.schema.names if not name.startswith("_")]
    expected = [{name: row.get(name) for name in names} for row in case.shown(version, now_ms) if test(row)]
    shown = expected[::-1] if scan.order == "desc" else expected
    assert repr(found.select(names).to_pylist()) == repr(shown)


def check_share(store: SlateStore, options: dict[str, Any], plain: pa.Table) -> None:
    """Compare what a reader of Parquet would take, and the rest, with all rows."""
    given = {name: value for name, value in options.items() if name != "order"}
    parsed = ReadOptions.parse({"path": store.url, "useCopies": True, **given})
    plan = fetch_read_plan(store._stores, parsed, store._clock)
    names = plan.settings.projection.names
    share = plan_parquet_share(store._stores, plan, parsed, names)
    hidden = {repr(key) for key in share.shadows.to_pylist()}
    keys = dict.fromkeys(share.shadows.column_names)
    found = [row for batch in run_read(store._stores, share.rest) for row in batch.to_pylist()]
    assert len(hidden) == len(share.shadows)
    for file in share.files:
        data = store._stores.main.get(file.path)
        try:
            rows = open_copy(data).file.read().to_pylist()
        except CorruptDataError:  # such a reader fails
            return
        for row in rows:
            ends_ms = _ms(row.get("_expire_ts"))
            if not parsed.include_expired and ends_ms is not None and ends_ms <= plan.now_ms:
                continue
            retired_ms, created_ms = plan.settings.retired_ms, _ms(row.get("_create_ts"))
            if retired_ms is not None and created_ms is not None and created_ms <= retired_ms:
                continue
            if not (file.has_shadows and repr({name: row[name] for name in keys}) in hidden):
                found.append({name: row.get(name) for name in names})
        assert file.nans is not None
        assert all((name in file.nans) == any(_is_nan(row.get(name)) for row in rows) for name in SCHEMA.names)
    _shares["whole"] += sum(not file.has_shadows for file in share.files)
    _shares["shadowed"] += sum(file.has_shadows for file in share.files)
    _shares["rest"] += bool(share.rest.splits)
    assert sorted(map(repr, found)) == sorted(map(repr, plain.to_pylist()))


def _ms(time: datetime | None) -> int | None:
    return None if time is None else round(time.timestamp() * 1000)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def test_copies_change_no_answer() -> None:
    total = {"merged": 0, "alone": 0}

    # fewer of a usual run would meet no copy that newer rows shadow
    @settings(max_examples=max(15, examples(15)), deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(
        steps=STEPS,
        scans=SCANS,
        value_format=st.sampled_from(["avro", "json"]),
        retention_ms=st.sampled_from([None, 2 * HOUR_MS]),
    )
    def compare(steps: list[Any], scans: list[Scan], value_format: str, retention_ms: int | None) -> None:
        with copies_wherever_possible() as used:
            run(steps, scans, value_format, retention_ms)
        for how, count in used.items():
            total[how] += count

    compare()
    assert min(total.values()) > 0, total
    assert min(_shares.values()) > 0, _shares
