"""Random histories of a database, and the runner that lets the real client and the model live through them together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Self, TypeAlias

from hypothesis import strategies as st

from tests.support.client import Client, ClientOptions, Delete, Location, Merge, Put, ScanRow, Ttl, Write
from tests.support.client_admin import compact_full
from tests.support.model import Model

FAR_FUTURE_MS: Final = 4_000_000_000_000  # 2096: no test lives to see it expire
LONG_PAST_MS: Final = 1_000_000_000_000  # 2001: expired when it is written


@dataclass(frozen=True, slots=True)
class Batch:
    """Writes that share one sequence number."""

    writes: tuple[Write, ...]


@dataclass(frozen=True, slots=True)
class FlushWal:
    """Make everything durable in the WAL."""


@dataclass(frozen=True, slots=True)
class FlushMemtable:
    """Move everything into a new L0 file."""


@dataclass(frozen=True, slots=True)
class Compact:
    """Merge all files into one run."""


@dataclass(frozen=True, slots=True)
class Reopen:
    """Close and open again; without the flush, what is only in the WAL is replayed."""

    flush_memtable: bool


Step: TypeAlias = Write | Batch | FlushWal | FlushMemtable | Compact | Reopen


def keys() -> st.SearchStrategy[bytes]:
    """Few keys, so that they meet again: lengths 1 to 4, prefixes of each other, the lowest and highest bytes."""
    short = st.lists(st.sampled_from([0x00, 0x01, 0x61, 0xFF]), min_size=1, max_size=3).map(bytes)
    long = st.sampled_from([b"a" * 300, b"a" * 300 + b"\x00", b"\xff" * 260])
    return st.one_of(short, short, short, long)


def values(*, max_bytes: int = 20_000) -> st.SearchStrategy[bytes]:
    """Mostly short values; empty ones, and ones larger than a block."""
    large = st.integers(min_value=min(1000, max_bytes), max_value=max_bytes).map(_pattern)
    return st.one_of(st.binary(max_size=12), st.just(b""), st.binary(max_size=100), large)


def _pattern(size: int) -> bytes:
    """Bytes that compress, though not to nothing, and differ by size."""
    return b"".join(b"%08x" % (index * size % 7919) for index in range(size // 8 + 1))[:size]


def ttls(*, past: bool = False) -> st.SearchStrategy[Ttl | None]:
    """No expiry, or one far ahead; with `past` also one long gone, which the client purges when it rewrites the row."""
    choices: list[st.SearchStrategy[Ttl | None]] = [
        st.none(),
        st.just(Ttl()),
        st.integers(min_value=FAR_FUTURE_MS, max_value=FAR_FUTURE_MS + 3).map(lambda ms: Ttl(at_ms=ms)),
        st.integers(min_value=FAR_FUTURE_MS, max_value=FAR_FUTURE_MS + 3).map(lambda ms: Ttl(after_ms=ms)),
    ]
    if past:
        choices.append(st.integers(min_value=LONG_PAST_MS, max_value=LONG_PAST_MS + 3).map(lambda ms: Ttl(at_ms=ms)))
    return st.one_of(choices)


def single_writes(*, merges: bool = True, past_ttl: bool = False) -> st.SearchStrategy[Write]:
    """One put, delete or merge."""
    ttl = ttls(past=past_ttl)
    puts: st.SearchStrategy[Write] = st.builds(Put, keys(), values(), ttl)
    deletes: st.SearchStrategy[Write] = st.builds(Delete, keys())
    operands: st.SearchStrategy[Write] = st.builds(Merge, keys(), values(max_bytes=2000), ttl)
    return st.one_of(puts, puts, deletes, operands) if merges else st.one_of(puts, puts, deletes)


@st.composite
def batches(draw: st.DrawFn, *, merges: bool = True, past_ttl: bool = False) -> Batch:
    """Several writes, perhaps of one key; with one TTL, since the client refuses two for one key in one batch."""
    ttl = draw(ttls(past=past_ttl))
    drawn = draw(st.lists(single_writes(merges=merges), min_size=1, max_size=8))
    writes: list[Write] = []
    for write in drawn:
        match write:
            case Delete():
                writes.append(write)
            case Merge(key, operand) if Delete(key) in writes:
                # To the client a delete has the TTL "none", so an operand over it may not have another one.
                writes.append(Put(key, operand, ttl))
            case _:
                writes.append(replace(write, ttl=ttl))
    return Batch(tuple(writes))


def steps(
    *, merges: bool = True, past_ttl: bool = False, compactions: bool = True, reopens: bool = True
) -> st.SearchStrategy[Step]:
    """One step; writes are the most frequent."""
    write = single_writes(merges=merges, past_ttl=past_ttl)
    choices: list[st.SearchStrategy[Step]] = [
        write,
        write,
        write,
        batches(merges=merges, past_ttl=past_ttl),
        st.builds(FlushWal),
        st.builds(FlushMemtable),
    ]
    if compactions:
        choices.append(st.builds(Compact))
    if reopens:
        choices.append(st.builds(Reopen, st.booleans()))
    return st.one_of(choices)


def workloads(*, max_steps: int = 40, **kinds: bool) -> st.SearchStrategy[list[Step]]:
    """A history; `kinds` as for `steps`."""
    return st.lists(steps(**kinds), min_size=1, max_size=max_steps)


def client_options(*, wal: bool | None = None) -> st.SearchStrategy[ClientOptions]:
    """Every codec and block size, with and without filters and WAL; a compactor that acts when it is told."""
    return st.builds(
        ClientOptions,
        codec=st.sampled_from([None, "Snappy", "Zlib", "Lz4", "Zstd"]),
        block_bytes=st.sampled_from([1 << power for power in range(10, 17)]),
        bloom_bits_per_key=st.sampled_from([None, 1, 10, 20]),
        min_filter_keys=st.sampled_from([1, 1000]),
        wal=st.booleans() if wal is None else st.just(wal),
        compactor=st.just(True),
        settings=st.sampled_from([{}, {"compactor_options.worker.max_sst_size": 3000}]),
    )


@dataclass(slots=True)
class Run:
    """The real client and the model, at the same point of the same history; use it in a `with` statement."""

    location: Location
    options: ClientOptions = field(default_factory=lambda: ClientOptions(compactor=True))
    model: Model = field(init=False)
    client: Client = field(init=False)

    def __post_init__(self) -> None:
        self.model = Model(self.options.default_ttl_ms)
        self.client = Client.open(self.location, self.options)

    def apply(self, workload: Iterable[Step]) -> None:
        """Live through more steps."""
        for step in workload:
            self._apply(step)

    def make_durable(self) -> None:
        """Let the store hold everything: in the WAL, or in L0 where there is no WAL."""
        if self.options.wal:
            self.client.flush_wal()
        else:
            self.client.flush_memtable()

    def client_rows(self) -> list[ScanRow]:
        """What the real client shows, expired rows included."""
        return self.client.scan()

    def _apply(self, step: Step) -> None:
        match step:
            case Put(key, value, ttl):
                self.model.apply([step], self.client.put(key, value, ttl))
            case Delete(key):
                self.model.apply([step], self.client.delete(key))
            case Merge(key, operand, ttl):
                self.model.apply([step], self.client.merge(key, operand, ttl))
            case Batch(writes):
                self.model.apply(writes, self.client.write(writes))
            case FlushWal():
                self.make_durable()
            case FlushMemtable():
                self.client.flush_memtable()
            case Compact():
                compact_full(self.client)
            case Reopen(flush_memtable):
                self._reopen(flush_memtable=flush_memtable)

    def _reopen(self, *, flush_memtable: bool) -> None:
        self.make_durable()
        self.client.close(flush=flush_memtable)
        self.client = Client.open(self.location, self.options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.client.__exit__(*error)


def without_keys(rows: Sequence[ScanRow], left_out: set[bytes]) -> list[ScanRow]:
    """The rows of other keys."""
    return [row for row in rows if row.key not in left_out]
