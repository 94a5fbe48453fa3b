"""What an SST holds, section by section; a WAL file is one too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import partial
from itertools import islice
from typing import Any, Final, TypeVar

import numpy as np

from slatespark.errors import CorruptDataError, UnsupportedFormatError
from slatespark.format.block_group import unpack_blocks
from slatespark.format.filter import NamedFilter, decode_filter_section
from slatespark.format.index import SstIndex, decode_index_section
from slatespark.format.info import SstInfo, SstType
from slatespark.format.paths import WAL_DIR
from slatespark.format.properties import decode_label, decode_properties
from slatespark.format.references import SstHandle
from slatespark.format.row import Row
from slatespark.format.stats import SstStats, decode_stats_section
from slatespark.format.wal import is_old_fence
from slatespark.kernels import decode_blocks
from slatespark.ranges import ByteRange
from slatespark.storage.object_store import Buffer, ObjectStore
from slatespark.table.inspection.field_values import field_values
from slatespark.table.read.merge.merge_function import row_at
from slatespark.table.read.versions.sst_end import SstEnd, fetch_end
from slatespark.table.stores import object_context

_BATCH_BYTES: Final = 1 << 20  # of blocks, read at a time
_MAX_DECODED: Final = 64 << 20  # of several blocks; a larger one is decoded alone

Content = TypeVar("Content")


def dump_sst(
    store: ObjectStore, path: str, listed: SstHandle | None = None, *, rows: int = 0
) -> tuple[str, int, dict[str, Any]]:
    """Return kind, size and content of an SST.

    Parameters
    ----------
    listed : its description in a manifest; None if it is in none
    rows : how many row versions to show, from the first one on

    Raises
    ------
    FileNotFoundError
        When there is no such object.
    CorruptDataError, UnsupportedFormatError
        When it is damaged, or is not what the manifest says; when a later release wrote it.
    """
    size = store.head(path).size
    if size == 0 and path.startswith(WAL_DIR):
        return "wal", 0, {"fence": True}
    end = _end(store, path, listed)
    with object_context(store, path, end.layout.gap.start):
        label, found = decode_label(end.gap), decode_properties(end.gap)
    is_wal = path.startswith(WAL_DIR)
    is_fence = is_wal and is_old_fence(end.info)
    info, section = end.info, partial(_section, store, path)
    index = section(info.index_range, partial(decode_index_section, info=info, may_be_empty=is_fence))
    stats = None if info.stats_range is None else section(info.stats_range, partial(_stats, info=info, index=index))
    filters = () if info.filter_range is None else section(info.filter_range, partial(_filters, info=info))
    content = {
        **({"fence": True} if is_fence else {}),
        "footer": {"info_offset": end.footer.info_offset, "format": end.footer.version},
        "info": _info(end.info),
        "layout": [
            {"section": item.name, "start": span.start, "end": span.end, "bytes": len(span)}
            for item in fields(end.layout)
            if (span := getattr(end.layout, item.name)) is not None and len(span)
        ],
        "stats": None if stats is None else _sums(stats),
        "filters": [{"name": item.name, "bytes": len(item.data)} for item in filters],
        "properties": None if found is None else field_values(found[0]),
        "label": label,
        "blocks": _blocks(end, index, stats),
    }
    if rows:
        content["rows"] = [_row(row) for row in islice(_rows(store, path, end, index), rows)]
    kind = "wal" if is_wal or end.info.sst_type is SstType.WAL else "sst" if label is None else "external sst"
    return kind, size, content


def _info(info: SstInfo) -> dict[str, Any]:
    found: dict[str, Any] = field_values(info)
    return {**_first(info, found.pop("first_entry"), key="first_entry"), **found}


def _first(info: SstInfo, entry: bytes | None, *, key: str) -> dict[str, Any]:
    """Return the first entry of a file or block by name: a key, in a WAL file the number of a row."""
    if info.sst_type is not SstType.WAL:
        return {key: entry}
    return {"first_seq": int.from_bytes(entry, "big") if entry else None}


def _sums(stats: SstStats) -> dict[str, int]:
    """Return the sums of the statistics."""
    return {item.name: getattr(stats, item.name) for item in fields(stats) if item.name != "block_counts"}


def _end(store: ObjectStore, path: str, listed: SstHandle | None) -> SstEnd:
    """Return the end of the file; raises `CorruptDataError` if it is not the one that a manifest lists."""
    if listed is None:
        return fetch_end(store, path)
    where = f"{store.url}/{path}"
    try:
        end = fetch_end(store, path)
    except UnsupportedFormatError as exc:  # the manifest knows a version that we know too
        raise CorruptDataError(str(exc.args[0]), todo="Run `slatespark verify` on the table.", path=where) from exc
    if (end.info, end.footer.version) != (listed.info, listed.format_version):
        raise CorruptDataError(
            "the info is not the one in the manifest.", todo="Run `slatespark verify` on the table.", path=where
        )
    return end


def _section(store: ObjectStore, path: str, span: ByteRange, decode: Callable[[Buffer], Content]) -> Content:
    with object_context(store, path, span.start):
        return decode(store.get_range(path, span))


def _filters(data: Buffer, info: SstInfo) -> tuple[NamedFilter, ...]:
    return decode_filter_section(data, info).filters


def _stats(data: Buffer, info: SstInfo, index: SstIndex) -> SstStats:
    stats = decode_stats_section(data, info)
    if len(stats.block_counts) not in (0, len(index)):
        raise CorruptDataError(
            f"statistics count the rows of {len(stats.block_counts)} blocks, the index has {len(index)}."
        )
    return stats


def _blocks(end: SstEnd, index: SstIndex, stats: SstStats | None) -> list[dict[str, Any]]:
    """Return where each block lies, what its rows are not below, and how many of each kind it has, if known."""
    edges = index.block_edges(end.info).tolist()
    counts = None if stats is None or not len(stats.block_counts) else stats.block_counts.tolist()
    return [
        {
            "block": number,
            "offset": edges[number],
            "bytes": edges[number + 1] - edges[number],
            **_first(end.info, index.first_key(number), key="first_key"),
            **({} if counts is None else dict(zip(("puts", "deletes", "merges"), counts[number], strict=True))),
        }
        for number in range(len(index))
    ]


def _rows(store: ObjectStore, path: str, end: SstEnd, index: SstIndex) -> Iterator[Row]:
    """Yield the rows in the order of the file; reads a few blocks at a time."""
    edges, is_sorted = index.block_edges(end.info), end.info.sst_type is not SstType.WAL
    first = 0
    while first < len(index):
        fits = int(np.searchsorted(edges, edges[first] + _BATCH_BYTES, side="right")) - 1
        stop = max(first + 1, fits)  # at least one block
        span = ByteRange(int(edges[first]), int(edges[stop]))
        with object_context(store, path, span.start):
            data = np.frombuffer(store.get_range(path, span), np.uint8)
            opened = unpack_blocks(
                data,
                edges[first : stop + 1] - span.start,
                index.encoded_bytes[first:stop],
                end.info.compression,
                limit_bytes=_MAX_DECODED,
            )
            rows = decode_blocks(opened.data, opened.starts, opened.ends, version=end.footer.version, ordered=is_sorted)
        for at in range(len(rows)):
            yield row_at([rows], at)
        first += len(opened.starts)


def _row(row: Row) -> dict[str, Any]:
    return {
        "key": row.key,
        "seq": row.seq,
        "op": row.kind.value,
        "create_ts_ms": row.create_ts_ms,
        "expire_ts_ms": row.expire_ts_ms,
        "value": row.value,
    }
