"""First inputs of every decoder: real files of the fixtures, their parts, and text that users write."""

from __future__ import annotations

import json
import struct
import tarfile
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa

from slatespark.encoding.avro_schema import avro_schema
from slatespark.encoding.avro_value import encode_avro_values
from slatespark.encoding.spark_schema import spark_json
from slatespark.errors import SlateError
from slatespark.format.block_group import unpack_blocks
from slatespark.format.codecs import Compression, compress, decompress
from slatespark.format.index import decode_index_section
from slatespark.format.info import decode_footer, decode_info_section, footer_range, info_range
from slatespark.format.manifest_codec import decode_manifest
from slatespark.format.sequence_tracker import encode_sequence_tracker
from slatespark.format.sst import layout_of
from tests.fuzz.corpus import MAX_INPUT_BYTES
from tests.fuzz.targets import COLUMNS
from tests.support.fixture_databases import DATA

_TEXT: dict[str, list[str]] = {
    "condition": [
        "word = 'a' AND n < 5",
        "n IN (1, 2, NULL) AND d BETWEEN 1.5 AND 2",
        "(word, n) IN (('a', 1), ('b', 2)) AND flag = true",
        "word LIKE 'a%' AND blob = X'00ff' AND day >= DATE '2026-01-01'",
        "at < TIMESTAMP '2026-01-01 00:00:00+02:00' AND whole <> 1e300 AND half >= -0.0",
        "n IS NOT NULL AND word NOT IN ('x') AND n <=> NULL",
        "word = 'a' OR word = 'b' AND n = 3",
        "`word` = 'it''s' AND n = -9223372036854775808",
        "inner = 3 AND list = 'x'",
    ],
    "columns": [
        "id BIGINT NOT NULL, name STRING",
        "a STRUCT<x: INT, y: ARRAY<DECIMAL(10,2)>>, `b c` MAP<STRING, DATE> NOT NULL",
        "t TIMESTAMP_NTZ, v VARIANT, i INTERVAL DAY TO SECOND, q TIME(6)",
    ],
    "cells": ["1", "-1.50", "2026-01-31T06:00:00.000001+02:00", "true", "NaN", '["a", null]', '{"x": 1}', "00ff"],
    "options": ["7d", "2h30m", "P1D", "2026-01-31T06:00:00Z", "1.5g", "64k", "X'00ff'", "seq,op", "0", "-1 day"],
    "boundary": ["2", "18446744073709551615", "+1"],
    "copy_label": [
        '{"sst": "01M7YRCVEB9T5DR5R9WRNDXZHY", "sst_digest": "00", "rows": 2, "min_seq": 1, "max_seq": 2, "format": 1}',
        '{"sst": "x", "sst_digest": "", "rows": 2, "min_seq": 1, "max_seq": 2, "format": 1, "hidden": ["a"]}',
        '{"rows": null}',
    ],
}  # fmt: skip


def make_seeds() -> dict[str, list[bytes]]:
    """Return inputs by decoder."""
    found: dict[str, list[bytes]] = defaultdict(list)
    for name, data in _files():
        for target, part in (*_of_file(name, data),):
            if 0 < len(part) <= MAX_INPUT_BYTES:
                found[target].append(part)
    for target, texts in _TEXT.items():
        found[target] += [text.encode() for text in texts]
    found["cells"] = [bytes([kind]) + text for kind in range(len(COLUMNS)) for text in found["cells"]]
    for form in Compression:
        found["codec"] += [bytes([form]) + compress(b"abcabcabc" * 9, form), bytes([form]) + compress(b"", form)]
    found["avro"], found["json_values"] = _values()
    found["json_cells"] = [
        bytes([kind]) + text for kind in range(len(COLUMNS)) for text in (b"1", b'"2026-01-01"', b"[1.5]", b'{"x": 1}')
    ]
    found["tuples"] += [
        b"\0\0" + key
        for key in (b"\0\x02a\0", b"\1\x16\1\x2c", b"\1\x0c" + bytes(8), b"\3\x20\x80\0\0\0", b"\4\x21" + bytes(8))
    ]
    found["tuples"] += [b"\0\6\7\x1d\x10" + bytes(16), b"\0\x0a\0\x05\x15\1\x02a\0\0", b"\1\5\7\x26\x15\1"]
    found["spark_schema"].append(json.dumps(spark_json(COLUMNS)).encode())
    return found


def _files() -> Iterator[tuple[str, bytes]]:
    for path in sorted(DATA.glob("slatedb-*/*/**/*")):
        if path.is_file():
            yield path.as_posix(), path.read_bytes()
    for archive in sorted(DATA.glob("slatespark-*/tables.tar.xz")):
        with tarfile.open(archive) as tables:
            for member in tables:
                opened = tables.extractfile(member)
                if opened is not None:
                    yield member.name, opened.read()
    for expected in sorted(DATA.glob("slatespark-*/expected.json")):
        yield "offset", json.loads(expected.read_text())["streamed"]["stream"]["offset"].encode()


def _of_file(name: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    if name == "offset":
        yield "offset", data
    elif name.endswith(".manifest"):
        yield "manifest", data
        yield "tracker", encode_sequence_tracker(decode_manifest(data).sequence_tracker)
    elif name.endswith(".compactions"):
        yield "compactions", data
    elif "/slatespark/table/" in name:
        yield "definition", data
        yield "spark_schema", json.dumps(json.loads(data)["schema"]).encode()
    elif name.endswith(".json") and "/slatespark/" in name:
        yield "records", data
    elif name.endswith(".sst") and data:
        yield "wal" if "/wal/" in name else "sst", data
        yield from _parts(data)


def _parts(data: bytes) -> Iterator[tuple[str, bytes]]:
    view = memoryview(data)
    tail = footer_range(len(view))
    footer = decode_footer(view[tail.start : tail.end])
    span = info_range(footer, len(view))
    info = decode_info_section(view[span.start : span.end])
    layout = layout_of(info, footer, len(view))
    for name, section in (("index", layout.index), ("filters", layout.filter), ("stats", layout.stats)):
        if section is not None:
            payload = decompress(view[section.start : section.end - 4], info.compression)
            yield name, b"\0" + payload if name == "index" else payload
    gap = bytes(view[layout.gap.start : layout.gap.end])
    if len(gap) > 16:
        yield "properties", gap[-16 - struct.unpack(">I", gap[-12:-8])[0] : -16]
    try:
        index = decode_index_section(view[layout.index.start : layout.index.end], info)
    except SlateError:
        return
    blocks = unpack_blocks(
        np.frombuffer(view, np.uint8),
        index.block_edges(info),
        index.encoded_bytes,
        info.compression,
        limit_bytes=1 << 20,
    )
    first = blocks.data[blocks.starts[0] : blocks.ends[0]].tobytes()
    yield "blocks", bytes([footer.version - 1, 0]) + first


def _values() -> tuple[list[bytes], list[bytes]]:
    rows = [
        {"word": "a", "n": 1, "flag": True, "blob": b"xy", "inner": {"x": 1, "y": None}, "list": [{"x": 2, "y": "b"}]},
        {"word": "b", "whole": 1.5, "half": 0.5, "map": [("k", 1), ("l", None)], "small": -1},
    ]  # fmt: skip
    table = pa.Table.from_pylist(rows, COLUMNS)
    fields = list(COLUMNS)[1:]
    data, offsets = encode_avro_values(table.columns[1:], fields, avro_schema(fields))
    encoded = [data[start:end].tobytes()[10:] for start, end in pairwise(offsets)]
    texts = [b'{"n": 1, "flag": true, "inner": {"x": 1}, "list": [{"y": "b"}]}', b'{"whole": "NaN", "map": {"k": 1}}']
    texts += [b'{"d": "1.25", "day": "2026-01-01", "at": "2026-01-01T00:00:00Z", "blob": "AAE="}', b"{}"]
    return [bytes([choice]) + each for choice in (255, 1, 84) for each in encoded], texts
