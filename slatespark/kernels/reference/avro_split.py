"""Items of Avro arrays and maps. Layout: `slatespark.kernels.reference.avro_decode`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels.avro_program import FINE, MALFORMED, AvroNode
from slatespark.kernels.flat import check_spans
from slatespark.kernels.reference.avro_decode import AvroBytes, MalformedError, each_item, read_value
from slatespark.kernels.results import AvroItems


def split_avro(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    valid: NDArray[np.uint8] | None,
    item: AvroNode,
) -> AvroItems:
    """See `slatespark.kernels.split_avro`."""
    check_spans(data, starts, ends)
    found: list[tuple[int, int]] = []
    bounds, status = [0], np.full(len(starts), FINE, np.uint8)
    for number, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        if valid is None or valid[number]:
            try:
                items = _items(AvroBytes(data[start:end].tobytes(), 0), item)
            except MalformedError:
                status[number] = MALFORMED
            else:
                found += [(start + first, start + last) for first, last in items]
        bounds.append(len(found))
    spans = np.array(found, np.int64).reshape(-1, 2)
    return AvroItems(np.array(bounds, np.int64), spans[:, 0].copy(), spans[:, 1].copy(), status)


def _items(value: AvroBytes, item: AvroNode) -> list[tuple[int, int]]:
    """Return where the items of an array are."""
    found = []
    for _ in each_item(value):
        start = value.at
        read_value(value, item, strict=False)
        found.append((start, value.at))
    if value.at != len(value.data):
        raise MalformedError
    return found
