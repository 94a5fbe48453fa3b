"""The options of each call: the tags, and what the calls accept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

from slatespark import Reaper, SlateStore, Upkeep
from slatespark.errors import InvalidRequestError, OptionError, SchemaError
from slatespark.options import Call, ReadOptions, WriteOptions, option_keys
from slatespark.options.streaming import StreamWriteOptions
from slatespark.table.compaction.options import parse_compaction, parse_worker
from slatespark.table.rows.sst_writer import SstWriter
from slatespark.table.transaction.options import delete_options, parse_begin, parse_read, parse_write
from slatespark.table.write.change_options import parse_change
from slatespark.table.write.ingest import parse_ingest

TABLE = {"path": "/t"}
FILES = {"compression", "blockSize", "bloomBitsPerKey", "writeBuffer"}
ROWS = {"operation", "opColumn", "ttl", "ttlColumn", "expireAtColumn", "ttlFrom", "sequenceColumn", "mergeOperator"}
COMMIT = {"txnAppId", "txnVersion", "ifClientActive", "commitRewriteLimit", "gcMinAge", "mergeOperator"}
COMMIT |= {"segmentExtractor", "segmentPrefixLength", "segmentDelimiter"}
RAW_KEYS = {"startKey", "endKey", "keyPrefix"}
TIMES = {"timestamp", "timestampColumn"}
EDIT = FILES - {"writeBuffer"} | {"sstSize", "ifClientActive", "ifLastSeq"}  # of a commit that removes rows
EDIT |= {"segmentExtractor", "segmentPrefixLength", "segmentDelimiter"}
PAIR = {"txnAppId", "txnVersion"}
CHANGE = COMMIT | FILES | TIMES | {"sstSize", "ifLastSeq", "throughputMBPerSec"}
READ_POINT = {"versionAsOf", "timestampAsOf", "seqAsOf", "checkpoint", "pin"}
FEED = {"readChangeFeed", "changes", "preImages", "expired", "startingVersion", "startingTimestamp", "endingVersion"}
FEED |= {"endingTimestamp", "startingBoundInclusive", "endingBoundInclusive"}
FEED |= {"maxFilesPerTrigger", "maxBytesPerTrigger", "maxRowsPerTrigger", "pollInterval", "failOnDataLoss"}
FEED |= {"streamRetention", "streamId"}
PLACE = {"path", "walPath", "clock"}

TAKEN = {
    Call.DELETE: CHANGE - {"timestampColumn"} | {"clientTimeout", "unflushedRows"},
    Call.UPDATE: CHANGE | {"ttl", "ttlFrom"},
    Call.MERGE: CHANGE | {"ttl", "ttlFrom", "mergeSchema"},
    Call.SST_WRITER: ROWS | TIMES | FILES,
    Call.INGEST: COMMIT | FILES | {"sstSize", "timestamp", "mergeSchema", "ifLastSeq", "throughputMBPerSec"},
    Call.BEGIN: COMMIT | FILES | {"sstSize", "pin"},
    Call.TRANSACTION_WRITE: ROWS | FILES | {"sstSize"},
    Call.TRANSACTION_DELETE: FILES | {"sstSize", "mergeOperator"},
    Call.TRANSACTION_READ: set(option_keys(ReadOptions)) - READ_POINT - FEED - PLACE,
    Call.COMPACT: RAW_KEYS | FILES | {"sstSize", "mergeOperator", "ifClientActive", "clientTimeout"},
    Call.WORKER: FILES | {"sstSize", "mergeOperator"},
    Call.REAP: FILES | {"sstSize", "ifClientActive", "gcMinAge", "commitRewriteLimit"},
    Call.UPKEEP: FILES
    | {"sstSize", "mergeOperator", "ifClientActive", "clientTimeout", "gcMinAge", "commitRewriteLimit"},
    Call.RESTORE: EDIT | {"gcMinAge"},
    Call.TRIM: EDIT | {"gcMinAge"},
    Call.ERASE: EDIT | RAW_KEYS | {"gcMinAge"},
    Call.ABSENCE: RAW_KEYS,
    Call.DELETE_RANGE: EDIT | RAW_KEYS | PAIR | {"clientTimeout", "unflushedRows"},
    Call.DELETE_HISTORY: EDIT | RAW_KEYS | PAIR | COMMIT | {"writeBuffer", "throughputMBPerSec", "timestamp"},
}
EVERY_KEY = sorted({*option_keys(ReadOptions), *option_keys(WriteOptions)})


def write_file(given: Mapping[str, Any]) -> None:
    """Parse the options; then the rows are refused."""
    with pytest.raises(SchemaError):
        SstWriter("memory://calls/file.sst").write(None, **given)


ONE_KEY = "key = X'61'"
NOW_MS = 1 << 40


@cache
def table(*, history: bool = False) -> SlateStore:
    store = SlateStore.create(f"memory://calls/{history}", history=history)
    store.write(pa.table({"key": [b"a"], "value": [b"1"]}))
    return store


PARSERS: dict[Call, Callable[[Mapping[str, Any]], object]] = {
    Call.DELETE: lambda given: parse_change(Call.DELETE, TABLE, given),
    Call.UPDATE: lambda given: parse_change(Call.UPDATE, TABLE, given),
    Call.MERGE: lambda given: parse_change(Call.MERGE, TABLE, given),
    Call.SST_WRITER: write_file,
    Call.INGEST: lambda given: parse_ingest(TABLE, given),
    Call.BEGIN: lambda given: parse_begin(TABLE, given, None),
    Call.TRANSACTION_WRITE: lambda given: parse_write(TABLE, {}, given),
    Call.TRANSACTION_DELETE: delete_options,
    Call.TRANSACTION_READ: lambda given: parse_read(TABLE, {}, given),
    Call.COMPACT: lambda given: parse_compaction(TABLE, given),
    Call.WORKER: parse_worker,
    Call.REAP: lambda given: Reaper(options=given),
    Call.UPKEEP: lambda given: Upkeep(options=given),
    Call.RESTORE: lambda given: table().restoreToVersion(1, **given),
    Call.TRIM: lambda given: table(history=True).trimHistory(NOW_MS, **given),
    Call.ERASE: lambda given: table().erase(b"a", **given),
    Call.ABSENCE: lambda given: table().proveAbsent(b"a", **given),
    Call.DELETE_RANGE: lambda given: table()._delete_options(Call.DELETE_RANGE, given),  # `timestamp` is an argument
    Call.DELETE_HISTORY: lambda given: table(history=True).deleteRange(ONE_KEY, **given),
}


@pytest.mark.parametrize("call", TAKEN, ids=lambda call: call.name)
def test_the_tags_name_what_a_call_takes(call: Call) -> None:
    assert {*option_keys(ReadOptions, call), *option_keys(WriteOptions, call)} == TAKEN[call]


@pytest.mark.parametrize("call", TAKEN, ids=lambda call: call.name)
def test_a_call_accepts_what_it_takes_and_refuses_the_rest(call: Call) -> None:
    known = option_keys(ReadOptions if call is Call.TRANSACTION_READ else WriteOptions)
    for spelled in (str, str.upper):
        PARSERS[call]({spelled(key): None for key in (*known, *TAKEN[call])})  # None: not given
        for key in set(EVERY_KEY) - TAKEN[call]:
            with pytest.raises(OptionError, match=spelled(key)):
                PARSERS[call]({spelled(key): "1"})
        for key in {*EVERY_KEY, "unknown"} - TAKEN[call] - {*known}:
            with pytest.raises(OptionError, match=spelled(key)):
                PARSERS[call]({spelled(key): None})


ROW = pa.table({"key": [b"a"], "value": [b"1"]})
NOT_GIVEN: dict[str, Callable[[Mapping[str, Any]], object]] = {
    "get": lambda given: table().get(b"a", **given),
    "scan": lambda given: table().scan(**given),
    "lookup": lambda given: table().lookup(ROW, **given),
    "read of a snapshot": lambda given: table().snapshot().scan(**given),
    "look-up of a snapshot": lambda given: table().snapshot().get(b"a", **given),
    "read of a transaction": lambda given: table().begin().read(**given),
    "getForUpdate": lambda given: table().begin().getForUpdate(where=ONE_KEY, **given),
    "detail": lambda given: table().detail(**given),
    "explain": lambda given: table().explain(**given),
}


@pytest.mark.parametrize("call", NOT_GIVEN)
def test_what_is_none_is_not_given(call: str) -> None:
    for name in ("path", "Path", "walPath", "wal_path", "storage.region", "filter", "versionAsOf", "startKey"):
        NOT_GIVEN[call]({name: None})
    with pytest.raises(OptionError, match="nothing"):
        NOT_GIVEN[call]({"nothing": None})


def test_a_snapshot_is_not_chosen_by_what_is_none() -> None:
    assert table().snapshot(filter=None, path=None).version == table().resolve().version
    with pytest.raises(OptionError, match="filter is an option of a read"):
        table().snapshot(filter=ONE_KEY)
    with pytest.raises(OptionError, match="nothing"):
        table().snapshot(nothing=None)


def test_rows_are_written_where_none_is_named() -> None:
    store = SlateStore.create("memory://calls/none", walPath="memory://calls/wal")
    version = store.write(ROW, path=None, walPath=None, wal_path=None, ttl=None, TTL=None, ttl_column=None)  # type: ignore[call-arg]
    assert store.resolve().version == version
    assert store.scan().read_all().num_rows == 1


def test_what_a_write_leaves_open_follows_from_the_transaction() -> None:
    begun = {"compression": "zstd", "merge_operator": "sum"}
    parsed = parse_write(TABLE, begun, {"Compression": None, "mergeOperator": None})
    assert (parsed.compression, parsed.merge_operator) == ("zstd", "sum")
    assert parse_read(TABLE, begun, {"mergeOperator": None}).merge_operator == "sum"


def test_reads_and_writes_take_all_their_options() -> None:
    assert option_keys(ReadOptions, Call.READ) == option_keys(ReadOptions)
    assert option_keys(WriteOptions, Call.WRITE) == option_keys(WriteOptions)
    assert "readSet" not in option_keys(WriteOptions)


@pytest.mark.parametrize(
    ("call", "misspelt", "nearest"),
    [
        (Call.BEGIN, "txnAppIds", "txnAppId"),
        (Call.BEGIN, "pins", "pin"),
        (Call.TRANSACTION_WRITE, "opColumns", "opColumn"),
        (Call.TRANSACTION_READ, "splitSizes", "splitSize"),
        (Call.COMPACT, "startKeys", "startKey"),
        (Call.COMPACT, "dryRuns", "dryRun"),
        (Call.WORKER, "sstSizes", "sstSize"),
        (Call.UPKEEP, "sstSizes", "sstSize"),
        (Call.RESTORE, "ifLastSeqs", "ifLastSeq"),
        (Call.ERASE, "releaseVersion", "releaseVersions"),
        (Call.ABSENCE, "keyPrefixes", "keyPrefix"),
        (Call.DELETE_RANGE, "txnAppIds", "txnAppId"),
    ],
)
def test_a_misspelt_option_gets_the_nearest_name_that_the_call_takes(call: Call, misspelt: str, nearest: str) -> None:
    with pytest.raises(OptionError, match=rf"'{misspelt}'.* {nearest}\?"):
        PARSERS[call]({misspelt: None})


@pytest.mark.parametrize(
    "call",
    [
        lambda store, given: store.delete(ONE_KEY, **given),
        lambda store, given: store.delete(ONE_KEY, ifClientActive="cooperate", **given),
        lambda store, given: store.update(ONE_KEY, {"value": b"2"}, **given),
        lambda store, given: store.begin().delete(ONE_KEY, **given),
        lambda store, given: store.begin().delete(keys=[b"a"], **given),
        lambda store, given: store.restoreToTimestamp(NOW_MS, **given),
        lambda store, given: store.deleteRange(ONE_KEY, **given),
        lambda store, given: store.explain("erase", keys=[b"a"], **given),
    ],
)
@pytest.mark.parametrize(
    "given",
    [
        {"ttlColumn": "ttl"},
        {"mergeSchema": True},
        {"ifExists": "error"},
        {"ifexists": "ignore"},
        {"opColumn": "op"},
        {"Operation": "merge"},
        {"key_format": "raw"},
    ],
)
def test_options_without_effect_are_refused(
    call: Callable[[SlateStore, Mapping[str, Any]], object], given: Mapping[str, Any]
) -> None:
    before = table().resolve().version
    with pytest.raises(OptionError, match=f"{next(iter(given))} does not apply"):
        call(table(), given)
    assert table().resolve().version == before


def test_a_timestamp_of_a_deletion_is_for_history_tables() -> None:
    with pytest.raises(OptionError, match="history"):
        table().deleteRange(ONE_KEY, timestamp=NOW_MS)


def test_an_internal_option_has_no_name() -> None:
    for call in (Call.DELETE, Call.UPDATE, Call.MERGE, Call.INGEST, Call.TRANSACTION_WRITE):
        with pytest.raises(OptionError, match="Unknown option 'read_set'"):
            PARSERS[call]({"read_set": "{}"})


@pytest.mark.parametrize("given", [{"ttl": "1h"}, {"ttl": "none"}, {"ttlFrom": "write"}])
def test_a_deletion_never_expires(given: dict[str, str]) -> None:
    [name] = given
    for parse in (
        lambda options: WriteOptions.parse({**TABLE, "operation": "delete", **options}),
        lambda options: StreamWriteOptions.parse({**TABLE, "operation": "delete", **options}),
        lambda options: parse_write(TABLE, {}, {"operation": "delete", **options}),
    ):
        with pytest.raises(OptionError, match=f"{name} is given for a deletion"):
            parse(given)
    WriteOptions.parse({**TABLE, "operation": "delete", "ttl": "default", "ttlFrom": "row"})
    WriteOptions.parse({**TABLE, "operation": "delete", "ttlColumn": "t"})  # which the rows have, and is not stored


def test_options_of_other_calls_are_not_suggested() -> None:
    for misspelt in ("txnAppIds", "opColumns"):
        for call in (Call.TRANSACTION_READ, Call.COMPACT, Call.WORKER):
            with pytest.raises(OptionError) as caught:
                PARSERS[call]({misspelt: None})
            assert misspelt[:-1] not in str(caught.value).replace(misspelt, "")


@pytest.mark.parametrize("path", ["", "  "])
def test_an_empty_path_is_not_the_current_folder(path: str) -> None:
    with pytest.raises(OptionError):
        SlateStore.open(path)
    with pytest.raises(OptionError):
        SlateStore.drop(path)


@pytest.mark.parametrize("schema", [{"id": "BIGINT"}, ["id BIGINT"], pa.table({"id": [1]})], ids=type)
def test_a_schema_that_is_none(schema: Any) -> None:
    with pytest.raises(SchemaError):
        SlateStore.create("memory://calls/t", schema, "id")


def test_names_of_columns_are_arguments() -> None:
    store = SlateStore.create("memory://calls/names", "id BIGINT, a STRING", "id")
    for name in (["a"], [], None):
        with pytest.raises(InvalidRequestError):
            store.dropColumns(name)  # type: ignore[arg-type]
