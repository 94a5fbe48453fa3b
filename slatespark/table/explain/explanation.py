"""ExplanationFacts: what an operation touches and costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field

from slatespark.storage.requests import Requests
from slatespark.table.compaction.report import CompactionReport
from slatespark.table.explain.cost import PriceList, RequestRange
from slatespark.table.gc.absence_report import AbsenceReport
from slatespark.table.gc.report import VacuumReport
from slatespark.table.read.planning.layers import distinct_files
from slatespark.table.read.planning.plan import Layer, SstFile
from slatespark.table.retention.reap_report import ReapReport


@dataclass(frozen=True, slots=True)
class LayerUse:
    """What an operation uses of a layer.

    Attributes
    ----------
    name : `L0`, or `run 7`
    files : how many the layer has
    used : files of them that are read, at least in part
    """

    name: str
    files: int
    used: int

    @classmethod
    def of(cls, name: str, layers: Iterable[Layer], used: Set[SstFile]) -> LayerUse:
        """Return how many files of some layers, called `name` together, are among those used; a file counts once."""
        files = frozenset(distinct_files(layers))
        return cls(name, len(files), len(files & used))


def layer_uses(layers: Iterable[Layer], used: Set[SstFile]) -> tuple[LayerUse, ...]:
    """Return how many files of each layer are among those used."""
    return tuple(LayerUse.of(layer.name, [layer], used) for layer in layers)


@dataclass(frozen=True, slots=True)
class ReapOutlook:
    """What a reap would find.

    Attributes
    ----------
    version : the newest version of the table
    now_ms : the instant at which retention is evaluated
    retention_ms : the table's; None if it keeps rows forever
    retired_ms : rows created at or before it are due; None if no row is
    dropped_files, dropped_bytes : files that go without being read, and the stored bytes of their rows
    examined_files, examined_bytes : files that may hold due rows beside others: rewritten, or searched for them
    """

    version: int
    now_ms: int
    retention_ms: int | None
    retired_ms: int | None
    dropped_files: int = 0
    dropped_bytes: int = 0
    examined_files: int = 0
    examined_bytes: int = 0


@dataclass(frozen=True, slots=True)
class EraseOutlook:
    """What an erasure would find.

    Attributes
    ----------
    version : the newest version of the table
    files, bytes : how many files of the newest version would be rewritten, and the stored bytes of their rows
    wal_rows : row versions that are only in the WAL
    copies : objects that hold or name the keys now, those of other versions included
    rows : row versions in them
    """

    version: int
    files: int
    bytes: int
    wal_rows: int
    copies: int
    rows: int


@dataclass(frozen=True, slots=True)
class ExplanationFacts:
    """What an operation touches, and what it costs.

    Attributes
    ----------
    operation : `read`, `changes`, `compact`, `vacuum`, `reap` or `erase`
    version : the version that it works on; None where there is no table
    layers : newest first
    files : considered
    skipped : how many of them need not be read, by reason
    copies : for a read that may use columnar copies, how many files of the lowest runs are read from them, and how many
        are not, by reason
    as_parquet : for `SlateTable.toDF`, how many files of the lowest runs Spark's own reader takes, and how many it does
        not, by reason
    splits : parts that are worked on independently, at most
    wal_files : files of the WAL that are read
    estimated : all requests, those for the plan included
    planning : those of them that were made to get the plan
    measured : the requests that it made, as if nothing had been explained before; None if it was not run
    rows : number of rows that a read returned; None if it was not run
    elapsed_ms : duration of the call in ms; None if it was not run
    prices : prices of requests; None if not given
    plan : the dry run of a compaction or vacuum, or the outlook of a reap or an erasure
    report : the report of a compaction, vacuum, reap or erasure that was run
    """

    url: str
    operation: str
    version: int | None
    estimated: RequestRange
    planning: Requests
    layers: tuple[LayerUse, ...] = ()
    files: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    copies: Mapping[str, int] = field(default_factory=dict)
    as_parquet: Mapping[str, int] = field(default_factory=dict)
    splits: int = 0
    wal_files: int = 0
    measured: Requests | None = None
    rows: int | None = None
    elapsed_ms: int | None = None
    prices: PriceList | None = None
    plan: CompactionReport | VacuumReport | ReapOutlook | EraseOutlook | None = None
    report: CompactionReport | VacuumReport | ReapReport | AbsenceReport | None = None

    @property
    def estimated_cost(self) -> tuple[float, float] | None:
        """The least and the highest price; None without prices."""
        if self.prices is None:
            return None
        return self.prices.cost(self.estimated.low), self.prices.cost(self.estimated.high)

    @property
    def measured_cost(self) -> float | None:
        """The price of what was measured; None without prices, or if it was not run."""
        return None if self.prices is None or self.measured is None else self.prices.cost(self.measured)
