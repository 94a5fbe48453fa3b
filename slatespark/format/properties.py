r"""Properties of an SST written by slatespark, in the gap between the last section and the SST info.

The client ignores the gap and never rewrites a file in place. When it compacts a file, the properties are lost.

    ..      u32be length of the header, header (JSON)
    ..      u32be number of blocks, bounds of the blocks (one zstd frame)          \ payload
    +4      u32be crc32 of the payload
    +4      u32be length of the payload
    +8      "slateprp", directly followed by the SST info

Readers locate them backwards from the start of the info. The bounds are six consecutive columns: smallest and largest
create_ts, smallest and largest expire_ts (int64, each as eight byte planes, lowest byte first), then the flags set on
any row and on every row of a block (uint8). A block without a time has the largest int64 as its minimum and the
smallest as its maximum.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from slatespark.errors import CorruptDataError
from slatespark.format.codecs import MAX_SECTION_BYTES, Buffer, Compression, compress, decompress
from slatespark.format.info import Footer, SstInfo
from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE, MERGE, ROW_BITS, TOMBSTONE
from slatespark.kernels.results import BlockSummaries, Fields
from slatespark.ranges import ByteRange

# On disk, do not change.
VERSION: Final = 1
MAGIC: Final = b"slateprp"
_BLOCK_BYTES: Final = 4 * 8 + 2  # bounds of one block, unpacked

_LABEL: Final = "label"
_TRAILER = struct.Struct(">II8s")
_LENGTH = struct.Struct(">I")
_NO_MIN: Final = (1 << 63) - 1
_NO_MAX: Final = -(1 << 63)


@dataclass(frozen=True, slots=True, kw_only=True)
class SstProperties:
    """Statistics of the rows of a file; the commit record contains a copy.

    Attributes
    ----------
    created_ms : time of creation of the file
    min_create_ts, max_create_ts, min_expire_ts, max_expire_ts : bounds over the rows with that time; None without such
        rows
    min_seq, max_seq : bounds of the sequence numbers over all rows
    puts, deletes, merges : numbers of rows by kind
    any_flags, all_flags : flags set on any row, and on every row; a tombstone counts as having no expiry
    all_versions : the file contains every version of its keys from `min_seq` on. No writer has ever said so, and no
        reader asks; releases that read the field demand it
    """

    created_ms: int
    min_create_ts: int | None
    max_create_ts: int | None
    min_expire_ts: int | None
    max_expire_ts: int | None
    min_seq: int
    max_seq: int
    puts: int
    deletes: int
    merges: int
    any_flags: int
    all_flags: int
    all_versions: bool

    @classmethod
    def of_blocks(
        cls,
        bounds: BlockBounds,
        *,
        counts: tuple[int, int, int],
        seqs: tuple[int, int],
        created_ms: int,
    ) -> Self:
        """Return the properties of a file.

        Parameters
        ----------
        bounds : those of all its blocks
        counts : puts, deletes, merges
        seqs : smallest and largest sequence number
        """
        min_create_ts, max_create_ts = _extremes(bounds.min_create_ts, bounds.max_create_ts)
        min_expire_ts, max_expire_ts = _extremes(bounds.min_expire_ts, bounds.max_expire_ts)
        return cls(
            created_ms=created_ms,
            min_create_ts=min_create_ts,
            max_create_ts=max_create_ts,
            min_expire_ts=min_expire_ts,
            max_expire_ts=max_expire_ts,
            min_seq=seqs[0],
            max_seq=seqs[1],
            puts=counts[0],
            deletes=counts[1],
            merges=counts[2],
            any_flags=int(np.bitwise_or.reduce(bounds.any_flags)),
            all_flags=int(np.bitwise_and.reduce(bounds.all_flags)),
            all_versions=False,
        )

    @property
    def num_rows(self) -> int:
        """Rows of all kinds."""
        return self.puts + self.deletes + self.merges

    def features(self) -> tuple[str, ...]:
        """Return the features used by the rows: `create_ts`, `ttl`, `tombstones`, `merges`."""
        return tuple(word for word, flag in _FEATURES.items() if self.any_flags & flag)

    def is_consistent(self) -> bool:
        """Tell whether the fields are consistent; if not, no writer produced them."""
        counts, flags = (self.puts, self.deletes, self.merges), (self.any_flags, self.all_flags)
        return (
            all(0 <= count < 1 << ROW_BITS for count in counts)
            and self.num_rows > 0
            and 0 <= self.min_seq <= self.max_seq
            and all(0 <= each < 256 for each in flags)
            and not self.all_flags & ~self.any_flags
            and self._is_counted(TOMBSTONE, self.deletes)
            and self._is_counted(MERGE, self.merges)
            and _is_span(self.min_create_ts, self.max_create_ts, self.any_flags & HAS_CREATE)
            and _is_span(self.min_expire_ts, self.max_expire_ts, self.any_flags & HAS_EXPIRE)
        )

    def _is_counted(self, flag: int, count: int) -> bool:
        any_has, all_have = self.any_flags & flag != 0, self.all_flags & flag != 0
        return (any_has, all_have) == (count > 0, count == self.num_rows)

    def to_json(self) -> dict[str, int | bool | None]:
        """Return the header as a JSON object."""
        return {"version": VERSION, **asdict(self)}

    @classmethod
    def from_json(cls, header: Mapping[str, object]) -> Self:
        """Decode a JSON header; unknown fields are ignored."""
        values: dict[str, int | bool | None] = {}
        for name, nullable in _NULLABLE.items():
            value = header.get(name)
            if not (isinstance(value, int) or (value is None and nullable and name in header)):
                raise CorruptDataError(f"SST properties have {name} = {value!r}, expected a number.")
            values[name] = value
        return cls(**values)  # type: ignore[arg-type]  # checked above, field by field


_FEATURES: Final = {"create_ts": HAS_CREATE, "ttl": HAS_EXPIRE, "tombstones": TOMBSTONE, "merges": MERGE}
_NULLABLE: Final = {field.name: field.name.endswith("_ts") for field in fields(SstProperties)}


def _is_span(low: int | None, high: int | None, has_any: int) -> bool:
    """Tell whether two bounds are ordered, or absent if no row has the time."""
    return (low is not None and high is not None and low <= high) if has_any else (low is None and high is None)


@dataclass(frozen=True, slots=True, eq=False)
class BlockBounds:
    """Times and flags per block: (n,) int64 and (n,) uint8 arrays, parallel to the index.

    If no row of a block has the time, the minimum is the largest int64 and the maximum the smallest.
    """

    min_create_ts: NDArray[np.int64]
    max_create_ts: NDArray[np.int64]
    min_expire_ts: NDArray[np.int64]
    max_expire_ts: NDArray[np.int64]
    any_flags: NDArray[np.uint8]
    all_flags: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.any_flags)

    def times(self) -> tuple[NDArray[np.int64], ...]:
        """Return the four time columns, in on-disk order."""
        return self.min_create_ts, self.max_create_ts, self.min_expire_ts, self.max_expire_ts


def bounds_of(rows: Fields, first_rows: NDArray[np.int64]) -> BlockBounds:
    """Return the bounds of consecutive blocks.

    Parameters
    ----------
    rows : fields of all rows of the blocks
    first_rows : (n,) first row of each block in `rows`; starts with 0, no block is empty
    """
    # A tombstone is always written without expire_ts.
    flags = np.where(rows.flags & TOMBSTONE, rows.flags & ~np.uint8(HAS_EXPIRE), rows.flags).astype(np.uint8)
    created, expires = (flags & HAS_CREATE) != 0, (flags & HAS_EXPIRE) != 0
    return BlockBounds(
        min_create_ts=np.minimum.reduceat(np.where(created, rows.create_ts, _NO_MIN), first_rows),
        max_create_ts=np.maximum.reduceat(np.where(created, rows.create_ts, _NO_MAX), first_rows),
        min_expire_ts=np.minimum.reduceat(np.where(expires, rows.expire_ts, _NO_MIN), first_rows),
        max_expire_ts=np.maximum.reduceat(np.where(expires, rows.expire_ts, _NO_MAX), first_rows),
        any_flags=np.bitwise_or.reduceat(flags, first_rows),
        all_flags=np.bitwise_and.reduceat(flags, first_rows),
    )


def join_bounds(parts: Sequence[BlockBounds | BlockSummaries]) -> BlockBounds:
    """Concatenate bounds of consecutive groups of blocks."""
    columns = (np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(BlockBounds))
    return BlockBounds(*columns)


def _extremes(low: NDArray[np.int64], high: NDArray[np.int64]) -> tuple[int | None, int | None]:
    """Return smallest and largest time of a file by those of its blocks; None without any."""
    smallest, largest = int(low.min()), int(high.max())
    return (None, None) if smallest > largest else (smallest, largest)


def encode_properties(
    properties: SstProperties, bounds: BlockBounds, label: Mapping[str, object] | None = None
) -> bytes:
    """Encode the bytes directly before the SST info.

    Parameters
    ----------
    label : description of an external SST, as JSON
    """
    content = properties.to_json() if label is None else {**properties.to_json(), _LABEL: label}
    header = json.dumps(content, sort_keys=True, separators=(",", ":")).encode("ascii")
    planes = [_split_planes(column) for column in bounds.times()]
    columns = b"".join([*planes, bounds.any_flags.tobytes(), bounds.all_flags.tobytes()])
    payload = b"".join(
        (
            *(_LENGTH.pack(len(header)), header),
            *(_LENGTH.pack(len(bounds)), compress(columns, Compression.ZSTD)),
        )
    )
    return payload + _TRAILER.pack(zlib.crc32(payload), len(payload), MAGIC)


def gap_range(info: SstInfo, footer: Footer) -> ByteRange:
    """Return the range between the last section and the SST info; usually empty in files without properties."""
    return ByteRange(min(info.sections_end, footer.info_offset), footer.info_offset)


def decode_properties(gap: Buffer) -> tuple[SstProperties, BlockBounds] | None:
    """Decode the properties at the end of the gap; None if there are none.

    Parameters
    ----------
    gap : bytes that end where the SST info starts; bytes before the properties are ignored

    Raises
    ------
    CorruptDataError : the properties are damaged
    """
    payload = _find_payload(gap)
    return None if payload is None else _decode_payload(payload)


def consistent_properties(gap: Buffer) -> SstProperties | None:
    """Return the properties in a gap; None without any, or if they contradict themselves. Raises the same."""
    found = decode_properties(gap)
    return found[0] if found is not None and found[0].is_consistent() else None


def decode_label(gap: Buffer) -> Mapping[str, object] | None:
    """Decode the label of an external SST; None for other files. Parameters and errors as in `decode_properties`."""
    payload = _find_payload(gap)
    label = None if payload is None else _decode_header(payload)[0].get(_LABEL)
    return label if isinstance(label, dict) else None


def _find_payload(gap: Buffer) -> bytes | None:
    view = memoryview(gap)
    if len(view) < _TRAILER.size:
        return None
    checksum, length, magic = _TRAILER.unpack(view[-_TRAILER.size :])
    if magic != MAGIC:
        return None
    start = len(view) - _TRAILER.size - length
    if start < 0:
        raise CorruptDataError(f"SST properties have {length} bytes, but the gap has only {len(view) - _TRAILER.size}.")
    payload = bytes(view[start : -_TRAILER.size])
    if zlib.crc32(payload) != checksum:
        raise CorruptDataError(
            f"SST properties have checksum {zlib.crc32(payload):08x}, expected {checksum:08x}.", offset=start
        )
    return payload


def _decode_payload(payload: bytes) -> tuple[SstProperties, BlockBounds] | None:
    header, columns_at = _decode_header(payload)
    if header.get("version") != VERSION:
        return None  # from a newer release; properties are optional
    count = int.from_bytes(payload[columns_at - _LENGTH.size : columns_at], "big")
    return SstProperties.from_json(header), _decode_bounds(payload[columns_at:], count)


def _decode_header(payload: bytes) -> tuple[dict[str, object], int]:
    """Return the header and the offset of the columns."""
    header_bytes = int.from_bytes(payload[: _LENGTH.size], "big")
    columns_at = _LENGTH.size + header_bytes + _LENGTH.size
    if len(payload) < columns_at:
        raise CorruptDataError(f"SST properties end inside their header of {header_bytes} bytes.")
    try:
        header = json.loads(payload[_LENGTH.size : _LENGTH.size + header_bytes])
    except (ValueError, RecursionError) as exc:
        raise CorruptDataError("The header of SST properties is not JSON.") from exc
    if not isinstance(header, dict):
        raise CorruptDataError("The header of SST properties is not a JSON object.")
    return header, columns_at


def _decode_bounds(packed: bytes, count: int) -> BlockBounds:
    columns = decompress(packed, Compression.ZSTD, max_bytes=min(count * _BLOCK_BYTES, MAX_SECTION_BYTES))
    if len(columns) != count * _BLOCK_BYTES:
        raise CorruptDataError(f"SST properties of {count} blocks take {len(columns)} bytes.")
    octets = np.frombuffer(columns, np.uint8)
    flags = octets[32 * count :]
    return BlockBounds(
        min_create_ts=_join_planes(octets[: 8 * count]),
        max_create_ts=_join_planes(octets[8 * count : 16 * count]),
        min_expire_ts=_join_planes(octets[16 * count : 24 * count]),
        max_expire_ts=_join_planes(octets[24 * count : 32 * count]),
        any_flags=flags[:count],
        all_flags=flags[count:],
    )


def _split_planes(column: NDArray[np.int64]) -> bytes:
    return column.astype("<i8").view(np.uint8).reshape(-1, 8).T.tobytes()


def _join_planes(octets: NDArray[np.uint8]) -> NDArray[np.int64]:
    planes = octets.reshape(8, -1).T.tobytes()
    return np.frombuffer(planes, "<i8").astype(np.int64)
