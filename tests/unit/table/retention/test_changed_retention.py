"""A retention that changes while a reap is running."""

from __future__ import annotations

from slatespark.table.retention.reap_arguments import ReapLimits
from slatespark.table.retention.reap_run import Reaping
from tests.unit.table.retention.reaped_table import HOUR_MS, Table, numbered

MINUTE_MS = 60_000


def test_by_a_shorter_retention_the_search_begins_anew() -> None:
    """Its first pass has gone past rows that were not due yet."""
    table = Table(retention="2h", autoCompact=False, versionRetention="none")
    table.write(numbered(200, 206), b"v" * 300)
    table.clock.advance(HOUR_MS)
    table.write(numbered(0, 6), b"v" * 300)
    table.clock.advance(50 * MINUTE_MS)
    table.write(numbered(300, 400), b"v" * 300)
    table.table.compact(full=True, blockSize="1k")
    table.pass_time(10 * MINUTE_MS)
    table.write(numbered(500, 501))
    reaping = Reaping.begin(table.stores, table.clock, limits=ReapLimits(2))
    assert reaping.step() is not None
    assert reaping.report.rows == 2
    table.other().setProperties(retention="1h")
    while (pause_ms := reaping.step()) is not None:
        table.clock.advance(pause_ms)
    assert table.keys(includeExpired=True) == [*numbered(300, 400), *numbered(500, 501)]
