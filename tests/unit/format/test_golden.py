"""Annotated bytes of the format: `tests/data/format/*.txt`."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest

from slatespark.format.codecs import Compression
from slatespark.format.info import Footer, SstInfo, SstType, encode_footer, encode_info_section
from slatespark.format.row import Row, RowKind, rows_to_columns
from slatespark.format.schemas import SST_INFO
from slatespark.format.sequence_tracker import SequenceTracker, encode_sequence_tracker
from slatespark.format.sst import SstBuilder
from slatespark.format.verifier import Kind, Slot, Table
from slatespark.kernels import encode_blocks
from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE, TOMBSTONE
from tests.support.golden import DATA, Case, annotated, arguments, run_golden

Parts: TypeAlias = list[tuple[bytes, str]]
FILES = sorted((DATA / "format").glob("*.txt"))


def parse_row(line: str) -> Row:
    """Parse `put key value seq=1 create=2 expire=3`; the value is optional."""
    kind, key, *words = line.split()
    values = [word for word in words if "=" not in word]
    given = arguments(word for word in words if "=" in word)
    return Row(
        key=key.encode(),
        seq=int(given["seq"]),
        kind=RowKind(kind),
        value=values[0].encode() if values else b"",
        create_ts_ms=int(given["create"]) if "create" in given else None,
        expire_ts_ms=int(given["expire"]) if "expire" in given else None,
    )


def encode_block(case: Case) -> str:
    rows = rows_to_columns([parse_row(line) for line in case.lines])
    blocks = encode_blocks(
        [rows],
        np.arange(len(rows), dtype=np.int64),
        block_size=int(case.arguments.get("block_size", 4096)),
        restart_interval=int(case.arguments.get("restart_interval", 16)),
    )
    texts = []
    for number in range(len(blocks)):
        data = blocks.data[blocks.starts[number] : blocks.ends[number]].tobytes()
        texts.append(f"block {number}\n{annotated(block_parts(data))}")
    return "\n".join(texts)


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return value, at


def block_parts(data: bytes) -> Iterator[tuple[bytes, str]]:
    """Split a valid block into fields, without the code under test."""
    (restarts,) = struct.unpack(">H", data[-2:])
    entries_end = len(data) - 2 - 2 * restarts
    at = 0
    while at < entries_end:
        shared, after = varint(data, at)
        yield data[at:after], f"shared {shared}"
        unshared, at = varint(data, after)
        yield data[after:at], f"unshared {unshared}"
        length, after = varint(data, at)
        yield data[at:after], f"value length {length}"
        yield data[after : after + unshared], "key"
        after += unshared
        yield data[after : after + length], "value"
        at = after + length
        yield data[at : at + 8], "seq"
        flags = data[at + 8]
        names = ((TOMBSTONE, "tombstone"), (HAS_EXPIRE, "expire"), (HAS_CREATE, "create"), (8, "merge"))
        yield data[at + 8 : at + 9], "flags: " + (", ".join(name for bit, name in names if flags & bit) or "none")
        at += 9
        for bit, name in ((HAS_EXPIRE, "expire_ts"), (HAS_CREATE, "create_ts")):
            if flags & bit:
                yield data[at : at + 8], name
                at += 8
    for number in range(restarts):
        yield data[at + 2 * number : at + 2 * number + 2], f"restart {number}"
    yield data[-2:], "number of restarts"


@dataclass
class FlatbufferPicture:
    """The annotated fields of a flatbuffer."""

    data: bytes
    spans: dict[int, tuple[int, str]] = field(default_factory=dict)

    def mark(self, start: int, length: int, note: str) -> int:
        self.spans[start] = (start + length, note)
        return int.from_bytes(self.data[start : start + length], "little")

    def follow(self, at: int, table: Table, note: str) -> None:
        self.table(at + self.mark(at, 4, note), table)

    def table(self, at: int, table: Table) -> None:
        vtable = at - self.mark(at, 4, f"{table.name}: back to its vtable")
        size = self.mark(vtable, 2, f"vtable of {table.name}: its size")
        self.mark(vtable + 2, 2, "size of the table")
        names = {slot.offset: slot for slot in table.slots}
        for offset in range(4, size, 2):
            slot = names[offset]
            place = self.mark(vtable + offset, 2, f"place of {slot.name}")
            if place:
                self.slot(at + place, slot)

    def slot(self, at: int, slot: Slot) -> None:
        if slot.kind is Kind.SCALAR:
            self.mark(at, slot.width, slot.name)
        else:
            assert slot.kind is Kind.SCALARS
            start = at + self.mark(at, 4, f"offset of {slot.name}")
            count = self.mark(start, 4, f"length of {slot.name}")
            self.mark(start + 4, count * slot.width, slot.name)

    def parts(self) -> Parts:
        found: Parts = []
        at = 0
        for start, (end, note) in sorted(self.spans.items()):
            found += [(self.data[at:start], "padding"), (self.data[start:end], note)]
            at = max(at, end)
        return [*found, (self.data[at:], "padding")]


def encode_info(case: Case) -> str:
    given = arguments(word for line in case.lines for word in line.split())
    numbers = {name: int(value) for name, value in given.items() if value.isdigit()}
    info = SstInfo(
        first_entry=given["first_entry"].encode(),
        last_entry=given["last_entry"].encode() if "last_entry" in given else None,
        index_offset=numbers["index_offset"],
        index_len=numbers["index_len"],
        filter_offset=numbers["filter_offset"],
        filter_len=numbers.get("filter_len", 0),
        compression=Compression[given.get("compression", "none").upper()],
        sst_type=SstType[given.get("type", "compacted").upper()],
        stats_offset=numbers.get("stats_offset", 0),
        stats_len=numbers.get("stats_len", 0),
    )
    section = encode_info_section(info)
    picture = FlatbufferPicture(section[:-4])
    picture.follow(0, SST_INFO, "offset of SsTableInfo")
    footer = encode_footer(Footer(numbers["at"], 2))
    end = [(section[-4:], "crc32 of the flatbuffer"), (footer[:8], "offset of the info"), (footer[8:], "version")]
    return annotated([*picture.parts(), *end])


def encode_tracker(case: Case) -> str:
    points = tuple((int(seq), int(seconds)) for seq, seconds in (line.split() for line in case.lines))
    data = encode_sequence_tracker(SequenceTracker(points))
    bits = "".join(f"{byte:08b}" for byte in data[5:])
    lines = [annotated([(data[:1], "version"), (data[1:5], "points")])]
    at = 0
    for column in ("seqs", "seconds"):
        start = at
        taken = [("count", 32)] + ([("first", 64)] if points else [])
        for name, width in taken:
            lines.append(f"  {column}: {int(bits[at : at + width], 2):<12} # {name}, {width} bits")
            at += width
        for _ in points[1:]:
            ones = (bits[at : at + 4] + "0").index("0")
            prefix, width = min(ones + 1, 4), (0, 7, 9, 12, 32)[ones]
            lines.append(f"  {column}: {bits[at : at + prefix]} {bits[at + prefix : at + prefix + width]}".rstrip())
            at += prefix + width
        padded = start + -(-(at - start) // 8) * 8
        lines.append(f"  {column}: padded by {padded - at} bits to {(padded - start) // 8} bytes")
        at = padded
    assert at == len(bits)
    return "\n".join([*lines, f"whole: {data.hex()}"])


def encode_whole_file(case: Case) -> str:
    """Return the offsets of the sections of a file."""
    rows = rows_to_columns([parse_row(line) for line in case.lines])
    builder = SstBuilder(block_size=int(case.arguments["block_size"]), min_filter_keys=1, created_ms=1000)
    builder.add([rows], np.arange(len(rows), dtype=np.int64))
    built = builder.finish()
    data, info = b"".join(built.parts), built.info
    header_end = info.sections_end + 4 + int.from_bytes(data[info.sections_end : info.sections_end + 4], "big")
    names = [
        (0, "data blocks"), (info.filter_offset, "filter"), (info.index_offset, "index"), (info.stats_offset, "stats"),
        (info.sections_end, "properties: length of the header"), (info.sections_end + 4, "header"),
        (header_end, "number of blocks, and a frame whose length depends on the zstd library"),
    ]  # fmt: skip
    header = json.dumps(json.loads(data[info.sections_end + 4 : header_end]), indent=1)
    return "\n".join([*(f"{at:>5}: {name}" for at, name in names), header])


COMMANDS = {
    "block": encode_block,
    "info": encode_info,
    "tracker": encode_tracker,
    "sst": encode_whole_file,
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_golden(path: Path, rewrite: bool) -> None:
    run_golden(path, COMMANDS, rewrite=rewrite)
