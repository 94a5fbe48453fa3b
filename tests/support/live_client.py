"""The real client in a process of its own, open all the time: it answers calls, and writes by itself meanwhile.

Every write, of a call or by itself, is in its log, with the sequence number that says in which order they took effect.
A snapshot or a transaction stays in that process; the caller gets a number for it.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, Final, Self, TypeAlias

import numpy as np

from tests.support.client import (
    CALL_TIMEOUT_S,
    Client,
    ClientOptions,
    ClientTransaction,
    Delete,
    Location,
    Merge,
    Put,
    ScanRow,
    Ttl,
    Write,
    Written,
)
from tests.support.model import Model
from tests.support.workload import FAR_FUTURE_MS, LONG_PAST_MS

START_TIMEOUT_S: Final = 120.0  # a new interpreter, which loads the client

Logged: TypeAlias = tuple[tuple[Write, ...], Written]  # the writes of one batch, and how the client numbered them


class LiveClientError(Exception):
    """A call that failed in the process of the client; the text is that of the client's error."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """What the client writes by itself: puts, and shares of other kinds of writes, of keys `key00000`, `key00001`, ...

    Attributes
    ----------
    writes_per_s : 0 for as fast as it goes
    keys : how many different ones
    deletes, merges, ttls, past_ttls : shares, 0 to 1; puts with a TTL expire in the far future, or have expired
    flush_every : writes between two flushes of the memtable; 0 for none
    snapshot_every : writes for which a snapshot is held, then the next one is taken; 0 for none
    """

    writes_per_s: float = 0.0
    keys: int = 1000
    deletes: float = 0.0
    merges: float = 0.0
    ttls: float = 0.0
    past_ttls: float = 0.0
    flush_every: int = 0
    snapshot_every: int = 0
    value_bytes: int = 24
    seed: int = 0


class LiveClient:
    """A client in another process; use it in a `with` statement, or call `close` or `kill`."""

    def __init__(self, location: Location, options: ClientOptions | None = None) -> None:
        """Open the database there, which fences an earlier writer."""
        self.location = location
        self.options = options or ClientOptions(flush_interval="20ms")
        context = multiprocessing.get_context("spawn")  # a fork would share the threads of a client of this process
        self._connection, theirs = context.Pipe()
        self._turn = threading.Lock()
        self._process = context.Process(target=_serve, args=(theirs, location, self.options), daemon=True)
        self._process.start()
        theirs.close()
        self._answer(START_TIMEOUT_S)
        self._synced = 0

    def put(self, key: bytes, value: bytes, ttl: Ttl | None = None) -> Written:
        """Set a key."""
        return self.write([Put(key, value, ttl)])

    def delete(self, key: bytes) -> Written:
        """Remove a key."""
        return self.write([Delete(key)])

    def merge(self, key: bytes, operand: bytes, ttl: Ttl | None = None) -> Written:
        """Append an operand to a key."""
        return self.write([Merge(key, operand, ttl)])

    def write(self, writes: Iterable[Write]) -> Written:
        """Make several writes one batch."""
        written: Written = self._call("write", tuple(writes))
        return written

    def flush_wal(self) -> None:
        """Make everything written durable in the WAL."""
        self._call("flush_wal")

    def flush_memtable(self) -> None:
        """Write the memtable as an SST into L0."""
        self._call("flush_memtable")

    def get(self, key: bytes, *, at: int | None = None) -> bytes | None:
        """The value of a key, expired or not; `at` is the number of a snapshot."""
        value: bytes | None = self._call("get", key, at)
        return value

    def scan(self, start: bytes | None = None, end: bytes | None = None, *, at: int | None = None) -> list[ScanRow]:
        """The rows in `[start, end)`, expired or not, durable or not; `at` is the number of a snapshot."""
        rows: list[ScanRow] = self._call("scan", start, end, at)
        return rows

    def take_snapshot(self) -> int:
        """Hold a snapshot; its number."""
        return int(self._call("take_snapshot"))

    def begin(self) -> int:
        """Begin a serializable transaction; its number."""
        return int(self._call("begin"))

    def get_in(self, transaction: int, key: bytes) -> bytes | None:
        """The value of a key as a transaction sees it."""
        value: bytes | None = self._call("get_in", transaction, key)
        return value

    def put_in(self, transaction: int, key: bytes, value: bytes) -> None:
        """Set a key in a transaction."""
        self._call("put_in", transaction, key, value)

    def commit(self, transaction: int) -> Written:
        """Commit a transaction that has written something."""
        written: Written = self._call("commit", transaction)
        return written

    def release(self, number: int) -> None:
        """Let go of a snapshot or a transaction."""
        self._call("release", number)

    def durable_seq(self) -> int:
        """The highest sequence number that a crash would not lose."""
        return int(self._call("durable_seq"))

    def is_open(self) -> bool:
        """Whether nothing has closed the database, and nothing that the client did by itself has failed."""
        return bool(self._call("is_open"))

    def start_writing(self, traffic: Traffic) -> None:
        """Let the client write by itself until `stop_writing`; calls are answered meanwhile."""
        self._call("start_writing", traffic)

    def stop_writing(self) -> list[float]:
        """End what `start_writing` began, and return how long each put took, in seconds; raises if one failed."""
        latencies: list[float] = self._call("stop_writing")
        return latencies

    def sync(self, model: Model) -> None:
        """Add to the model what was written since the last call."""
        logged: list[Logged] = self._call("log", self._synced)
        for writes, written in logged:
            model.apply(writes, written)
        self._synced += len(logged)

    def close(self, *, flush: bool = True) -> None:
        """Close the database and end the process; `flush=False` loses what no flush has made durable."""
        try:
            self._call("close", flush)
        finally:
            self.kill()

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()
        self._process.join(CALL_TIMEOUT_S)
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._process.is_alive():
            self.kill()

    def _call(self, name: str, *arguments: object) -> Any:
        with self._turn:  # threads of a test would get each other's answers
            self._connection.send((name, arguments))
            return self._answer(2 * CALL_TIMEOUT_S)

    def _answer(self, timeout_s: float) -> Any:
        if not self._connection.poll(timeout_s):
            raise TimeoutError(f"The client of {self.location} does not answer.")
        failure, answer = self._connection.recv()
        if failure is not None:
            raise LiveClientError(failure)
        return answer


def writes_of(client: LiveClient) -> list[tuple[str, bytes, bytes | None]]:
    """What a log of the client's writes must have: change type, key and value, in their order."""
    model = Model()
    client.sync(model)
    logged = sorted((version.seq, key, version) for key in model.versions for version in model.versions[key])
    words = {"put": "upsert", "delete": "delete", "merge": "merge"}
    return [
        (words[version.kind.value], key, None if version.kind.value == "delete" else version.value)
        for _, key, version in logged
    ]


# --- the other process ------------------------------------------------------------------------------------------------


def _serve(connection: Connection, location: Location, options: ClientOptions) -> None:
    """Open the database, and answer calls until the caller goes."""
    try:
        server = _Server(Client.open(location, options))
    except Exception as error:
        connection.send((_text(error), None))
        return
    connection.send((None, None))
    while True:
        try:
            name, arguments = connection.recv()
        except EOFError:
            return
        try:
            call = getattr(server if hasattr(server, name) else server.client, name)
            answer = call(*arguments)
        except Exception as error:
            connection.send((_text(error), None))
        else:
            connection.send((None, answer))


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {getattr(error, 'message', error)}"


@dataclass(slots=True)
class _Server:
    """The calls of `LiveClient` that `Client` does not have, or does not log, in the process of the client."""

    client: Client
    logged: list[Logged] = field(default_factory=list)
    held: dict[int, Any] = field(default_factory=dict)
    numbered: int = 0
    writer: _Writer | None = None

    def write(self, writes: tuple[Write, ...]) -> Written:
        """Write a batch, and log it: also if nobody waits for the answer."""
        written = self._apply(writes)
        self.logged.append((writes, written))  # the writer does so as well; a list is safe for that
        return written

    def _apply(self, writes: tuple[Write, ...]) -> Written:
        match writes:
            case (Put(key, value, ttl),):
                return self.client.put(key, value, ttl)
            case (Delete(key),):
                return self.client.delete(key)
            case (Merge(key, operand, ttl),):
                return self.client.merge(key, operand, ttl)
            case _:
                return self.client.write(writes)

    def get(self, key: bytes, at: int | None) -> bytes | None:
        return self.client.get(key, at=None if at is None else self.held[at])

    def scan(self, start: bytes | None, end: bytes | None, at: int | None) -> list[ScanRow]:
        return self.client.scan(start, end, at=None if at is None else self.held[at])

    def take_snapshot(self) -> int:
        return self._hold(self.client.take_snapshot())

    def begin(self) -> int:
        return self._hold(self.client.begin())

    def get_in(self, transaction: int, key: bytes) -> bytes | None:
        held: ClientTransaction = self.held[transaction]
        return held.get(key)

    def put_in(self, transaction: int, key: bytes, value: bytes) -> None:
        self.held[transaction].put(key, value)

    def commit(self, transaction: int) -> Written:
        held: ClientTransaction = self.held.pop(transaction)
        return held.commit()

    def release(self, number: int) -> None:
        del self.held[number]

    def is_open(self) -> bool:
        return self.client.is_open() and (self.writer is None or self.writer.failure is None)

    def start_writing(self, traffic: Traffic) -> None:
        self.writer = _Writer(self.client, traffic, self.write)

    def stop_writing(self) -> list[float]:
        assert self.writer is not None
        writer, self.writer = self.writer, None
        return writer.stop()

    def log(self, start: int) -> list[Logged]:
        return self.logged[start:]

    def close(self, flush: bool) -> None:
        self.client.close(flush=flush)

    def _hold(self, item: object) -> int:
        self.numbered += 1
        self.held[self.numbered] = item
        return self.numbered


class _Writer:
    """A thread that writes until it is stopped."""

    def __init__(self, client: Client, traffic: Traffic, write: Callable[[tuple[Write, ...]], Written]) -> None:
        self.failure: BaseException | None = None
        self._client, self._traffic, self._write = client, traffic, write
        self._random = np.random.default_rng(traffic.seed)
        self._latencies: list[float] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="live client", daemon=True)
        self._thread.start()

    def stop(self) -> list[float]:
        self._stop.set()
        self._thread.join(CALL_TIMEOUT_S)
        if self.failure is not None:
            raise self.failure
        return self._latencies

    def _run(self) -> None:
        try:
            self._write_on()
        except BaseException as error:
            self.failure = error

    def _write_on(self) -> None:
        traffic, began = self._traffic, time.perf_counter()
        snapshot = None
        count = 0
        while not self._stop.is_set():
            write = self._next_write(count)
            before = time.perf_counter()
            self._write((write,))
            if isinstance(write, Put):
                self._latencies.append(time.perf_counter() - before)
            count += 1
            if traffic.flush_every and count % traffic.flush_every == 0:
                self._client.flush_memtable()
            if traffic.snapshot_every and count % traffic.snapshot_every == 0:
                snapshot = self._client.take_snapshot()
            if traffic.writes_per_s:
                self._stop.wait(max(0.0, began + count / traffic.writes_per_s - time.perf_counter()))
        del snapshot

    def _next_write(self, count: int) -> Write:
        traffic = self._traffic
        key = b"key%05d" % self._random.integers(traffic.keys)
        value = (b"%d of %d " % (count, traffic.seed)).ljust(traffic.value_bytes, b".")
        shares = np.cumsum([traffic.deletes, traffic.merges, traffic.ttls, traffic.past_ttls])
        match int(np.searchsorted(shares, self._random.random(), side="right")):
            case 0:
                return Delete(key)
            case 1:
                return Merge(key, b"+%d" % count)
            case 2:
                return Put(key, value, Ttl(at_ms=FAR_FUTURE_MS))
            case 3:
                return Put(key, value, Ttl(at_ms=LONG_PAST_MS))
            case _:
                return Put(key, value)
