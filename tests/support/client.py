"""The real SlateDB 0.17 client behind plain blocking calls.

The client is asynchronous; each `Client` runs it on an event loop in a thread of its own, so that tests read like
scripts and several threads may use one client. Every call has a time limit: a stalled client is a failed test, not a
hung one.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self, TypeAlias, TypeVar

from slatedb import uniffi

CALL_TIMEOUT_S: Final = 60.0
SCAN_ROWS: Final = 4096  # per call; the binding spends its time on calls

_KINDS: Final = {
    "s3": uniffi.ObjectStoreType.S3,
    "gs": uniffi.ObjectStoreType.GCS,
    "az": uniffi.ObjectStoreType.AZURE,
}

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Location:
    """Where a database is: a store, and a path in it."""

    path: str  # relative to the root of the store
    directory: Path | None = None  # root of a local store
    bucket: str = ""  # or the URL of a bucket or container, with
    config: Mapping[str, str] = field(default_factory=dict, repr=False)  # access_key_id, endpoint, ...

    @classmethod
    def local(cls, folder: Path | str) -> Location:
        """A database that is a folder; the store is rooted at its parent."""
        folder = Path(folder).absolute()
        return cls(folder.name, directory=folder.parent)

    @classmethod
    def s3(cls, url: str, **config: str) -> Location:
        """A database at `s3://bucket/path`; what `config` leaves out comes from the `AWS_*` variables.

        Keys of `config` are those of the Rust crate object_store: `access_key_id`, `secret_access_key`, `region`,
        `endpoint`, `allow_http`.
        """
        return cls.remote(url.replace("s3a://", "s3://", 1), **config)

    @classmethod
    def remote(cls, url: str, **config: str) -> Location:
        """The same of `s3://`, `gs://` and `az://`, each with the keys of its own."""
        scheme, _, place = url.partition("://")
        bucket, _, path = place.partition("/")
        return cls(path, bucket=f"{scheme}://{bucket}", config=config)

    @property
    def folder(self) -> Path:
        """The folder of a local database."""
        if self.directory is None:
            raise ValueError(f"{self} is not on the local disk.")
        return self.directory / self.path

    def object_store(self) -> Any:
        """A store of the client, rooted where the path starts."""
        if self.directory is not None:
            self.directory.mkdir(parents=True, exist_ok=True)
            builder = uniffi.ObjectStoreBuilder(uniffi.ObjectStoreType.LOCAL)
            builder.with_url(str(self.directory))
        else:
            builder = uniffi.ObjectStoreBuilder.from_env(_KINDS[self.bucket.partition("://")[0]])
            builder.with_url(self.bucket)
            for key, value in self.config.items():
                builder.with_config(key, value)
        return builder.build()


@dataclass(frozen=True, slots=True)
class Ttl:
    """When a row expires: at an instant, some time after it is written, or never when neither is given."""

    at_ms: int | None = None
    after_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Put:
    """Set a key; `ttl` None leaves the expiry to the database's default."""

    key: bytes
    value: bytes
    ttl: Ttl | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a key."""

    key: bytes


@dataclass(frozen=True, slots=True)
class Merge:
    """Append an operand to a key."""

    key: bytes
    operand: bytes
    ttl: Ttl | None = None


Write: TypeAlias = Put | Delete | Merge


@dataclass(frozen=True, slots=True)
class Written:
    """What the client says of a write."""

    seq: int
    create_ts: int  # ms


@dataclass(frozen=True, slots=True)
class ScanRow:
    """One visible row."""

    key: bytes
    value: bytes
    seq: int
    create_ts: int | None  # ms
    expire_ts: int | None  # ms


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """How a database is opened; the defaults make every flush and every compaction an explicit call."""

    codec: str | None = None  # Snappy, Zlib, Lz4, Zstd
    block_bytes: int = 4096  # a power of two, 1 to 64 KiB
    bloom_bits_per_key: int | None = 10  # None writes no filters
    min_filter_keys: int = 1  # the client's default, 1000, would leave small tests without filters
    merge_operator: bool = True  # concatenation
    wal: bool = True
    compactor: bool = False
    compact_by_itself: bool = False  # let the compactor's scheduler start jobs too
    flush_interval: str | None = None  # such as "20ms"
    default_ttl_ms: int | None = None
    segments: Any = None  # a segment extractor, such as those in `tests.support.segments`
    settings: Mapping[str, object] = field(default_factory=dict)  # further ones, by dotted name

    def to_settings(self) -> Any:
        """The client's settings object."""
        values: dict[str, object] = {
            "compression_codec": self.codec,
            "min_filter_keys": self.min_filter_keys,
            "wal_enabled": self.wal,
            "flush_interval": self.flush_interval,
            "default_ttl_millis": self.default_ttl_ms,
            "manifest_poll_interval": "50ms",
            "l0_max_ssts": 1000,  # without a compactor the client would stall at 8
            "l0_max_ssts_per_key": 1000,
            "garbage_collector_options": None,
        }
        if self.compactor:
            values["compactor_options.poll_interval"] = "20ms"
            values["compactor_options.commit_compacted_interval"] = "20ms"
            values["compactor_options.worker.compactions_poll_interval"] = "20ms"
            values["compactor_options.max_concurrent_compactions"] = 1
            if not self.compact_by_itself:
                values["compactor_options.scheduler_options.min_compaction_sources"] = "1000"
        else:
            values["compactor_options"] = None
        settings = uniffi.Settings.default()
        for name, value in {**values, **self.settings}.items():
            settings.set(name, json.dumps(value))
        return settings


class Concat(uniffi.MergeOperator):  # type: ignore[misc]  # the binding has no types
    """The merge operator of the tests: append."""

    def merge(self, key: bytes, existing_value: bytes | None, operand: bytes) -> bytes:
        return (existing_value or b"") + operand


class EventLoopThread:
    """An event loop that runs in a thread until it is stopped."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def wait(self, call: Coroutine[Any, Any, Result], timeout_s: float = CALL_TIMEOUT_S) -> Result:
        """Run a coroutine to its end; `TimeoutError` if it does not get there."""
        future = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            return future.result(timeout_s)
        except TimeoutError:
            future.cancel()
            raise

    def is_running(self) -> bool:
        """Whether `stop` was not called yet."""
        return not self._loop.is_closed()

    def stop(self) -> None:
        """End the thread; a second call does nothing."""
        if self._loop.is_closed():
            return
        self.wait(self._loop.shutdown_asyncgens())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_TIMEOUT_S)
        self._loop.close()


class Client:
    """An open database; use it in a `with` statement, or call `close`."""

    def __init__(self, location: Location, options: ClientOptions, loop: EventLoopThread, db: Any) -> None:
        self.location = location
        self.options = options
        self._loop = loop
        self._db = db

    @classmethod
    def open(cls, location: Location, options: ClientOptions | None = None) -> Client:
        """Open a database for writing, creating it where there is none; fences an earlier writer."""
        options = options or ClientOptions()
        builder = uniffi.DbBuilder(location.path, location.object_store())
        builder.with_settings(options.to_settings())
        builder.with_sst_block_size(_block_size(options.block_bytes))
        builder.with_filter_policies(_filter_policies(options))
        if options.merge_operator:
            builder.with_merge_operator(Concat())
        if options.segments is not None:
            builder.with_segment_extractor(options.segments)
        loop = EventLoopThread(f"slatedb client of {location.path}")
        try:
            return cls(location, options, loop, loop.wait(builder.build()))
        except BaseException:
            loop.stop()
            raise

    def put(self, key: bytes, value: bytes, ttl: Ttl | None = None) -> Written:
        """Set a key."""
        options = uniffi.PutOptions(ttl=_ttl(ttl))
        return self._written(self._db.put_with_options(key, value, options, uniffi.WriteOptions()))

    def delete(self, key: bytes) -> Written:
        """Remove a key."""
        return self._written(self._db.delete(key))

    def merge(self, key: bytes, operand: bytes, ttl: Ttl | None = None) -> Written:
        """Append an operand to a key."""
        options = uniffi.MergeOptions(ttl=_ttl(ttl))
        return self._written(self._db.merge_with_options(key, operand, options, uniffi.WriteOptions()))

    def write(self, writes: Iterable[Write]) -> Written:
        """Make several writes one batch: one sequence number, all or nothing."""
        batch = uniffi.WriteBatch()
        for write in writes:
            match write:
                case Put(key, value, ttl):
                    batch.put_with_options(key, value, uniffi.PutOptions(ttl=_ttl(ttl)))
                case Delete(key):
                    batch.delete(key)
                case Merge(key, operand, ttl):
                    batch.merge_with_options(key, operand, uniffi.MergeOptions(ttl=_ttl(ttl)))
        return self._written(self._db.write(batch))

    def take_snapshot(self) -> object:
        """A snapshot: flushes and compactions keep what it sees until nothing refers to it any more."""
        snapshot: object = self._loop.wait(self._db.snapshot())
        return snapshot

    def flush_wal(self) -> None:
        """Make everything written durable in the WAL."""
        self._flush(uniffi.FlushType.WAL)

    def flush_memtable(self) -> None:
        """Write the memtable as an SST into L0; the WAL goes first, where there is one."""
        self._flush(uniffi.FlushType.MEM_TABLE)

    def begin(self) -> ClientTransaction:
        """A serializable transaction."""
        return ClientTransaction(
            self._loop, self._loop.wait(self._db.begin(uniffi.IsolationLevel.SERIALIZABLE_SNAPSHOT))
        )

    def get(self, key: bytes, *, at: object | None = None) -> bytes | None:
        """The value of a key, expired or not; `at` is a snapshot."""
        source: Any = at or self._db
        value: bytes | None = self._loop.wait(source.get(key))
        return value

    def get_row(self, key: bytes) -> ScanRow | None:
        """The row of a key, expired or not."""
        row = self._loop.wait(self._db.get_key_value(key))
        return None if row is None else _scan_row(row)

    def scan(self, start: bytes | None = None, end: bytes | None = None, *, at: object | None = None) -> list[ScanRow]:
        """The rows in `[start, end)`, expired or not, durable or not; `at` is a snapshot."""
        return self._loop.wait(_scan(at or self._db, start, end))

    def durable_seq(self) -> int:
        """The highest sequence number that a crash would not lose."""
        return int(self._db.status().durable_seq)

    def is_open(self) -> bool:
        """Whether the client itself says that nothing has closed the database."""
        return self._db.status().close_reason is None

    def close(self, *, flush: bool = True) -> None:
        """Close; `flush=False` loses what no flush has made durable, as a crash would."""
        kind = uniffi.FlushType.MEM_TABLE if flush else None
        try:
            self._loop.wait(self._db.shutdown_with_options(uniffi.CloseOptions(flush_type=kind)))
        finally:
            self._loop.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Close unless the test did; what is not durable is lost, so that no layout appears by accident."""
        if self._loop.is_running():
            self.close(flush=False)

    def _flush(self, kind: Any) -> None:
        self._loop.wait(self._db.flush_with_options(uniffi.FlushOptions(flush_type=kind)))

    def _written(self, call: Coroutine[Any, Any, Any]) -> Written:
        return _written(self._loop.wait(call))


class ClientTransaction:
    """A transaction of an open database."""

    def __init__(self, loop: EventLoopThread, transaction: Any) -> None:
        self._loop = loop
        self._transaction = transaction

    def get(self, key: bytes) -> bytes | None:
        """The value of a key at the read point, or as this transaction wrote it."""
        value: bytes | None = self._loop.wait(self._transaction.get(key))
        return value

    def put(self, key: bytes, value: bytes) -> None:
        """Set a key."""
        self._loop.wait(self._transaction.put(key, value))

    def commit(self) -> Written:
        """Commit; requires that something was written."""
        return _written(self._loop.wait(self._transaction.commit()))


def read_rows(
    location: Location,
    *,
    start: bytes | None = None,
    end: bytes | None = None,
    checkpoint: str | None = None,
    options: ClientOptions | None = None,
    timeout_s: float = CALL_TIMEOUT_S,
) -> list[ScanRow]:
    """Scan with the client's reader, which sees what is durable and changes nothing in the store."""

    async def read() -> list[ScanRow]:
        chosen = options or ClientOptions()
        builder = uniffi.DbReaderBuilder(location.path, location.object_store())
        mode = uniffi.ReaderMode.CHECKPOINT(checkpoint) if checkpoint else uniffi.ReaderMode.FOLLOW_LATEST()
        builder.with_reader_mode(mode)
        builder.with_filter_policies(_filter_policies(chosen))
        if chosen.merge_operator:
            builder.with_merge_operator(Concat())
        if chosen.segments is not None:
            builder.with_segment_extractor(chosen.segments)
        reader = await builder.build()
        try:
            return await _scan(reader, start, end)
        finally:
            await reader.shutdown()

    return run_once(read(), timeout_s)


def run_once(call: Coroutine[Any, Any, Result], timeout_s: float = CALL_TIMEOUT_S) -> Result:
    """Run one coroutine of the client to its end."""
    loop = EventLoopThread("slatedb call")
    try:
        return loop.wait(call, timeout_s)
    finally:
        loop.stop()


async def _scan(source: Any, start: bytes | None, end: bytes | None) -> list[ScanRow]:
    keys = uniffi.KeyRange(start=start, start_inclusive=True, end=end, end_inclusive=False)
    rows = await source.scan(keys)
    found: list[ScanRow] = []
    while batch := await rows.next_batch(SCAN_ROWS):
        found.extend(map(_scan_row, batch))
    return found


def _written(handle: Any) -> Written:
    return Written(int(handle.seqnum()), int(handle.create_ts()))


def _scan_row(row: Any) -> ScanRow:
    return ScanRow(bytes(row.key), bytes(row.value), row.seq, row.create_ts, row.expire_ts)


def _ttl(ttl: Ttl | None) -> Any:
    match ttl:
        case None:
            return uniffi.Ttl.DEFAULT()
        case Ttl(at_ms=int(at_ms)):
            return uniffi.Ttl.EXPIRE_AT_MILLIS(at_ms)
        case Ttl(after_ms=int(after_ms)):
            return uniffi.Ttl.EXPIRE_AFTER_MILLIS(after_ms)
        case _:
            return uniffi.Ttl.NO_EXPIRY()


def _block_size(size: int) -> Any:
    return uniffi.SstBlockSize[f"BLOCK{size // 1024}_KIB"]


def _filter_policies(options: ClientOptions) -> list[Any]:
    bits = options.bloom_bits_per_key
    return [] if bits is None else [uniffi.FilterPolicy.bloom(bits)]
