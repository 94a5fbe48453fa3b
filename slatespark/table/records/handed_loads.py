"""Handed loads: writes that were, or are about to be, handed to a live client's coordinator, which commits them.

The record exists before the hand-over, and is deleted once the commit record exists. So whoever finds one learns of a
load of which nobody has told yet whether it was committed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from slatespark.errors import CorruptDataError
from slatespark.storage import ObjectStore
from slatespark.table.records.commit_record import CommitRecord, commit_of
from slatespark.table.records.json_objects import (
    JSON_SUFFIX,
    ROOT,
    check_types,
    encode_json,
    find_checked,
    with_checksum,
)

HANDED_LOADS_DIR: Final = f"{ROOT}loads/"

_PART_KINDS: Final = {
    "job_id": str,
    "segment": str,
    "destination": int,
    "l0_views": list,
    "run_files": list,
    "outputs": list,
}


@dataclass(frozen=True, slots=True)
class HandedPart:
    """The part of a load that one tree takes.

    Attributes
    ----------
    job_id : the id of its job in `.compactions`
    segment : the prefix of the tree in hexadecimal; empty without segments
    destination : the run that it becomes
    l0_views, run_files : ids of the L0 views that it replaces, or of the files of the run of that number
    outputs : ids of its files, in key order
    """

    job_id: str
    segment: str
    destination: int
    l0_views: tuple[str, ...]
    run_files: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HandedLoad:
    """A load that a client's coordinator may commit.

    Attributes
    ----------
    base : the version that it was merged with; only later ones can show it
    parts : one for each tree, committed in one version
    app, version : the pair of an idempotent write, else None
    record : the record of its commit, but for the version and its time
    """

    base: int
    parts: tuple[HandedPart, ...]
    app: str | None
    version: int | None
    record: CommitRecord

    @property
    def path(self) -> str:
        """Where it is recorded."""
        return f"{HANDED_LOADS_DIR}{self.base:020d}-{self.parts[0].job_id}{JSON_SUFFIX}"

    @property
    def outputs(self) -> frozenset[str]:
        """The ids of its files."""
        return frozenset(output for part in self.parts for output in part.outputs)


def publish_handed_load(store: ObjectStore, load: HandedLoad) -> None:
    """Record a load, before it is handed over."""
    store.create(load.path, encode_json(with_checksum(asdict(load))))


def delete_handed_load(store: ObjectStore, load: HandedLoad) -> None:
    """Delete the record of a load whose fate is recorded, or that was not committed."""
    store.delete(load.path)


def fetch_handed_loads(store: ObjectStore) -> list[HandedLoad]:
    """Return the loads of which the fate is not recorded, oldest first; mostly there are none.

    Raises
    ------
    CorruptDataError
        When a record is damaged.
    """
    paths = sorted(meta.path for meta in store.list(HANDED_LOADS_DIR) if meta.path.endswith(JSON_SUFFIX))
    return [load for path in paths if (load := fetch_handed_load(store, path)) is not None]


def fetch_handed_load(store: ObjectStore, path: str) -> HandedLoad | None:
    """Return the load that is recorded there; None if the record was deleted meanwhile.

    Raises
    ------
    CorruptDataError
        When the record is damaged.
    """
    content = find_checked(store, path, "record of a load")
    if content is None:
        return None
    kinds = {"base": int, "parts": list, "record": dict, **_pair_kinds(content)}
    check_types(content, kinds, "record of a load", path)
    if not content["parts"]:
        raise CorruptDataError("record of a load has no part.", path=path)
    try:
        for part in content["parts"]:
            check_types(part, _PART_KINDS, "part of a load", path)
        return HandedLoad(
            base=content["base"],
            parts=tuple(map(_part_of, content["parts"])),
            app=content["app"],
            version=content["version"],
            record=commit_of(path, content["record"]),
        )
    except (KeyError, TypeError, AttributeError) as exc:
        raise CorruptDataError(f"record of a load is malformed: {exc!r}.", path=path) from exc


def _pair_kinds(content: dict[str, Any]) -> dict[str, type]:
    """Return the types of the pair of an idempotent write, which both have, or none."""
    has_pair = content.get("app") is not None or content.get("version") is not None
    return {"app": str, "version": int} if has_pair else {}


def _part_of(content: dict[str, Any]) -> HandedPart:
    return HandedPart(
        job_id=content["job_id"],
        segment=content["segment"],
        destination=content["destination"],
        l0_views=tuple(content["l0_views"]),
        run_files=tuple(content["run_files"]),
        outputs=tuple(content["outputs"]),
    )
