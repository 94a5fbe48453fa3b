"""Upkeep as a step of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slatespark import Upkeep
from slatespark.table.clock import Clock
from slatespark.table.upkeep.upkeep import UpkeepOutcome


def keep_up(
    url: str, clock: Clock | None = None, *, duties: Sequence[str] | None = None, **options: Any
) -> tuple[UpkeepOutcome, ...]:
    """Do duties for a table, by default all, until nothing is left to do; none may fail, or find more to do again."""
    upkeep = Upkeep([url], minAge="1h", clock=clock, duties=duties, options=options)
    outcomes = upkeep.runOnce()
    assert [str(outcome.error) for outcome in outcomes if outcome.error is not None] == []
    assert not any(outcome.is_done for outcome in upkeep.runOnce())
    return outcomes
