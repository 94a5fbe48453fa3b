"""ReapLimits: the bounds of a pass of the reaper, as callers give them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from slatespark.options.values import parse_count
from slatespark.units import parse_bytes

_ROWS: Final = parse_count(1, 2**63 - 1)


@dataclass(frozen=True, slots=True)
class ReapLimits:
    """Bounds of a pass; None means the default of `reap_table`."""

    batch_rows: int | None = None
    batch_bytes: int | None = None

    @classmethod
    def parse(cls, rows: int | str | None, size: int | str | None) -> ReapLimits:
        """Return the bounds given as `maxBatchRows` and `maxBatchBytes`; raises `OptionError`."""
        return cls(
            None if rows is None else _ROWS(rows, "maxBatchRows"),
            None if size is None else parse_bytes(size, name="maxBatchBytes"),
        )
