"""Dropping a table: who may still need it, and which of its objects go. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from slatespark.format.manifest import Checkpoint, Manifest
from slatespark.shown import Shown
from slatespark.storage import ObjectMeta
from slatespark.table.checkpoints.store import COPY_NAME, PIN_NAME, CheckpointFacts, checkpoint_facts
from slatespark.table.commit.idempotence import is_outcome
from slatespark.table.commit.own_names import is_own
from slatespark.table.commit.version_retention import UNDO_NAMES, is_retained
from slatespark.table.write.clone import CLONE_NAMES
from slatespark.table.write.restore import HOLD_NAMES
from slatespark.units import ms_to_text

MANIFESTS: Final = "manifest"
COLUMNS: Final = "columns"  # columnar copies
METADATA: Final = "metadata"  # the rest of what slatespark keeps below slatespark/


@dataclass(frozen=True, slots=True)
class DropBlocker:
    """Somebody who may still need a table.

    Attributes
    ----------
    kind : `clone`, `checkpoint`, `job` or `client`
    name : checkpoint, by name or id; write id of a job; id of a compaction; epoch of a client
    text : who it is, and until when
    is_firm : whether `force` goes on all the same: False where a table of somebody else would lose its files
    """

    kind: str
    name: str
    text: str
    is_firm: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class DropReport(Shown):
    """The result of a drop, or its plan.

    Attributes
    ----------
    version : the newest one; None if an earlier drop has removed it
    dry_run : whether nothing was changed
    objects : number of deleted objects by kind: `manifest`, `compactions`, `sst`, `wal`, `boundary`, `unfinished`,
        `columns`, `metadata`
    stored_bytes : their total size
    released : the tables of which a clone was dropped, and which no longer keep its files
    kept : objects in its folders, and below `slatespark/`, that are not the table's
    blockers : who may still need it
    """

    url: str
    version: int | None
    dry_run: bool
    objects: Mapping[str, int] = field(default_factory=dict)
    stored_bytes: int = 0
    released: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    blockers: tuple[DropBlocker, ...] = ()


def judge_checkpoints(manifest: Manifest, now_ms: int) -> Iterator[DropBlocker]:
    """Yield those who hold a table by a checkpoint; not expired ones, nor those that its own commits made."""
    for point in manifest.checkpoints:
        facts = checkpoint_facts(point)
        if facts.expires_ms is not None and facts.expires_ms <= now_ms:
            continue
        if not _is_of_a_commit(point):
            yield _blocker(facts)


def _is_of_a_commit(point: Checkpoint) -> bool:
    name = point.name or ""
    return is_outcome(point) or is_retained(name) or name.startswith((UNDO_NAMES, HOLD_NAMES))


def _blocker(facts: CheckpointFacts) -> DropBlocker:
    name = facts.name or facts.id
    until = "forever" if facts.expires_ms is None else f"until {ms_to_text(facts.expires_ms)}"
    if facts.name is not None and facts.name.startswith(CLONE_NAMES):
        clone = facts.name.removeprefix(CLONE_NAMES)
        return DropBlocker("clone", name, f"the clone {clone} reads its files (checkpoint {name})", is_firm=True)
    if facts.name is None and facts.expires_ms is None:
        text = f"a clone that a SlateDB client made may read its files (checkpoint {name} without a name)"
        return DropBlocker("clone", name, text, is_firm=True)
    if facts.name is None:
        return DropBlocker("checkpoint", name, f"a reader of a SlateDB client keeps version {facts.version} {until}")
    held = {PIN_NAME: "a read", COPY_NAME: "a copy"}.get(facts.name, f"checkpoint {facts.name}")
    return DropBlocker("checkpoint", name, f"{held} keeps version {facts.version} {until}")


# --- objects --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TableObjects:
    """The objects of a folder: those of the table, and others."""

    own: tuple[ObjectMeta, ...]
    foreign: tuple[ObjectMeta, ...]


def split_own(listed: Iterable[ObjectMeta]) -> TableObjects:
    """Tell the objects of a table from others, by their names."""
    own: list[ObjectMeta] = []
    foreign: list[ObjectMeta] = []
    for meta in listed:
        (own if is_own(meta.path) else foreign).append(meta)
    return TableObjects(tuple(own), tuple(foreign))
