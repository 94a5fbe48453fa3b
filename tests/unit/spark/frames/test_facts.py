"""Each fact is in the column of its name; no session is needed, as the rows are looked at before Spark gets them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import pytest

from slatespark.spark.frames import facts
from slatespark.table.checkpoints.store import CheckpointFacts
from slatespark.table.inspection.describe import CodecFacts, DefinitionFacts, TableFacts, WalFacts
from slatespark.table.inspection.files import FileFacts, LayerFacts
from slatespark.table.inspection.sequences import SequencePoint
from slatespark.table.inspection.versions import VersionFacts
from slatespark.table.read.versions.floor import HistoryFloors
from slatespark.table.retention.expiry_tally import ExpiryPart, ExpiryReport


@dataclass
class Rows:
    """What becomes a DataFrame, by the names of the columns."""

    shown: list[dict[str, Any]] = field(default_factory=list)

    def note(self, _: object, ddl: str, rows: list[tuple[Any, ...]]) -> None:
        names = re.findall(r"(?:^|, )(\w+) ", ddl)  # Spark parses it with a session alone
        self.shown = [dict(zip(names, row, strict=True)) for row in rows]


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> Rows:
    noted = Rows()
    monkeypatch.setattr(facts, "local_frame", noted.note)
    return noted


SPARK: Any = None

FILE = FileFacts(
    layer="run 7",
    id="01J",
    root="s3://other",
    start=b"a",
    end=b"b",
    stored_bytes=1,
    compression="zstd",
    created_ms=2,
    rows=3,
    blocks=4,
    min_seq=5,
    max_seq=6,
    min_create_ms=7,
    max_create_ms=8,
    min_expire_ms=9,
    max_expire_ms=10,
    features=("ttl", "merges"),
    properties_version=11,
    shows_rows=False,
    segment=b"s",
    copy_bytes=12,
)


def test_files(rows: Rows) -> None:
    facts.files_frame(SPARK, [FILE, FileFacts("L0", "01K", None, b"", None, 13, "none", 14)])
    told, bare = rows.shown
    assert told == {
        "layer": "run 7",
        "id": "01J",
        "root": "s3://other",
        "startKey": b"a",
        "endKey": b"b",
        "storedBytes": 1,
        "compression": "zstd",
        "created": 2,
        "rows": 3,
        "blocks": 4,
        "minSeq": 5,
        "maxSeq": 6,
        "minCreateTs": 7,
        "maxCreateTs": 8,
        "minExpireTs": 9,
        "maxExpireTs": 10,
        "features": ["ttl", "merges"],
        "propertiesVersion": 11,
        "showsRows": False,
        "segment": b"s",
        "copyBytes": 12,
    }
    known = {"layer": "L0", "id": "01K", "startKey": b"", "storedBytes": 13, "compression": "none", "created": 14}
    assert bare == {**dict.fromkeys(told), **known, "showsRows": True}


def test_layers(rows: Rows) -> None:
    facts.runs_frame(SPARK, [LayerFacts(1, "run 7", 2, 3, b"a", b"b", (FILE,), b"s")])
    assert rows.shown == [
        {
            "number": 1,
            "layer": "run 7",
            "files": 2,
            "storedBytes": 3,
            "startKey": b"a",
            "endKey": b"b",
            "segment": b"s",
        }
    ]


TABLE = TableFacts(
    url="memory://t",
    kind="typed",
    version=1,
    manifest_format=2,
    sst_formats=(2,),
    writer_epoch=3,
    compactor_epoch=4,
    l0_views=5,
    sorted_runs=6,
    segments=("ff00", "01"),
    files=7,
    stored_bytes=8,
    codecs=(CodecFacts("zstd", 7, 8),),
    rows=None,
    last_seq=9,
    clock_tick_ms=10,
    wal=WalFacts(11, 12, 13),
    checkpoints=(),
    external=(),
    jobs=(),
    versions=(1, 14),
    definition=DefinitionFacts(15, ("t", "id"), "tuple", "avro", (), {"columnar": "true"}, (), 1),
    history_floors=HistoryFloors(stored_ms=16, effective_ms=17),
    segment_extractor="prefix",
    copies=18,
    copy_bytes=19,
)


def test_a_table(rows: Rows) -> None:
    facts.detail_frame(SPARK, TABLE)
    assert rows.shown == [
        {
            "url": "memory://t",
            "kind": "typed",
            "version": 1,
            "keyColumns": ["t", "id"],
            "keyFormat": "tuple",
            "valueFormat": "avro",
            "properties": {"columnar": "true"},
            "files": 7,
            "storedBytes": 8,
            "l0Views": 5,
            "sortedRuns": 6,
            "lastSeq": 9,
            "clockTick": 10,
            "versions": [1, 14],
            "storedHistoryFloor": 16,
            "historyFloor": 17,
            "segmentExtractor": "prefix",
            "segments": [b"\xff\0", b"\1"],
            "copies": 18,
            "copyBytes": 19,
        }
    ]


def test_a_table_without_a_definition_history_and_segments(rows: Rows) -> None:
    bare = {"definition": None, "history_floors": None, "segment_extractor": None, "segments": ()}
    facts.detail_frame(SPARK, TableFacts(**{**{name: getattr(TABLE, name) for name in TABLE.__slots__}, **bare}))
    [shown] = rows.shown
    assert (shown["keyColumns"], shown["properties"]) == ([], {})
    missing = {name for name, value in shown.items() if value is None}
    assert missing == {
        "keyFormat",
        "valueFormat",
        "storedHistoryFloor",
        "historyFloor",
        "segmentExtractor",
        "segments",
    }


def test_versions(rows: Rows) -> None:
    facts.history_frame(SPARK, [VersionFacts(1, 2, "write", "slatespark", "w", 3, 4, {"put": 5}, 6, 7)])
    assert rows.shown == [
        {
            "version": 1,
            "timestamp": 2,
            "operation": "write",
            "engine": "slatespark",
            "writeId": "w",
            "firstSeq": 3,
            "lastSeq": 4,
            "rows": {"put": 5},
            "files": 6,
            "filesRemoved": 7,
        }
    ]


def test_checkpoints(rows: Rows) -> None:
    facts.checkpoints_frame(SPARK, [CheckpointFacts("id", "name", 1, 2, 3)])
    assert rows.shown == [{"id": "id", "name": "name", "version": 1, "created": 2, "expires": 3}]


def test_points_of_the_sequence_tracker(rows: Rows) -> None:
    facts.sequences_frame(SPARK, [SequencePoint(1, 2), SequencePoint(3, 4)])
    assert rows.shown == [{"seq": 1, "timestamp": 2}, {"seq": 3, "timestamp": 4}]


def test_what_expires_when(rows: Rows) -> None:
    part = ExpiryPart("expires", 1, 2, 3, 4, 5, 6)
    facts.expiry_frame(SPARK, ExpiryReport("memory://t", 7, 8, "day", 9, 10, (part,), 11, 12, 13, 14))
    assert rows.shown == [
        {
            "state": "expires",
            "expiresFrom": 1,
            "expiresBefore": 2,
            "rows": 3,
            "storedBytes": 4,
            "walRows": 5,
            "walBytes": 6,
        }
    ]
