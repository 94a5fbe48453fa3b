"""Idempotent writes and transactions among our compactions and collections: still at most one effect."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from slatespark import SlateStore
from slatespark.table.commit import commit
from slatespark.table.commit.idempotence import record_outcomes
from slatespark.table.gc import run as gc_run
from slatespark.table.records.leases import LEASE_LIFETIME_MS
from slatespark.table.stores import TableStores
from tests.faults.actions import ROWS, copied, make_table, open_table, rows_of
from tests.faults.jobs import store_on, table_of
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock

PAIR: Final[dict[str, Any]] = {"txnAppId": "nightly", "txnVersion": 7}


class KilledError(BaseException):
    """The process ends here; nothing handles it, and nothing is cleaned up."""


def append_by_transaction(table: SlateStore) -> None:
    with table.begin(**PAIR) as txn:
        row = txn.get(b"k05")
        assert row is not None
        if not txn.wasCommitted:
            txn.write(table_of([(b"k05", row["value"] + b"*")]))


AT_MOST_ONCE: dict[str, Callable[[SlateStore], object]] = {
    "write": lambda table: table.write(table_of([(b"k05", b"*")]), operation="merge", **PAIR),
    "transaction": append_by_transaction,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", AT_MOST_ONCE)
def test_compactions_and_collections_forget_nothing(name: str, tmp_path: Path) -> None:
    """A job that died at any call, everything merged and collected a minute and a day later, and the job again."""
    act, base = AT_MOST_ONCE[name], make_table(tmp_path / "base")
    with copied(base) as inner:
        store = FailingStore(inner)
        act(open_table(store, 1))
        calls = store.count()
    for nth in range(calls, 0, -12):
        with copied(base) as inner:
            with contextlib.suppress(KilledError):
                dying = FailingStore(inner).fail("*", nth=nth, times=1 << 40, moment="after", error=KilledError())
                act(open_table(dying, 1))
            for seed, later_ms in ((10, 60_000), (20, 2 * LEASE_LIFETIME_MS)):
                open_table(inner, seed).compact(full=True)
                store_on(inner, FakeClock(FakeClock().now_ms() + later_ms, seed=seed + 1)).vacuum(
                    minAge="0s", force=True
                )
                act(open_table(inner, seed + 2))
                assert rows_of(inner) == {**ROWS, b"k05": b"b*"}, f"call {nth}"


def test_a_writer_that_dies_while_a_vacuum_has_recorded_outcomes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its outcome was not among them: its checkpoint stays, the only trace of the pair."""
    table = SlateStore.create("memory://outcome-in-a-vacuum", clock=FakeClock(), versionRetention="none")
    table.write(table_of([(b"a", b"1")]), txnAppId="other", txnVersion=1)

    def then_another(stores: TableStores) -> Any:
        noted = record_outcomes(stores)
        with monkeypatch.context() as dying:  # right after its manifest
            dying.setattr(commit, "record_outcome", lambda *_: None)
            table.write(table_of([(b"a", b"2")]), **PAIR)
        return noted

    monkeypatch.setattr(gc_run, "record_outcomes", then_another)
    table.vacuum("0s", force=True)
    later = table.write(table_of([(b"a", b"3")]))
    table.write(table_of([(b"a", b"2")]), **PAIR)
    assert table.resolve().version == later, "it was committed before"
    assert table.scan().read_all()["value"].to_pylist() == [b"3"]
