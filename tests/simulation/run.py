"""One seed from beginning to end, and what is checked when everything is quiet."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from slatespark.format.paths import sst_path
from slatespark.table.log.compactions import fetch_compactions
from slatespark.table.log.manifests import fetch_latest_manifest, fetch_manifest
from tests.faults.actions import to_folder
from tests.faults.jobs import stores_of
from tests.simulation import repertoire
from tests.simulation.actors import Operation
from tests.simulation.base import RETIRED, SEGMENTS
from tests.simulation.chance import Chance
from tests.simulation.faults import Fault
from tests.simulation.history import History
from tests.simulation.log_streams import UNTOLD
from tests.simulation.model import ModelError
from tests.simulation.world import ROOT, World
from tests.support.client import Client, ClientOptions, Location, read_rows

MAX_OPERATIONS: Final = 14
MAX_VACUUMS: Final = 5
CLIENT_KINDS: Final = (*repertoire.KINDS[4:7], repertoire.ALL_COOPERATORS)
TWICE: Final = 0.4  # of the seeds with an idempotent write
CLIENT_SEEDS: Final = 0.35  # of all seeds: a SlateDB client writes beside the others
STREAM_SEEDS: Final = 0.3  # of all that may have one: a stream writes beside the others

# How often a process writes, keeps, collects, reads, is a client, its coordinator, works for that, or is a stream
_WEIGHTS: Final = (
    (6, 2, 1, 3, 0, 0, 0, 0),
    (6, 1, 0, 2, 0, 0, 0, 0),
    (3, 3, 2, 3, 0, 0, 0, 0),
    (4, 0, 1, 4, 0, 0, 0, 0),
    (3, 4, 3, 0, 0, 0, 0, 0),
)
_CLIENT: Final = (1, 0, 0, 1, 8, 0, 0, 0)
_COORDINATOR: Final = (0, 0, 0, 0, 0, 1, 0, 0)
_COOPERATOR: Final = (1, 0, 0, 1, 0, 0, 8, 0)
_STREAM: Final = (1, 0, 0, 1, 0, 0, 0, 8)


@dataclass(frozen=True, slots=True)
class SeedReport:
    """What happened in one seed."""

    seed: int
    steps: int
    commits: int
    faults: Counter[Fault]
    outcomes: Counter[tuple[str, str]]
    history: History


class SeedError(AssertionError):
    """A seed that failed: how to replay it, and the end of its history."""

    def __init__(self, world: World, cause: BaseException) -> None:
        lines = "\n".join(world.history.shortened())
        command = f"python -m tests.simulation --seed {world.seed}"
        super().__init__(f"{lines}\n\nseed {world.seed}: {type(cause).__name__}: {cause}\nTo replay it: {command}")
        self.seed, self.history = world.seed, world.history


def simulate(seed: int, *, client_folder: Path | None = None) -> SeedReport:
    """Run a seed; raises `SeedError`.

    Parameters
    ----------
    client_folder : where a copy is opened by the real client; None leaves that out
    """
    world = World(seed)
    try:
        _populate(world)
        world.run()
        _check_end(world, client_folder)
    except Exception as exc:
        raise SeedError(world, exc) from exc
    finally:
        world.close()
    newest = world.model.newest
    return SeedReport(
        seed, world.scheduler.steps, newest - world.first_version, world.faults.counts, world.outcomes, world.history
    )


def _populate(world: World) -> None:
    rng = world.rng
    actors = rng.randint(2, 6)
    counts = [rng.randint(1, max(1, MAX_OPERATIONS // actors)) for _ in range(actors)]
    weights = [rng.choice(_WEIGHTS) for _ in counts]
    if rng.random() < CLIENT_SEEDS and not world.is_segmented:
        weights[0] = _CLIENT
        if rng.random() < 0.5:
            weights[:4] = [_COORDINATOR, _COOPERATOR, _CLIENT, _COOPERATOR][:actors]
    if world.is_wide and rng.random() < STREAM_SEEDS:
        weights[-1] = _STREAM
    kinds = repertoire.ALL_KINDS if world.is_full else repertoire.KINDS
    everything: list[list[Operation]] = []
    value = 0
    for count, weight in zip(counts, weights, strict=True):
        chosen: list[Operation] = []
        for _ in range(count):
            (kind,) = rng.choices(kinds, weight)
            world.collects = world.collects or kind is repertoire.COLLECTORS
            world.has_clients = world.has_clients or kind in CLIENT_KINDS
            chosen.append(rng.choice(kind)(Chance(rng.getrandbits(64)), str(value)))
            world.has_untold = world.has_untold or chosen[-1].name.startswith(UNTOLD)
            value += 1
        everything.append(chosen)
    once = [each for some in everything for each in some if each.key]
    if once and rng.random() < TWICE:  # two processes at once do the same, as if one had been taken for dead
        rng.choice(everything).append(rng.choice(once))
    for chosen in everything:
        world.start(chosen, delay_ms=rng.choice([0, 0, 50, 2000]))


def _check_end(world: World, client_folder: Path | None) -> None:
    """Check the table when nobody works on it any more."""
    model = world.model
    expected = model.rows
    if model.open:
        raise ModelError(f"{[each.name for each in model.open]} never ended")
    for name, rows in model.pinned.items():
        if world.fresh_rows(checkpoint=name) != rows:
            raise ModelError(f"checkpoint {name} shows {world.fresh_rows(checkpoint=name)}, not {rows}")
    table = world.finish()
    for _ in range(MAX_VACUUMS):  # each may release checkpoints or drop views, in a version that the next one collects
        version = fetch_latest_manifest(stores_of(world.raw)).number
        report = table.vacuum(minAge="0s", force=True, fences=True)
        if not report.collected and report.version == version:
            break
    else:
        raise ModelError(f"vacuum number {MAX_VACUUMS} finds {report.collected}")
    _check_garbage(world)
    _check_clones(world)
    found = world.fresh_rows()
    if found != expected:
        raise ModelError(f"after everything the table shows {found}, not {expected}")
    verified = table.verify()
    if verified.findings:
        raise ModelError(f"verify finds {verified.findings}")
    if client_folder is not None:
        _check_client(world, client_folder)


def _check_clones(world: World) -> None:
    for url, rows in world.clones.items():
        found = world.fresh_rows(at=url.replace(world.server.bucket, f"{world.server.bucket}-raw"))
        if found != rows:
            raise ModelError(f"clone {url} shows {found}, not {rows}")


def _check_garbage(world: World) -> None:
    """Check that a vacuum leaves what the kept versions need, and nothing else."""
    raw = world.raw
    if raw.list("slatespark/loads/"):  # a client may still commit it, and the vacuum keeps all that would tell
        return
    stores = stores_of(raw)
    newest = fetch_latest_manifest(stores)
    kept = {newest.number, *(point.manifest_id for point in newest.value.checkpoints)}
    needed = {sst_path(sst_id) for number in kept for sst_id in fetch_manifest(stores, number).ssts}
    required = set(needed)
    for job in fetch_compactions(stores).value.active_jobs():  # a client's next coordinator may commit what is merged
        needed |= {sst_path(output.id) for output in job.output_ssts}
    present = {meta.path for meta in raw.list("compacted/")}
    if not required <= present <= needed:
        raise ModelError(f"SSTs left over: {sorted(present - needed)}, missing: {sorted(needed - present)}")
    manifests = {int(meta.path.partition("/")[2].partition(".")[0]) for meta in raw.list("manifest/")}
    if manifests != kept:
        raise ModelError(f"manifests {sorted(manifests)} exist, {sorted(kept)} are kept")
    for folder in ("slatespark/leases/", "slatespark/workers/"):
        if left := raw.list(folder):
            raise ModelError(f"left over: {[meta.path for meta in left]}")


def _check_client(world: World, folder: Path) -> None:
    to_folder(world.raw, folder / str(world.seed))
    location = Location.local(folder / str(world.seed) / ROOT)
    expected = world.model.rows
    options = ClientOptions(segments=SEGMENTS if world.is_segmented else None)
    rows = read_rows(location, options=options)
    found = {row.key: row.value for row in rows if row.value != RETIRED}  # it knows no retention
    if found != expected:
        raise ModelError(f"the client reads {found}, not {expected}")
    with Client.open(location, options) as client:
        by_key = {key: client.get(key) for key in expected}
        if by_key != expected:
            raise ModelError(f"the client's look-ups find {by_key}, not {expected}")
