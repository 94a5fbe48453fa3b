"""The world of one seed: the store, the table in it, its model, and the processes that work on it."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch
from uuid import UUID

from slatespark import SlateStore
from slatespark.format.manifest import Manifest
from slatespark.format.manifest_codec import decode_manifest
from slatespark.format.paths import decode_boundary
from slatespark.storage import memory_store, open_store, readahead
from slatespark.storage.object_store import ObjectStore
from slatespark.table import stores, tasks
from slatespark.table.cooperation import load_commit
from slatespark.table.log.manifests import fetch_latest_manifest, manifest_log
from slatespark.table.read import gaps
from tests.faults.jobs import store_on, stores_of
from tests.simulation.actors import Actor, Operation
from tests.simulation.base import BASES, WITHOUT_SEGMENTS, is_segmented, make_base
from tests.simulation.chance import Chance
from tests.simulation.checks import check_deletion, check_successor, late_checkpoints
from tests.simulation.clocks import START_MS, ActorClock, Drift
from tests.simulation.faults import FaultPlan
from tests.simulation.history import History
from tests.simulation.model import Doing, ModelError, Rows, TableModel
from tests.simulation.scheduler import InlinePool, Pool, Scheduler
from tests.simulation.store import Server
from tests.support.fake_clock import FakeClock

if TYPE_CHECKING:
    from tests.simulation.log_streams import Log
    from tests.simulation.streams import Query, Sink

ROOT: Final = "db/table"
QUIET_MS: Final = 15 * 24 * 3_600_000  # longer than what keeps versions for a while
MAX_HEIRS: Final = 20
WIDE: Final = 8_000_000  # seeds below it have no segments and no streams that write: tests replay some of them
FULL: Final = 12_000_000  # seeds below it have no logs of writes, and hand no deletions over

_buckets = itertools.count()


class World:
    """Everything of one seed.

    Attributes
    ----------
    is_wide, is_full : has all kinds of tables and many kinds of processes; all of them
    is_segmented : the table has segments
    is_odd : clocks may be wrong, or processes sleep and die
    has_clients : SlateDB clients write too
    collects : collectors are under way that wait for nobody
    has_untold : rows change otherwise than by writes that a log tells
    wal_end : the last WAL file at the beginning
    first_version : of which the model knows the rows
    acknowledged : keys of idempotent writes that were
    busy : what is being done that one process does at a time
    late : checkpoints that keep nothing, see `late_checkpoints`
    sinks, logs, queries : what streams of changes and of writes have delivered; how far streams that write have come
    clones : those that exist, by URL, and what each shows
    outcomes : how often each kind of operation ended how
    """

    def __init__(self, seed: int) -> None:
        rng = self.rng = Chance(seed)
        self.seed, self.is_wide, self.is_full = seed, seed >= WIDE, seed >= FULL
        self.scheduler = Scheduler(
            Chance(rng.getrandbits(64)),
            now_ms=START_MS,
            stickiness=rng.choice([0, 0.3, 0.7, 0.9, 0.97]),
            latency_ms=rng.choice([1, 5, 40]),
        )
        self.history = History()
        self.faults = FaultPlan.draw(rng)
        bucket = f"simulation-{next(_buckets):08}"
        self.server = Server(self.scheduler, self.faults, self.history, bucket)
        if rng.random() < 0.2:
            self.server.page_objects = rng.choice([2, 7])
        self.has_odd_clocks = rng.random() < 0.5
        self.is_odd = self.has_odd_clocks or bool(self.faults.kill_rate or self.faults.sleep_rate)
        self.collects = False
        self.has_clients = False
        self.has_untold = False
        self.acknowledged: set[str] = set()
        self.busy: set[str] = set()
        self.sinks: dict[str, Sink] = {}
        self.logs: dict[str, Log] = {}
        self.queries: dict[str, Query] = {}
        self.clones: dict[str, Rows] = {}
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.manifests: dict[int, Manifest] = {}
        self.late: set[UUID] = set()
        self._actors = itertools.count(1)
        memory_store._BUCKETS[f"{bucket}-raw"] = memory_store._BUCKETS[bucket]  # a reader that shares no cache
        self.raw = memory_store.MemoryStore(f"{bucket}-raw/{ROOT}")
        self._make_table()
        self.server.watch = self._watch
        self.server.watch_deletion = self._watch_deletion

    def close(self) -> None:
        """Let go of the objects, and of the world, which the clock of the bucket holds."""
        for name in (self.server.bucket, f"{self.server.bucket}-raw"):
            found = memory_store._BUCKETS.pop(name)
            found.objects.clear()

    # --- what actors use ----------------------------------------------------------------------------------------

    def open_table(self, actor: Actor) -> SlateStore:
        """Return the table as a process sees it that has just begun."""
        return store_on(self.server.open(ROOT, is_remote=actor.is_remote), actor.clock)

    @property
    def current(self) -> Actor:
        """The process that is at it."""
        return self.scheduler.own_fiber().actor

    def note(self, actor: Actor, kind: str, text: str) -> None:
        """Add a line to the history."""
        shown = text.replace(self.server.bucket, "bucket")  # each run has one of its own
        self.history.add(self.scheduler.now_ms - START_MS, actor.name, kind, shown)

    def has_version(self, number: int) -> bool:
        """Tell whether nobody has collected a version, or has begun to."""
        return number in manifest_log(stores_of(self.raw)).numbers()

    def count(self, name: str, outcome: str) -> None:
        """Count the outcome of an operation."""
        self.outcomes[name, outcome] += 1

    def require(self, holds: bool, problem: str) -> None:
        """End the simulation unless something holds."""
        if not holds:
            self.scheduler.fail(ModelError(problem))

    def judge(self, check: Callable[[], object]) -> None:
        """Run a check, and end the simulation if it raises."""
        try:
            check()
        except ModelError as exc:
            self.scheduler.fail(exc)

    def start(self, operations: list[Operation], delay_ms: int = 0) -> None:
        """Start a process."""
        rng = Chance(self.rng.getrandbits(64))
        drift = Drift.draw(rng) if self.has_odd_clocks else Drift()
        clock = ActorClock(self.scheduler, Chance(rng.getrandbits(64)), drift)
        name = f"actor {next(self._actors)}"
        actor = Actor(self, name, rng, clock, operations, is_remote=rng.random() < 0.5)
        self.scheduler.start(actor, name, actor.live, delay_ms)

    def start_heir(self, dead: Actor) -> None:
        """Start a process that does what another one has left."""
        if dead.operations:
            self.start(dead.operations, delay_ms=dead.rng.randrange(5_000))

    # --- the whole ----------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run all processes to their ends."""
        with self._replaced():
            self.scheduler.run()
            self.server.land_all()
        if self.scheduler.failure is not None:
            raise self.scheduler.failure

    def fresh_rows(self, at: str | None = None, **options: Any) -> Rows:
        """Return what a fresh reader finds, in the table or elsewhere."""
        table = self._fresh() if at is None else SlateStore.open(at, clock=FakeClock(self.scheduler.now_ms))
        rows = table.scan(parallelism=1, **options).read_all()
        return dict(zip(rows["key"].to_pylist(), rows["value"].to_pylist(), strict=True))

    def _fresh(self) -> SlateStore:
        return store_on(self.raw, FakeClock(self.scheduler.now_ms, seed=self.seed))

    def finish(self) -> SlateStore:
        """Return the table, long after everything has ended, and by a clock that is right."""
        self.scheduler.now_ms += QUIET_MS
        return self._fresh()

    # --- inside -------------------------------------------------------------------------------------------------

    def _make_table(self) -> None:
        number = self.rng.randrange(BASES if self.is_wide else WITHOUT_SEGMENTS)
        base, raw = make_base(number), self.server.raw(ROOT)
        self.is_segmented = is_segmented(number)
        for path, data in base.objects.items():
            raw.put(path, [data])
        self.wal_end = max((int(path[4:24]) for path in base.objects if path.startswith("wal/")), default=0)
        number, manifest = fetch_latest_manifest(stores_of(raw))
        self.first_version = number
        self.manifests[number] = manifest
        self.model = TableModel([base.rows], {number: self.fresh_rows(versionAsOf=number)}, number)
        if self.fresh_rows() != self.model.rows:
            raise ModelError(f"the table begins with {self.fresh_rows()}, not with {self.model.rows}")

    @contextmanager
    def _replaced(self) -> Iterator[None]:
        """Let all threads of programs be fibers meanwhile, and let locations lead to the server."""
        with ExitStack() as replaced:
            pools = {os.getpid(): Pool(self.scheduler, is_readahead=True)}
            replaced.enter_context(patch.object(readahead, "_POOLS", pools))
            for module in (tasks, gaps):
                replaced.enter_context(patch.object(module, "ThreadPool", self._pool))
            replaced.enter_context(patch.object(load_commit, "ThreadPool", InlinePool))
            stores._other_root.cache_clear()
            replaced.enter_context(patch.object(stores, "open_store", self._open_store))
            yield

    def _pool(self, threads: int, initializer: Callable[[], None] | None = None) -> Pool | InlinePool:
        """Return a pool; threads beside a client, which have an initializer, share locks that are held during calls."""
        return Pool(self.scheduler) if initializer is None else InlinePool(threads)

    def _open_store(self, url: str, options: Mapping[str, str] | None = None) -> ObjectStore:
        if url.startswith(place := f"memory://{self.server.bucket}/"):
            return self.server.open(url.removeprefix(place), is_remote=self.seed % 2 == 0)
        return open_store(url, options)

    def _watch(self, doing: Doing | None, path: str) -> None:
        folder, _, name = path.removeprefix(f"{ROOT}/").partition("/")
        if folder == "wal":
            number = int(name.partition(".")[0])
            if self.server.raw().head(path).size:
                self.wal_end = max(self.wal_end, number)
                self.judge(lambda: self.model.add_moment(f"WAL file {number}", doing, self.fresh_rows()))
        if folder != "manifest":
            return
        number = int(name.partition(".")[0])
        dead = self._dead_up_to()
        if number <= self.model.newest:  # by one who slept: a collector has been there
            self.require(number <= dead, f"version {number} was created after version {self.model.newest}")
            return
        manifest = decode_manifest(self.server.raw().get(path))
        self.judge(lambda: check_successor(self.manifests[self.model.newest], manifest, self.raw))
        before, self.manifests[number] = self.manifests[number - 1], manifest
        self.late |= late_checkpoints(before, manifest, dead)
        try:
            found, kept = self._shown(number, before, manifest)
        except Exception as exc:
            self.scheduler.fail(exc)
        self.judge(lambda: self.model.add(number, doing, found, kept))

    def _shown(self, number: int, before: Manifest, manifest: Manifest) -> tuple[Rows, Rows]:
        """Return what a new version shows as the newest one, and what it shows later on."""
        same = replace(
            before,
            nonce=manifest.nonce,
            writer_epoch=manifest.writer_epoch,
            compactor_epoch=manifest.compactor_epoch,
            checkpoints=manifest.checkpoints,
        )
        if manifest == same:  # a claim or a checkpoint: a scan would read the same objects
            return self.model.rows, self.model.kept[number - 1]
        found = self.fresh_rows()
        has_tail = manifest.replay_after_wal_id < self.wal_end
        return found, self.fresh_rows(versionAsOf=number) if has_tail else found

    def _dead_up_to(self) -> int:
        """Return the boundary below which collectors delete manifests; 0 if there is none yet."""
        try:
            return decode_boundary(bytes(self.raw.get("gc/manifest.boundary")))
        except FileNotFoundError:
            return 0

    def _watch_deletion(self, path: str) -> None:
        root, _, name = path.partition(f"{ROOT}/")
        if not root:
            self.judge(lambda: check_deletion(name, self.model.newest, self.manifests, self.late))
