"""A real client that writes all the time, and random work of ours beside it, against one model.

Each round one or two of these run while the client writes, and while it and a worker of ours may compact: loads,
compactions, and drains of a segment. Then everybody who can look at the database has to show the model.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np

from slatespark import CommitConflictError, SlateStore, UnavailableError
from slatespark.storage.local_store import LocalStore
from slatespark.table.commit.handed_loads import find_commit_of, is_recorded
from slatespark.table.compaction.worker import Worker
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.records.commits import fetch_commit_record
from slatespark.table.records.handed_loads import fetch_handed_loads
from slatespark.table.records.operations import Operation
from tests.faults.jobs import stores_of
from tests.support.client import ClientOptions, Location, Put
from tests.support.client_admin import read_manifest
from tests.support.cooperative_loads import add_load, load_beside
from tests.support.drains import drained_up_to, remove_drained
from tests.support.live_client import LiveClient, Traffic
from tests.support.model import Model
from tests.support.observers import awaited, check_observers, comparable_rows
from tests.support.segments import FixedPrefix

NOW_MS: Final = 2_000_000_000_000  # 2033: later than every write, before the far future
KEYS: Final = 400
SEGMENTS: Final = FixedPrefix(6)  # key00000 to key00099 are one segment

Rows: TypeAlias = dict[bytes, bytes | None]

_QUICK: Final[dict[str, object]] = {"compactor_options.poll_interval": "50ms"}
_EAGER: Final = {
    "compactor_options.scheduler_options.min_compaction_sources": "3",
    "compactor_options.max_concurrent_compactions": 3,
}
_CLIENTS: Final = {
    "idle": ClientOptions(compactor=True, settings={**_QUICK, "compactor_options.worker": None}),
    "handed over": ClientOptions(
        compactor=True, compact_by_itself=True, settings={**_QUICK, **_EAGER, "compactor_options.worker": None}
    ),
    "by itself": ClientOptions(
        compactor=True,
        compact_by_itself=True,
        settings={**_EAGER, "compactor_options.poll_interval": "200ms"},
    ),
}


@dataclass(frozen=True, slots=True)
class Loaded:
    """A load that was committed.

    Attributes
    ----------
    newer_than : rows of its keys up to that number are older than the load
    """

    record: CommitRecord
    rows: Rows
    operands: bool
    newer_than: int

    @property
    def version(self) -> int:
        """The version that has it."""
        return self.record.manifest_id

    def add_to(self, model: Model) -> None:
        """Change the model as the load changed the database."""
        first = self.record.first_seq
        assert first is not None
        late = [each for key in self.rows for each in model.versions[key] if first < each.seq <= self.newer_than]
        assert late == [], "older rows win over the load"
        add_load(model, self.record, self.rows, operands=self.operands)


@dataclass(frozen=True, slots=True)
class Drained:
    """A segment that was drained.

    Attributes
    ----------
    seq : rows up to it are gone
    """

    version: int
    prefix: bytes
    seq: int

    def add_to(self, model: Model) -> None:
        """Change the model as the drain changed the database."""
        remove_drained(model, self.prefix, self.seq)


Change: TypeAlias = Loaded | Drained


@dataclass(slots=True)
class MixedWork:
    """One random run.

    Attributes
    ----------
    done : how often each kind of work was committed, or refused since the client was faster
    refusals : why
    """

    database: Location
    seed: int
    segmented: bool = False
    done: dict[str, int] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)
    _model: Model = field(default_factory=Model)
    _random: np.random.Generator = field(init=False)
    _kind: str = ""
    _loads: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)

    def run(self, rounds: int) -> None:
        """Let the client and us work for some rounds; raises `AssertionError` where somebody shows something else."""
        live = self._opened()
        try:
            live.write([Put(b"key%05d" % number, b"first") for number in range(0, KEYS, 2)])
            live.flush_memtable()
            for number in range(rounds):
                if number and self._random.random() < 0.25:  # with other settings; a kill loses nothing durable
                    live.kill() if self._random.random() < 0.5 else live.close()
                    live = self._opened()
                self._round(live)
        finally:
            live.kill()
        self._check_at_rest()

    def _opened(self) -> LiveClient:
        self._kind = str(self._random.choice(list(_CLIENTS)))
        options = replace(
            _CLIENTS[self._kind],
            codec=self._pick(None, "Zstd", "Lz4"),
            flush_interval="20ms",
            segments=SEGMENTS if self.segmented else None,
        )
        live = LiveClient(self.database, options)
        live.sync(self._model)
        return live

    def _round(self, live: LiveClient) -> None:
        epochs = _shown_epochs(self.database)
        seen = self._model.last_seq
        snapshot = live.take_snapshot() if seen and self._random.random() < 0.5 else None
        works = [self._random_work(live) for _ in range(self._pick(1, 1, 2))]
        with self._worker():
            live.start_writing(self._traffic())
            with ThreadPoolExecutor(len(works)) as pool:
                found = [each for each in pool.map(lambda work: work(), works) if each is not None]
            live.stop_writing()
            live.sync(self._model)
            for change in sorted(found, key=lambda each: each.version):
                change.add_to(self._model)
            check_observers(live, self._model, NOW_MS)
        assert _shown_epochs(self.database) == epochs, "somebody was fenced"
        if snapshot is not None:
            drained = {each.prefix for each in found if isinstance(each, Drained)}
            self._check_snapshot(live, snapshot, seen, drained)
            live.release(snapshot)

    def _check_snapshot(self, live: LiveClient, snapshot: int, seq: int, drained: set[bytes]) -> None:
        """A snapshot of the client shows what it showed, and loads at its number; a drained segment leaves it."""
        left_out = self._model.keys_with_expiry_by(NOW_MS)
        left_out |= {key for key in self._model.versions if key[: SEGMENTS.length] in drained}
        comparable = partial(comparable_rows, model=self._model, left_out=left_out)
        expected = comparable(self._model.visible(None, include_expired=True, max_seq=seq))
        assert awaited(lambda: comparable(live.scan(at=snapshot)), expected) == expected

    def _check_at_rest(self) -> None:
        assert not SlateStore.open(str(self.database.folder)).verify().has_damage
        assert list((self.database.folder / "slatespark" / "leases").glob("*")) == []
        stores = stores_of(LocalStore(self.database.folder))
        for load in fetch_handed_loads(stores.main):  # a version has one commit record, and may have two loads
            number = find_commit_of(stores, load)
            assert number is not None
            assert not is_recorded(stores, replace(load.record, manifest_id=number))

    @contextmanager
    def _worker(self) -> Iterator[None]:
        """A worker of ours, if the client has none, or by chance."""
        if self._kind != "handed over" and self._random.random() < 0.5:
            yield
            return
        worker = Worker([str(self.database.folder)], pollInterval="20ms", mergeOperator="concat", parallelism=1)
        thread = threading.Thread(target=worker.run)
        thread.start()
        try:
            yield
        finally:
            worker.stop()
            thread.join()

    # --- work of ours -------------------------------------------------------------------------------------------------

    def _random_work(self, live: LiveClient) -> Callable[[], Change | None]:
        """One piece of work, all of it decided; it returns what it changed."""
        kinds = ["load", "load", "compact", *(["drain"] if self.segmented else [])]
        match self._pick(*kinds):
            case "load":
                operands = bool(self._random.random() < 0.3)
                options = {"unflushedRows": self._pick("win", "fail"), "sstSize": self._pick("4k", "1m")}
                work: Callable[[], Change | None] = partial(
                    self._load, live, self._random_rows(), operands=operands, options=options
                )
                return partial(self._tried, "load", work)
            case "drain":
                prefix = b"key%03d" % self._random.integers(KEYS // 100)
                return partial(self._tried, "drain", partial(self._drain, prefix))
            case _:
                choice = self._pick(
                    {}, {"full": True}, {"l0Only": True}, {"startKey": b"key00100", "endKey": b"key002"}
                )
                return partial(self._tried, "compact", partial(self._compact, choice))

    def _tried(self, kind: str, work: Callable[[], Change | None]) -> Change | None:
        """Do some work; a client that is faster again and again may have it refused, and then it changed nothing.

        An `UnavailableError` may leave it open whether a load took effect; a compaction or a drain raises it earlier.
        """
        try:
            change = work()
        except (CommitConflictError, UnavailableError) as exc:
            if kind == "load" and isinstance(exc, UnavailableError):
                raise
            kind, change = f"{kind} refused", None
            self.refusals.append(str(exc))
        with self._lock:
            self.done[kind] = self.done.get(kind, 0) + 1
        return change

    def _load(self, live: LiveClient, rows: Rows, *, operands: bool, options: dict[str, Any]) -> Loaded:
        newer_than = 0 if options["unflushedRows"] == "win" else live.durable_seq()
        given = {**options, "clientTimeout": "5s", "mergeOperator": "concat"}
        with self._lock:
            self._loads += 1
            given.update(txnAppId="mixed", txnVersion=self._loads)
        record = load_beside(self.database.folder, rows, operands=operands, **given)
        return Loaded(record, rows, operands, newer_than)

    def _drain(self, prefix: bytes) -> Drained | None:
        store = SlateStore.open(str(self.database.folder))
        version = store.deleteRange(keyPrefix=prefix, ifClientActive="cooperate", clientTimeout="5s")
        record = fetch_commit_record(LocalStore(self.database.folder), version)
        if record is None or record.operation != Operation.DELETE_RANGE:
            return None  # there was nothing in it
        return Drained(version, prefix, drained_up_to(self.database, version, prefix))

    def _compact(self, options: dict[str, Any]) -> None:
        store = SlateStore.open(str(self.database.folder))
        store.compact(ifClientActive="cooperate", clientTimeout="10s", mergeOperator="concat", **options)

    # --- random choices -----------------------------------------------------------------------------------------------

    def _pick(self, *choices: Any) -> Any:
        return choices[int(self._random.integers(len(choices)))]

    def _random_rows(self) -> Rows:
        numbers = sorted(self._random.choice(KEYS, self._pick(1, 20, 200), replace=False).tolist())
        return {b"key%05d" % number: None if self._random.random() < 0.2 else b"load %d" % number for number in numbers}

    def _traffic(self) -> Traffic:
        return Traffic(
            writes_per_s=1500,
            keys=KEYS,
            deletes=0.15,
            merges=0.2,
            ttls=0.05,
            past_ttls=0.05,
            flush_every=self._pick(40, 150, 400),
            snapshot_every=self._pick(0, 100),
            seed=int(self._random.integers(1 << 30)),
        )


def _shown_epochs(database: Location) -> tuple[int, int]:
    manifest = read_manifest(database)
    return manifest.writer_epoch, manifest.compactor_epoch
