"""Filter section: proves that keys are absent from an SST.

Composite form (the one slatespark writes), before compression:

    00-01   u16be number of filters
    each:   u16be length of the name, name (UTF-8), u64be length of the data, data

Legacy form: the data of one bloom filter, named `_bf`. Data of a bloom filter: u16be number of probes, then the bits.
Filters with unknown names are ignored. Source: `docs/reference/format/filter.md`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slatespark.errors import CorruptDataError
from slatespark.format.codecs import Buffer, decode_section
from slatespark.format.info import FilterFormat, SstInfo
from slatespark.kernels import build_bloom, probe_bloom

BLOOM: Final = "_bf"  # on disk, do not change
_PREFIX_BLOOM: Final = "_bf:p="  # with a prefix extractor; also contains whole keys ...
_NO_WHOLE_KEYS: Final = ":wh=0"  # ... unless the name has this suffix

_COUNT = struct.Struct(">H")
_DATA_LENGTH = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class NamedFilter:
    """One filter as it is stored."""

    name: str
    data: bytes

    def holds_whole_keys(self) -> bool:
        """Tell whether the filter contains whole keys, in a form that slatespark can probe."""
        known = self.name == BLOOM or self.name.startswith(_PREFIX_BLOOM)
        return known and not self.name.endswith(_NO_WHOLE_KEYS)


@dataclass(frozen=True, slots=True)
class FilterSet:
    """All filters of an SST, including those that cannot be probed."""

    filters: tuple[NamedFilter, ...]

    @property
    def held_bytes(self) -> int:
        """Memory that the filters take."""
        return sum(len(entry.data) for entry in self.filters)

    def probe(self, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return, per hash, whether the SST may contain the key; False is certain."""
        hits = np.ones(len(hashes), np.bool_)
        for entry in self.filters:
            if entry.holds_whole_keys():
                hits &= probe_bloom(entry.data, hashes)
        return hits


def decode_filter_section(data: Buffer, info: SstInfo) -> FilterSet:
    """Decode a filter section.

    Parameters
    ----------
    data : the bytes of `info.filter_range`
    info : info of the same SST
    """
    payload = decode_section(data, info.compression, what="filter section")
    if info.filter_format is FilterFormat.LEGACY:
        return FilterSet((_checked(NamedFilter(BLOOM, payload)),))
    return decode_filters(payload)


def decode_filters(payload: bytes) -> FilterSet:
    """Decode the decompressed payload of a composite section."""
    reader = _Reader(payload)
    filters = []
    for _ in range(reader.number(_COUNT)):
        raw_name = reader.take(reader.number(_COUNT))
        try:
            name = raw_name.decode("utf-8")
        except UnicodeDecodeError as exc:
            raise CorruptDataError(f"Filter name {raw_name[:32]!r} is not UTF-8.", offset=reader.at) from exc
        filters.append(_checked(NamedFilter(name, reader.take(reader.number(_DATA_LENGTH)))))
    return FilterSet(tuple(filters))


class _Reader:
    """Reads the payload and checks every length against its end."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, length: int) -> bytes:
        if length > len(self.data) - self.at:
            raise CorruptDataError(
                f"Filter section of {len(self.data)} bytes ends inside a field of {length}.", offset=self.at
            )
        self.at += length
        return self.data[self.at - length : self.at]

    def number(self, form: struct.Struct) -> int:
        (value,) = form.unpack(self.take(form.size))
        return int(value)


def _checked(entry: NamedFilter) -> NamedFilter:
    if entry.holds_whole_keys() and len(entry.data) < _COUNT.size:
        raise CorruptDataError(
            f"Bloom filter {entry.name} has {len(entry.data)} bytes, expected at least {_COUNT.size}."
        )
    return entry


def encode_filter(hashes: NDArray[np.uint64], bits_per_key: int) -> bytes:
    """Encode a composite payload with one bloom filter over whole keys, without compression and checksum.

    Parameters
    ----------
    hashes : (n,) uint64 of every row's key; each version of a key counts
    bits_per_key : bits for each key, at least 1
    """
    return encode_filters(FilterSet((NamedFilter(BLOOM, build_bloom(hashes, bits_per_key)),)))


def encode_filters(filters: FilterSet) -> bytes:
    """Encode a composite payload, without compression and checksum."""
    parts = [_COUNT.pack(len(filters.filters))]
    for entry in filters.filters:
        name = entry.name.encode("utf-8")
        parts += [_COUNT.pack(len(name)), name, _DATA_LENGTH.pack(len(entry.data)), entry.data]
    return b"".join(parts)
