"""The arguments of a reap, as callers give them: bounds of a pass, and the write options that apply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from slatespark.options import Call, WriteOptions
from slatespark.options.values import parse_positive
from slatespark.units import parse_bytes

ARGUMENTS: Final = ("maxBatchRows", "maxBatchBytes", "now")  # of `reap`


@dataclass(frozen=True, slots=True)
class ReapLimits:
    """Bounds of a pass; None means the default of `reap_table`."""

    batch_rows: int | None = None
    batch_bytes: int | None = None

    @classmethod
    def parse(cls, rows: int | str | None, size: int | str | None) -> ReapLimits:
        """Return the bounds given as `maxBatchRows` and `maxBatchBytes`; raises `OptionError`."""
        return cls(
            None if rows is None else parse_positive(rows, "maxBatchRows"),
            None if size is None else parse_bytes(size, name="maxBatchBytes"),
        )


NO_LIMITS: Final = ReapLimits()


def parse_reap(common: Mapping[str, Any], given: Mapping[str, Any]) -> WriteOptions:
    """Return the options of the commits of a reap.

    Parameters
    ----------
    common : path and storage
    given : the further options of the call

    Raises
    ------
    OptionError
        When one is unknown, malformed, or would have no effect.
    """
    why = "A reap deletes all rows of the table that are past its retention."
    return WriteOptions.of_call("reap", Call.REAP, common, given, arguments=ARGUMENTS, why=why)
