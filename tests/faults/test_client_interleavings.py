"""A SlateDB client that writes at any storage call of what slatespark does: the outcome is that of one after the other.

What the client was told is durable stays. With `ifClientActive=fence` it is shut out; with `fail` ours is refused and
leaves the client at work, or it comes before or after the client's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import permutations
from pathlib import Path
from typing import Final

import pytest
from slatedb import uniffi

from slatespark import ConflictError
from slatespark.storage.local_store import LocalStore
from tests.faults.actions import ACTIONS, ROWS, Action, Objects, Rows, client_rows_at, make_table, open_table, rows_of
from tests.support.client import Client, Delete, Location, Merge, Put, Write
from tests.support.effort import THOROUGH
from tests.support.failing_store import FailingStore

NEVER: Final = 1 << 20
NO_COMMIT: Final = ("checkpoint", "set properties", "vacuum")  # they shut nobody out
NAMES = [name for name in ACTIONS if name not in NO_COMMIT]
BATCH: Final[list[Write]] = [Put(b"k05", b"c"), Delete(b"k07"), Merge(b"k03", b"!"), Put(b"old2", b"c")]


def client_model(rows: Rows) -> Rows:
    """What the client's batch makes of the rows."""
    kept = {key: value for key, value in rows.items() if key != b"k07"}
    return {**kept, b"k05": b"c", b"k03": rows.get(b"k03", b"") + b"!", b"old2": b"c"}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Objects:
    return make_table(tmp_path_factory.mktemp("base") / "db")


def unpack(objects: Objects, folder: Path) -> Path:
    for path, data in objects.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return folder


def write_durably(client: Client) -> bool:
    """Tell whether the client was told that its batch is durable."""
    try:
        client.write(BATCH)
        client.flush_wal()
    except uniffi.Error.Closed:
        return False
    return True


def open_and_write(folder: Path, *, closes: bool) -> tuple[bool, Client | None]:
    """Let a new client take the database over, and write."""
    client = Client.open(Location.local(folder))
    done = write_durably(client)
    if closes:
        client.close(flush=False)
    return done, None if closes else client


def run(folder: Path, action: Action, nth: int, how: str, if_client_active: str) -> int:
    """Let the client write at call `nth`, check what is left, and return how many calls there were."""
    store = FailingStore(LocalStore(folder))
    opened: list[Client | None] = [Client.open(Location.local(folder))] if how == "open before" else []
    acknowledged: list[bool] = []

    def write() -> None:
        if opened:
            assert opened[0] is not None
            acknowledged.append(write_durably(opened[0]))
        else:
            done, client = open_and_write(folder, closes=how == "closes again")
            acknowledged.append(done)
            opened.append(client)

    store.run(write, "*", nth=nth)
    done: list[Callable[[Rows], Rows]] = []
    try:
        action.act(open_table(store, 1), ifClientActive=if_client_active)
        done.append(action.model)
    except ConflictError:
        assert if_client_active == "fail" or not action.is_blind
        # Before anything is claimed it is left alone; but what only the drain finds may refuse what depends on it.
        if opened and opened[0] is not None and acknowledged == [True] and not store.count("create", "manifest/*"):
            opened[0].put(b"on", b"1")
            opened[0].delete(b"on")
            opened[0].flush_wal()
    for client in opened:
        if client is not None:
            client.close(flush=False)
    if acknowledged and acknowledged[0]:
        done.append(client_model)
    rows = rows_of(LocalStore(folder))
    orders = [reduce(lambda rows, model: model(rows), order, ROWS) for order in permutations(done)]
    assert rows in orders, (action.name, nth, how, if_client_active, acknowledged, len(done))
    assert client_rows_at(Location.local(folder)) == rows
    assert not open_table(LocalStore(folder)).verify().findings
    return store.count()


WAYS: Final = [(how, mode) for how in ("open before", "stays open", "closes again") for mode in ("fence", "fail")]
CASES: Final = [
    pytest.param(name, how, mode, number, id=f"{name}-{how}-{mode}")
    for number, name in enumerate(NAMES)
    for way, (how, mode) in enumerate(WAYS)
    if THOROUGH or (number - way) % len(WAYS) == 0
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "how", "if_client_active", "number"), CASES)
def test_a_client_writes_at_a_storage_call(
    base: Objects, name: str, how: str, if_client_active: str, number: int, tmp_path: Path
) -> None:
    action = ACTIONS[name]
    calls = run(unpack(base, tmp_path / "last"), action, NEVER, "closes again", if_client_active)
    points = range(1, calls + 1) if THOROUGH else [7 * number % calls + 1]
    for nth in points:
        run(unpack(base, tmp_path / str(nth)), action, nth, how, if_client_active)
