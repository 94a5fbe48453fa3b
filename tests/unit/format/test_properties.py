from __future__ import annotations

import json
import zlib
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from slatespark.errors import CorruptDataError
from slatespark.format import properties
from slatespark.format.codecs import MAX_SECTION_BYTES
from slatespark.format.properties import (
    BlockBounds,
    SstProperties,
    decode_properties,
    encode_properties,
    join_bounds,
)

PROPERTIES = SstProperties(
    created_ms=1, min_create_ts=2, max_create_ts=3, min_expire_ts=None, max_expire_ts=None,
    min_seq=4, max_seq=(1 << 64) - 1, puts=6, deletes=7, merges=8, any_flags=5, all_flags=4, all_versions=True,
)  # fmt: skip


def bounds(count: int) -> BlockBounds:
    random = np.random.default_rng(count)
    times = [random.integers(-(1 << 62), 1 << 62, count) for _ in range(4)]
    flags = [random.integers(0, 16, count).astype(np.uint8) for _ in range(2)]
    return BlockBounds(times[0], times[1], times[2], times[3], flags[0], flags[1])


def equal(one: BlockBounds, other: BlockBounds) -> bool:
    flags = np.array_equal(one.any_flags, other.any_flags) and np.array_equal(one.all_flags, other.all_flags)
    return flags and all(np.array_equal(left, right) for left, right in zip(one.times(), other.times(), strict=True))


@pytest.mark.parametrize("count", [1, 2, 1000])
@pytest.mark.parametrize("before", [b"", b"bytes of somebody else"])
def test_properties_round_trip(count: int, before: bytes) -> None:
    found = decode_properties(before + encode_properties(PROPERTIES, bounds(count)))
    assert found is not None
    assert found[0] == PROPERTIES
    assert equal(found[1], bounds(count))


def test_json_round_trips() -> None:
    header = json.loads(json.dumps(PROPERTIES.to_json()))
    assert SstProperties.from_json(header) == PROPERTIES
    assert SstProperties.from_json({**header, "later": "addition"}) == PROPERTIES
    for change in ({"puts": None}, {"min_seq": "x"}, {"max_create_ts": 1.5}):
        with pytest.raises(CorruptDataError):
            SstProperties.from_json({**header, **change})
    del header["deletes"]
    with pytest.raises(CorruptDataError):
        SstProperties.from_json(header)


def test_every_flipped_byte_is_detected() -> None:
    data = encode_properties(PROPERTIES, bounds(3))
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1
        with suppress(CorruptDataError):
            assert decode_properties(damaged) is None, f"byte {at}"


def sealed(payload: bytes) -> bytes:
    return payload + zlib.crc32(payload).to_bytes(4, "big") + len(payload).to_bytes(4, "big") + b"slateprp"


def test_another_version_is_ignored() -> None:
    header = json.dumps({"version": 2}).encode()
    assert decode_properties(sealed(len(header).to_bytes(4, "big") + header + b"\0\0\0\0")) is None


@pytest.mark.parametrize("header", [b"", b"[]", b"\xff", b'{"version": 1}', b"[" * 100000])
def test_damaged_headers_are_refused(header: bytes) -> None:
    with pytest.raises(CorruptDataError):
        decode_properties(sealed(len(header).to_bytes(4, "big") + header + b"\0\0\0\0"))


@pytest.mark.parametrize("payload", [b"", b"\0", b"\xff\xff\xff\xff", b"\0\0\0\x05abc"])
def test_truncated_payloads_are_refused(payload: bytes) -> None:
    with pytest.raises(CorruptDataError):
        decode_properties(sealed(payload))


def test_a_count_that_does_not_fit_is_refused() -> None:
    data = encode_properties(PROPERTIES, bounds(3))
    payload = bytearray(data[:-16])
    at = 4 + int.from_bytes(payload[:4], "big")
    for count in (0, 2, 4, (1 << 32) - 1):
        payload[at : at + 4] = count.to_bytes(4, "big")
        with pytest.raises(CorruptDataError):
            decode_properties(sealed(bytes(payload)))


def test_a_count_never_allows_for_more_than_a_section_has(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def decompress(*_: object, max_bytes: int) -> bytes:
        asked.append(max_bytes)
        return b""

    monkeypatch.setattr(properties, "decompress", decompress)
    data = encode_properties(PROPERTIES, bounds(3))
    payload = bytearray(data[:-16])
    at = 4 + int.from_bytes(payload[:4], "big")
    payload[at : at + 4] = b"\xff" * 4
    with pytest.raises(CorruptDataError):
        decode_properties(sealed(bytes(payload)))
    assert asked == [MAX_SECTION_BYTES]


def test_bounds_of_several_steps_concatenate() -> None:
    whole = join_bounds([bounds(2), bounds(5)])
    assert len(whole) == 7
    assert np.array_equal(whole.all_flags[2:], bounds(5).all_flags)
    assert replace(PROPERTIES, puts=1).num_rows == 16
