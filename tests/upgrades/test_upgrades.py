"""Tables that earlier releases wrote: this one reads them, writes to them, and compacts them."""

from __future__ import annotations

import json
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slatespark import SlateStore
from tests.support.change_streams import Consumer
from tests.support.client import Location, read_rows
from tests.support.fake_clock import FakeClock
from tests.upgrades.make import DATA
from tests.upgrades.plain_rows import plain, table_of

RELEASES = sorted(DATA.glob("slatespark-*"))
CASES = [(release, name) for release in RELEASES for name in json.loads((release / "expected.json").read_text())]
by_case = pytest.mark.parametrize(("release", "name"), CASES, ids=[f"{path.name[11:]}-{name}" for path, name in CASES])


@dataclass
class KeptTable:
    """A table of a release, and what it must show."""

    root: Path
    expected: dict[str, Any]

    def __post_init__(self) -> None:
        self.clock = FakeClock(self.expected["now_ms"] + 1, seed=1)
        self.path = self.root / self.expected["name"]

    @property
    def store(self) -> SlateStore:
        return SlateStore.open(str(self.path), clock=self.clock, root=str(self.root))

    def check(self, which: str) -> None:
        """Compare reads with what they must show."""
        for read in self.expected[which]:
            found = self.store.scan(**read["options"])
            assert plain(found.read_all().to_pylist()) == read["rows"], (which, read["options"])

    def check_look_ups(self, which: str) -> None:
        """Look up each row of the newest state."""
        [newest] = [read["rows"] for read in self.expected[which] if not read["options"]]
        keys = table_of(newest, self.store.scan().schema).select(self.expected["keys"])
        found = self.store.lookup(keys).read_all().to_pylist()
        assert sorted(map(_text, plain(found))) == sorted(map(_text, newest))

    def write_more(self) -> None:
        rows = table_of(self.expected["more"], self.store.scan().schema)
        self.store.write(rows, **self.expected["write"])
        self.clock.advance(1000)


def _text(row: dict[str, Any]) -> str:
    return json.dumps(row, sort_keys=True)


@pytest.fixture
def table(release: Path, name: str, tmp_path: Path) -> KeptTable:
    with tarfile.open(release / "tables.tar.xz") as archive:
        members = [each for each in archive.getmembers() if each.name.split("/")[0] == name]
        if hasattr(tarfile, "data_filter"):
            archive.extractall(tmp_path, members, filter="data")
        else:  # before Python 3.11.4
            archive.extractall(tmp_path, members)
    expected = json.loads((release / "expected.json").read_text(encoding="utf-8"))[name]
    return KeptTable(tmp_path / name, expected)


@by_case
def test_it_is_read_written_and_compacted(table: KeptTable) -> None:
    assert not table.store.verify().findings
    table.check("reads")
    table.check_look_ups("reads")
    table.write_more()
    table.check("after")
    table.store.compact(full=True)
    table.check("after")
    table.check_look_ups("after")
    table.clock.advance(1000)
    table.store.vacuum(minAge="0s", force=True)
    table.check("after")
    assert not table.store.verify().findings


@pytest.mark.parametrize("release", RELEASES, ids=[path.name[11:] for path in RELEASES])
@pytest.mark.parametrize("name", ["streamed"])
def test_a_stream_goes_on(table: KeptTable) -> None:
    stream = table.expected["stream"]
    consumer = Consumer(table.store, table.clock, table.expected["keys"], **stream["options"])
    consumer.offsets = [stream["offset"]]
    consumer.state = {(row["id"],): row for row in stream["state"]}
    table.write_more()
    consumer.catch_up()
    assert [row for _, row in sorted(consumer.state.items())] == table.expected["after"][0]["rows"]


@pytest.mark.parametrize("release", RELEASES, ids=[path.name[11:] for path in RELEASES])
@pytest.mark.parametrize("name", ["changed_by_condition"])
def test_a_write_that_happened_is_not_repeated(table: KeptTable) -> None:
    rows = pa.table({"id": [0], "n": pa.array([99], pa.int32())})
    table.store.write(rows, txnAppId="job", txnVersion=4)
    table.check("reads")


@pytest.mark.parametrize("release", RELEASES, ids=[path.name[11:] for path in RELEASES])
@pytest.mark.parametrize("name", ["raw"])
def test_the_client_reads_what_this_release_made_of_it(table: KeptTable) -> None:
    table.write_more()
    table.store.compact(full=True)
    found = [{"key": row.key.hex(), "value": row.value.hex()} for row in read_rows(Location.local(table.path))]
    assert found == table.expected["after"][0]["rows"]
