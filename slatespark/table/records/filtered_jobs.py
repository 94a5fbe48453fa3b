"""Filtered jobs: compactions and loads that may remove rows which reads show, and that a live client commits.

A slatespark commit names in its claim the keys of which it takes rows away. A client's version tells nothing of the
kind. So such a job is recorded before its hand-over, for transactions that have read a row of it. Nothing has to be
done when its fate is known: without the commit the record means nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Final

from slatespark.errors import CorruptDataError
from slatespark.format.ulid import Ulid
from slatespark.ranges import KeyRange, prefix_range
from slatespark.storage import ObjectStore, run_in_groups
from slatespark.table.records.json_objects import JSON_SUFFIX, ROOT, encode_json, find_checked, with_checksum

FILTERED_DIR: Final = f"{ROOT}filtered/"


@dataclass(frozen=True, slots=True)
class FilteredJob:
    """A compaction or a load that may remove visible rows, if a client's coordinator commits it.

    Attributes
    ----------
    job_id : id of the job in `.compactions`
    segment : the prefix of its tree in hexadecimal; empty without segments
    sources, outputs : ids of the files that it reads and writes
    """

    job_id: str
    segment: str
    sources: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def keys(self) -> KeyRange:
        """The keys of which it may remove rows."""
        return prefix_range(bytes.fromhex(self.segment))

    def is_committed_by(self, added: Iterable[Ulid], gone: Iterable[Ulid]) -> bool:
        """Tell whether a version may be its commit; where it left no row, only the sources tell.

        Parameters
        ----------
        added, gone : the files that the version has and the one before had not, and the other way round
        """
        told, changed = (self.outputs, added) if self.outputs else (self.sources, gone)
        return not set(told).isdisjoint(map(str, changed))


def publish_filtered_job(store: ObjectStore, job: FilteredJob, nonce: int) -> None:
    """Record a job, before it is handed over.

    Parameters
    ----------
    nonce : a random number, since a job may be done again
    """
    store.create(f"{FILTERED_DIR}{job.job_id}-{nonce:016x}{JSON_SUFFIX}", encode_json(with_checksum(asdict(job))))


def fetch_filtered_jobs(store: ObjectStore, known: dict[str, FilteredJob]) -> list[FilteredJob | None]:
    """Return the recorded jobs, with None for each damaged record; mostly there are none.

    Parameters
    ----------
    known : jobs that were read before, by path; each is read only once, and is added
    """
    paths = [meta.path for meta in store.list(FILTERED_DIR) if meta.path.endswith(JSON_SUFFIX)]

    def find_damage(path: str) -> bool:
        """Add a job to the known ones; True if its record is damaged."""
        try:
            if (job := fetch_filtered_job(store, path)) is not None:
                known[path] = job
        except CorruptDataError:
            return True
        return False

    new = [path for path in paths if path not in known]
    damaged = [path for path, is_damaged in run_in_groups(find_damage, new, is_remote=store.is_remote) if is_damaged]
    return [*(known[path] for path in paths if path in known), *(None for _ in damaged)]


def job_id_in(path: str) -> str:
    """Return the id of the job that is recorded at a path."""
    return path.removeprefix(FILTERED_DIR).partition("-")[0]


def fetch_filtered_job(store: ObjectStore, path: str) -> FilteredJob | None:
    """Return the job that is recorded there; None if the record was deleted meanwhile.

    Raises
    ------
    CorruptDataError
        When the record is damaged.
    """
    content = find_checked(store, path, "record of a filtered job")
    if content is None:
        return None
    try:
        bytes.fromhex(content["segment"])
        return FilteredJob(
            job_id=content["job_id"],
            segment=content["segment"],
            sources=tuple(content["sources"]),
            outputs=tuple(content["outputs"]),
        )
    except (KeyError, TypeError, ValueError) as exc:
        raise CorruptDataError(f"record of a filtered job is malformed: {exc!r}.", path=path) from exc
