"""Who works on a table without cooperation: each fences the others, and what one commits is there whole, or not at all.

`python -m tests.soak.rivals URL` is an accountant in a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from slatespark import HistoryTrimmedError, SlateError, SlateStore
from tests.soak.actors import Actor, ClientWriter, Place, rows_of
from tests.support.live_client import LiveClientError

FENCE: Final[dict[str, Any]] = {"ifClientActive": "fence"}
ACCOUNTS: Final = [b"account-%02d" % number for number in range(8)]
_OPENING: Final = 1000
_GROUP_ROWS: Final = 40


class FencedClient(ClientWriter):
    """The real client, which opens the database again when another writer has fenced it."""

    pause_s = 0.2

    def step(self) -> None:
        """Write some keys, and make them durable."""
        try:
            super().step()
        except LiveClientError as error:
            self.ledger.note(self.name, str(error).partition(":")[0][:40])
            if self.live is not None:
                self.live.kill()
            self.live = None
            self.place.is_over.wait(3.0)  # let others work

    def end(self) -> None:
        """Kill it: what it has acknowledged is in the WAL."""
        if self.live is not None:
            self.live.kill()


class Deleter(Actor):
    """Writes keys and deletes them, in turns."""

    def step(self) -> None:
        """Write or delete some keys."""
        numbers = self.ledger.attempt(self.keys(30))
        gone = [key for key, number in numbers.items() if self.ledger.deletes(key, number)]
        kept = {key: number for key, number in numbers.items() if key not in gone}
        store = self.place.store()
        store.write(rows_of(kept), **FENCE)
        self.ledger.acknowledge(kept)
        if gone:
            store.delete(keys=pa.table({"key": gone}), **FENCE)
            self.ledger.acknowledge({key: numbers[key] for key in gone})


class Group(Actor):
    """Replaces all rows of a range of keys, in one commit of one of several kinds."""

    def step(self) -> None:
        """Replace them."""
        prefix = self.name.encode()
        [generation] = self.ledger.attempt([prefix]).values()
        count = int(self.random.integers(1, _GROUP_ROWS))
        chosen = sorted(self.random.choice(_GROUP_ROWS, count, replace=False).tolist())
        value = b"%d:%d" % (generation, count)
        rows = pa.table({"key": [b"%s-%04d" % (prefix, number) for number in chosen], "value": [value] * count})
        where = f"key >= X'{prefix.hex()}2d' AND key < X'{prefix.hex()}2e'"
        store = self.place.store()
        if generation % 2:
            store.write(rows, mode="overwrite", replaceWhere=where, **FENCE)
        else:
            with store.begin(**FENCE) as transaction:
                transaction.delete(where)
                transaction.write(rows)
        self.ledger.acknowledge({prefix: generation})

    def judge(self, who: str, shown: Mapping[bytes, bytes], before: Mapping[bytes, int]) -> None:
        """Compare what a read shows of the range."""
        prefix = self.name.encode()
        found = [value for key, value in shown.items() if key.startswith(prefix + b"-")]
        generations = set(found)
        number = int(found[0].partition(b":")[0]) if found else 0
        _, attempted = self.ledger.state()
        if len(generations) > 1 or (found and int(found[0].partition(b":")[2]) != len(found)):
            self.ledger.wrong.append(f"{who}: {self.name} is torn: {generations}, {len(found)} rows")
        if number < before.get(prefix, 0):
            self.ledger.lost.append(f"{who}: {self.name} shows {number}, and {before[prefix]} was acknowledged")
        if number > attempted.get(prefix, 0):
            self.ledger.wrong.append(f"{who}: {self.name} shows {number}, which nobody wrote")


class Accountants(Actor):
    """Accountants in processes of their own, which are killed now and then."""

    pause_s = 0.0

    def __init__(self, name: str, place: Place) -> None:
        super().__init__(name, place)
        self.process: subprocess.Popen[str] | None = None

    def step(self) -> None:
        """Wait for one transfer."""
        if self.process is None:
            command = [sys.executable, "-m", "tests.soak.rivals", self.place.url, json.dumps(dict(self.place.storage))]
            seed = str(int(self.random.integers(1 << 30)))
            self.process = subprocess.Popen([*command, seed], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        word = self.process.stdout.readline().strip()
        if word == "try":
            self.ledger.attempt([self.name.encode()])
        elif word == "moved":
            key = self.name.encode()
            made, _ = self.ledger.state()
            self.ledger.acknowledge({key: made.get(key, 0) + 1})
        elif not word:
            raise RuntimeError("An accountant has died.")
        else:
            self.ledger.note(self.name, word)
        if self.random.random() < 0.01:
            self.end()

    def end(self) -> None:
        """Kill it."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


def judge_accounts(place: Place, who: str, shown: Mapping[bytes, bytes], before: Mapping[bytes, int]) -> None:
    """Compare the accounts that a read shows: nothing is lost or made, and no transfer is missing."""
    found = [shown.get(key, b"0:0").split(b":") for key in ACCOUNTS]
    total, moves = sum(int(balance) for balance, _ in found), sum(int(count) for _, count in found)
    _, attempted = place.ledger.state()
    made, tried = (sum(n for key, n in state.items() if key.startswith(b"bank")) for state in (before, attempted))
    if total != _OPENING * len(ACCOUNTS):
        place.ledger.wrong.append(f"{who}: the balances are {found}, {total} in all")
    if moves < 2 * made:
        place.ledger.lost.append(f"{who}: {moves} movements, and {made} transfers were acknowledged")
    if moves > 2 * tried:
        place.ledger.wrong.append(f"{who}: {moves} movements, and {tried} transfers were tried")


class RivalReader(Actor):
    """Scans, pinned and not, of all columns and with copies, as of now and a moment ago."""

    pause_s = 0.2

    def __init__(self, name: str, place: Place, groups: list[Group]) -> None:
        super().__init__(name, place)
        self.groups = groups
        self.kept: tuple[Any, dict[bytes, bytes]] | None = None

    def step(self) -> None:
        """Read once, and compare."""
        before, _ = self.ledger.state()
        store = self.place.store()
        options: dict[str, Any] = {"pin": "5m"} if self.random.random() < 0.1 else {}
        if self.random.random() < 0.3:
            options["filter"] = "key >= X'00'"
        self.compare(store.scan(**options).read_all(), before)
        if self.kept is not None and self.random.random() < 0.5:
            snapshot, rows = self.kept
            again = values_of(snapshot.scan().read_all())
            if again != rows:
                self.ledger.wrong.append(f"{self.name}: a snapshot changed: {set(again.items()) ^ set(rows.items())}")
            self.kept = None
        elif self.kept is None:
            snapshot = store.snapshot()
            self.kept = snapshot, values_of(snapshot.scan().read_all())

    def compare(self, table: pa.Table, before: Mapping[bytes, int]) -> None:
        """Judge the rows of one snapshot."""
        shown = values_of(table)
        for group in self.groups:
            group.judge(self.name, shown, before)
        judge_accounts(self.place, self.name, shown, before)
        single = (b"client-", b"deleter-", b"store-")
        numbers = {key: int(value) for key, value in shown.items() if key.startswith(single)}
        wanted = {key: number for key, number in before.items() if key.startswith(single)}
        self.ledger.compare(self.name, numbers, wanted)


def values_of(table: pa.Table) -> dict[bytes, bytes]:
    """Return the value of each key."""
    keys, values = (table.column(name).to_pylist() for name in ("key", "value"))
    assert len(set(keys)) == len(keys), "a key twice"
    return dict(zip(keys, values, strict=True))


class Mirror(Actor):
    """A copy that follows the change feed from version to version; a read of each version has to show the same."""

    pause_s = 1.0

    def __init__(self, name: str, place: Place) -> None:
        super().__init__(name, place)
        self.copy: dict[bytes, bytes] = {}
        self.version = 0

    def step(self) -> None:
        """Follow to the newest version, and compare."""
        store = self.place.store()
        newest = store.snapshot().version
        if newest == self.version:
            return
        ends = {"startingVersion": self.version + 1, "endingVersion": newest}
        try:
            rows = self.changes(store, ends)
        except HistoryTrimmedError:  # a log does not show replaced ranges
            self.copy, self.version = values_of(store.scan(versionAsOf=newest).read_all()), newest
            raise
        copy = dict(self.copy)
        for key, value, kind in zip(*(rows.column(name).to_pylist() for name in rows.column_names), strict=True):
            if kind == "delete":
                copy.pop(key, None)
            else:
                copy[key] = value
        shown = values_of(store.scan(versionAsOf=newest).read_all())
        if shown != copy:
            other = sorted(set(shown.items()) ^ set(copy.items()))[:6]
            self.ledger.wrong.append(f"{self.name}: versions {self.version} to {newest}: {other}")
        self.copy, self.version = shown, newest

    def changes(self, store: SlateStore, ends: Mapping[str, Any]) -> pa.Table:
        """Return key, value, and kind of each change."""
        columns = "key,value,_change_type"
        return store.changes(preImages=False, columns=columns, **ends).read_all().select(columns.split(","))


class LogMirror(Mirror):
    """The same with every write, in order."""

    def changes(self, store: SlateStore, ends: Mapping[str, Any]) -> pa.Table:
        """Return key, value, and kind of each change."""
        columns = "key,value,_change_type"
        return store.changes(changes="log", columns=columns, **ends).read_all().select(columns.split(","))


class RivalKeeper(Actor):
    """Compactions of all kinds, vacuums, and verification."""

    pause_s = 3.0

    def step(self) -> None:
        """Do one."""
        store, choice = self.place.store(), int(self.random.integers(5))
        if choice == 0:
            store.compact(full=True, columnar=True, **FENCE)
        elif choice == 1:
            store.compact(full=True, **FENCE)
        elif choice == 2:
            store.compact(**FENCE)
        elif choice == 3:
            store.vacuum(minAge="1h")
        else:
            self.ledger.wrong.extend(f"verify: {finding}" for finding in store.verify().findings)


def open_accounts(place: Place) -> None:
    """Create the accounts."""
    opening = b"%d:0" % _OPENING
    place.store().write(pa.table({"key": ACCOUNTS, "value": [opening] * len(ACCOUNTS)}))


def _transfer(store: SlateStore, random: np.random.Generator) -> None:
    source, target = (ACCOUNTS[n] for n in sorted(random.choice(len(ACCOUNTS), 2, replace=False).tolist()))
    with store.begin(**FENCE) as transaction:
        table = transaction.getForUpdate([source, target]).read_all()
        rows = {key: [int(word) for word in value.split(b":")] for key, value in values_of(table).items()}
        amount = int(random.integers(1, 50))
        rows[source][0] -= amount
        rows[target][0] += amount
        values = [b"%d:%d" % (rows[key][0], rows[key][1] + 1) for key in (source, target)]
        print("try", flush=True)
        transaction.write(pa.table({"key": [source, target], "value": values}))


def main(url: str, storage: str, seed: str) -> None:
    """Move amounts for ever."""
    store, random = SlateStore.open(url, **json.loads(storage)), np.random.default_rng(int(seed))
    while True:
        try:
            _transfer(store, random)
            print("moved", flush=True)
        except SlateError as error:
            print(type(error).__name__, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
