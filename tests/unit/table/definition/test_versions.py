"""A definition survives JSON, and damaged JSON is refused: the content of a table's folder is untrusted."""

from __future__ import annotations

import contextlib
import json
import pickle
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.encoding.column_types import VARIANT
from slatespark.encoding.row_codec import RAW_CODEC
from slatespark.errors import CorruptDataError, OptionError, SchemaError, TableNotFoundError, UnsupportedFormatError
from slatespark.format.manifest import Manifest
from slatespark.format.segments import SegmentExtractor
from slatespark.options.properties import TABLE_PROPERTIES, parse_properties, split_creation
from slatespark.table.definition.definition_json import decode_definition, encode_definition
from slatespark.table.definition.table_definition import NO_DEFINITION, EarlierBounds, TableDefinition
from slatespark.table.definition.versions import (
    definition_path,
    fetch_definition,
    publish_definition,
    resolve_definition,
)
from slatespark.table.log.versioned_object import RaceLostError, Version
from slatespark.table.read.merge.merge_function import resolve_operator
from slatespark.table.stores import TableStores, open_stores

_numbers = count()

SCHEMA = pa.schema(
    [
        pa.field("tenant", pa.string(), nullable=False),
        pa.field("id", pa.int64()),
        pa.field("größe", pa.list_(pa.field("element", pa.decimal128(10, 2)))),
        pa.field("any", VARIANT),
    ]
)
TYPED = replace(
    TableDefinition(key_format="tuple", key_columns=("tenant", "id"), value_format="avro").with_schema(SCHEMA),
    properties={"defaultTtl": "7d", "autoCompact": "false", "fromTheFuture": "yes"},
    dropped_columns=("old",),
    created_by="0123456789abcdef",
    full_history_ts_low_ms=-5,
    reaped_through_ms=2**63 - 1,
    earlier_bounds=(EarlierBounds(3), EarlierBounds(2**63, -7, 5)),
)


def stores() -> TableStores:
    return open_stores(f"memory://definition-{next(_numbers)}", storage={})


def read(data: bytes) -> TableDefinition:
    return decode_definition(data)


@pytest.mark.parametrize("definition", [TableDefinition(), TYPED, TYPED.with_schema(SCHEMA.remove(3))])
def test_json_round_trip(definition: TableDefinition) -> None:
    assert read(encode_definition(definition)) == definition
    assert pickle.loads(pickle.dumps(definition)) == definition


def test_its_codec() -> None:
    codec = TYPED.codec()
    assert (codec.key_columns, codec.key_format, codec.value_format) == (("tenant", "id"), "tuple", "avro")
    assert [field.name for field in codec.value_fields] == ["größe", "any"]
    assert len(codec.writer_schemas) == 1
    assert TableDefinition(properties={"defaultTtl": "1h"}).codec() == RAW_CODEC


def test_versions_and_the_race_for_a_number() -> None:
    place = stores()
    assert fetch_definition(place) == (0, NO_DEFINITION)
    assert resolve_definition(place, Manifest()).codec() == RAW_CODEC
    publish_definition(place, Version(1, TYPED))
    wider = TYPED.with_schema(SCHEMA.append(pa.field("new", pa.int8())))
    with pytest.raises(RaceLostError):
        publish_definition(place, Version(1, wider))
    publish_definition(place, Version(2, wider))
    assert fetch_definition(place) == (2, wider)
    assert len(wider.writer_schemas) == 2


def test_a_wider_decimal_replaces_the_schema_of_the_same_fingerprint() -> None:
    narrow = TableDefinition("tuple", ("k",), "avro").with_schema(
        pa.schema([("k", pa.int8()), ("d", pa.decimal128(5, 2))])
    )
    wide = narrow.with_schema(pa.schema([("k", pa.int8()), ("d", pa.decimal128(9, 2))]))
    [schema] = wide.writer_schemas.values()
    assert '"precision": 9' in json.dumps(schema)


def test_a_later_version_is_refused_and_named() -> None:
    place = stores()
    content = json.loads(encode_definition(TYPED))
    place.main.create(definition_path(7), json.dumps({**content, "formatVersion": 2}).encode())
    with pytest.raises(UnsupportedFormatError, match=r"table/0+7\.json"):
        fetch_definition(place)


def changed(path: tuple[Any, ...], value: Any) -> bytes:
    content: Any = json.loads(encode_definition(TYPED))
    part = content
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = value
    del content["checksum"]
    return json.dumps(content).encode()


FINGERPRINT = f"{next(iter(TYPED.writer_schemas)):016x}"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "JSON"),
        (b"[]", "JSON"),
        (b"{}", "formatVersion"),
        (b"\xff", "JSON"),
        (b"[" * 100_000, "JSON"),
        (b'{"formatVersion": 1}', "createdBy"),
        (changed(("formatVersion",), True), "formatVersion"),
        (changed(("formatVersion",), 0), "formatVersion"),
        (changed(("createdBy",), 1), "createdBy"),
        (changed(("keyFormat",), "avro"), "keyFormat"),
        (changed(("valueFormat",), ["avro"]), "valueFormat"),
        (changed(("keyColumns",), []), "schema"),
        (changed(("keyColumns",), ["ID"]), "'ID'"),
        (changed(("keyColumns",), ["id", "ID"]), "twice"),
        (changed(("keyColumns",), "id"), "list"),
        (changed(("keyColumns",), ["id", "\ud800"]), "JSON"),
        (changed(("keyFormat",), "utf8"), "keyFormat=utf8 needs one key column"),
        (changed(("valueFormat",), "raw"), "valueFormat=raw needs one value column"),
        (changed(("schema", "fields", 1, "type"), "variant"), "id is VARIANT"),
        (changed(("schema", "fields", 1, "type"), "interval day to second"), "id is INTERVAL"),
        (changed(("schema",), None), "schema"),
        (changed(("schema", "fields", 1, "type"), "bigint"), "schema"),
        (changed(("schema", "fields", 1, "name"), "_key"), "schema"),
        (changed(("writerSchemas",), []), "object"),
        (changed(("writerSchemas", "0" * 16), {"type": "record", "name": "x", "fields": []}), "fingerprint"),
        (changed(("writerSchemas", FINGERPRINT.upper() + "0"), {}), "fingerprint"),
        (changed(("writerSchemas", FINGERPRINT, "fields"), 3), "fingerprint"),
        (changed(("writerSchemas", FINGERPRINT), "string"), "record"),
        (changed(("properties", "defaultTtl"), "soon"), "defaultTtl"),
        (changed(("properties", "autoCompact"), True), "autoCompact"),
        (changed(("droppedColumns",), ["TENANT"]), "dropped"),
        (changed(("reapedThrough",), 2**63), "reapedThrough"),
        (changed(("lostThrough",), "1"), "lostThrough"),
        (changed(("earlierBounds",), {"through": 1}), "earlierBounds"),
        (changed(("earlierBounds",), [{"fullHistoryTsLow": 1, "lostThrough": 1}]), "through"),
        (changed(("earlierBounds", 1, "through"), 3), "order"),
        (changed(("earlierBounds", 1, "lostThrough"), "1"), "lostThrough"),
    ],
    ids=lambda item: item[:30] if isinstance(item, str) else "",
)
def test_damage_is_refused_naming_the_object(data: bytes, message: str) -> None:
    place = stores()
    place.main.create(definition_path(1), data)
    with pytest.raises(CorruptDataError, match=rf"table/0+1\.json.*{message}"):
        fetch_definition(place)


def test_no_changed_byte_is_believed() -> None:
    data = bytearray(encode_definition(TYPED))
    for place in range(len(data)):
        data[place] ^= 1 << place % 7
        with contextlib.suppress(CorruptDataError, UnsupportedFormatError):
            assert read(bytes(data)) == TYPED
        data[place] ^= 1 << place % 7


def test_definitions_of_early_releases_have_no_earlier_bounds() -> None:
    content = json.loads(encode_definition(TYPED))
    del content["earlierBounds"], content["checksum"]
    assert read(json.dumps(content).encode()) == replace(TYPED, earlier_bounds=())


# --- properties -----------------------------------------------------------------------------------------------------


def test_properties_are_text_of_checked_values() -> None:
    given_properties = {
        "default_ttl": 1000,
        "AUTOCOMPACT": False,
        "retention": "7d",
        "versionRetention": None,
        "mergeOperator": "sum",
    }
    assert parse_properties(given_properties) == {
        "defaultTtl": "1000",
        "autoCompact": "false",
        "retention": "7d",
        "versionRetention": "none",
        "mergeOperator": "sum",
    }
    for name in TABLE_PROPERTIES.keys() - {"segmentExtractor", "segmentDelimiter"}:
        with pytest.raises(OptionError, match=name):
            parse_properties({name: "nothing of the kind"})
    with pytest.raises(OptionError, match="retention"):
        parse_properties({"retentions": "7d"})


@pytest.mark.parametrize(
    ("given_value", "text", "delimiter"),
    [
        ("/", "/", b"/"),
        ("::", "::", b"::"),
        (b"/", "/", b"/"),
        ("X'00'", "X'00'", b"\0"),
        ("x'2F2f'", "//", b"//"),
        (b"\0", "X'00'", b"\0"),
        (" ", "X'20'", b" "),
        ("é", "é", "é".encode()),
        (b"\xff", "X'ff'", b"\xff"),
        (b"x'2f'", "X'7827326627'", b"x'2f'"),
        ("x'2", "x'2", b"x'2"),
    ],
)
def test_a_delimiter_is_text_or_bytes(given_value: str | bytes, text: str, delimiter: bytes) -> None:
    properties = parse_properties({"segmentExtractor": "x", "segmentDelimiter": given_value})
    assert properties["segmentDelimiter"] == text
    assert parse_properties(properties) == properties
    assert TableDefinition(properties=properties).segment_extractor == SegmentExtractor("x", delimiter=delimiter)


def test_text_that_no_definition_can_hold_is_refused_before_anything_is_stored(tmp_path: Path) -> None:
    extractor: dict[str, Any] = {"segmentExtractor": "\ud800", "segmentPrefixLength": 2}
    with pytest.raises(OptionError, match="Unicode"):
        SlateStore.create(tmp_path / "t", **extractor)
    assert not (tmp_path / "t").exists()
    store = SlateStore.create(stores().url)
    with pytest.raises(OptionError, match="Unicode"):
        store.setProperties(**extractor)
    with pytest.raises(OptionError, match="Unicode"):
        store.ingest("memory://nothing", **extractor)


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [("histroy", "history"), ("retentoin", "retention"), ("default_ttls", "defaultTtl"), ("keyFromat", "keyFormat")],
)
def test_a_misspelt_property_is_not_a_storage_option(misspelt: str, meant: str) -> None:
    url = stores().url
    with pytest.raises(OptionError, match=rf"\b{meant}\b"):
        SlateStore.create(url, **{misspelt: "true"})
    with pytest.raises(TableNotFoundError):
        SlateStore.open(url)


def test_storage_options_are_not_misspelt_properties() -> None:
    taken = ["endpoint_url", "key", "secret", "token", "anon", "root", "region_name", "region", "profile", "use_ssl"]
    taken += ["client_kwargs", "config_kwargs", "default_block_size", "username", "password", "host", "port", "walPath"]
    assert split_creation(dict.fromkeys(taken, "x")) == ({}, {}, dict.fromkeys(taken, "x"))


@pytest.mark.parametrize("name", ["concat", "sum", "max", "min"])
def test_the_operators_that_a_table_may_name(name: str) -> None:
    assert resolve_operator(parse_properties({"mergeOperator": name})["mergeOperator"]) is not None


@pytest.mark.parametrize("name", ["concat", "Concat"])
def test_the_table_gives_the_default_merge_operator(name: str) -> None:
    store = SlateStore.create(stores().url, mergeOperator=name)
    for value in (b"b", b"a"):
        store.write(pa.table({"key": [b"k", b"k"], "value": [value, b"-"]}), operation="merge")
    assert store.scan().read_all()["value"].to_pylist() == [b"b-a-"]
    assert store.get(b"k") == {"key": b"k", "value": b"b-a-"}
    assert store.get(b"k", mergeOperator=lambda _, operands: max(operands)) == {"key": b"k", "value": b"b-"}
    store.delete("value = X'622D612D'")
    assert store.get(b"k") is None


def test_properties_can_be_set_but_history_cannot() -> None:
    store = SlateStore.create(stores().url, defaultTtl="1h")
    store.setProperties(retention="7d", defaultTtl="none")
    assert store.definition.properties == {"defaultTtl": "none", "retention": "7d"}
    store.setProperties(history=False)
    with pytest.raises(OptionError, match="history"):
        store.setProperties(history=True)
    kept = SlateStore.create(stores().url, history=True)
    kept.setProperties(history="TRUE", retention="7d")
    with pytest.raises(OptionError, match="history"):
        kept.setProperties(history=False)
    assert kept.definition.properties == {"history": "TRUE", "retention": "7d"}
    with pytest.raises(OptionError, match="ttls"):
        store.setProperties(ttls="1h")


def test_dropped_columns_cannot_be_added_again() -> None:
    store = SlateStore.create(stores().url, SCHEMA, "tenant,id")
    with pytest.raises(SchemaError, match="nothing"):
        store.dropColumns("nothing")
    with pytest.raises(SchemaError, match="key"):
        store.dropColumns("ID")
    store.dropColumns("ANY", "größe")
    assert store.definition.codec().schema.names == ["tenant", "id"]
    assert store.definition.dropped_columns == ("any", "größe")
    back = pa.table({"tenant": ["t"], "id": [1], "Any": ["x"]})
    with pytest.raises(SchemaError, match="Any"):
        store.write(back, mergeSchema=True)
    with pytest.raises(SchemaError, match="valueFormat"):
        SlateStore.create(stores().url).dropColumns("value")
