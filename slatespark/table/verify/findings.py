"""Findings of a verification, one per fault, and the report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from slatespark.errors import CorruptDataError, SlateError, SnapshotExpiredError
from slatespark.shown import Shown

MAX_FINDINGS: Final = 10_000  # further ones are only counted
MAX_KEY_BYTES: Final = 64  # of a key in a message


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault.

    Attributes
    ----------
    object : URL of the object
    section : the part of it: `manifest`, `index`, `block 7`, ...
    offset : byte at which the part starts, or at which the fault was noticed; None if there is no such byte
    what : the fact
    is_damage : False if nothing is known to be wrong, but something could not be checked
    """

    object: str
    section: str
    offset: int | None
    what: str
    is_damage: bool = True


@dataclass(frozen=True, slots=True)
class EmptyView:
    """A view that shows no row.

    Attributes
    ----------
    file : id of the SST
    start, end : keys [start, end)
    """

    file: str
    start: bytes
    end: bytes | None


@dataclass(frozen=True, slots=True, repr=False)
class VerifyReport(Shown):
    """Outcome of a verification.

    Attributes
    ----------
    url : of the table
    versions : manifest ids that were checked, ascending
    incomplete_versions : older versions that cannot be read any more: the collector was free to delete their files
    objects, stored_bytes, rows : read: objects of every kind, their bytes, row versions
    wal_rows : of the rows, those in the WAL, where a client's files stay for a while after their rows are in the trees:
        such rows count twice
    findings : in the order of discovery
    empty_views : of the newest version: views that show no row, which only keep files from being collected. That is no
        damage: the next commit or vacuum of ours removes them
    omitted : findings beyond the first `MAX_FINDINGS`
    """

    url: str
    versions: tuple[int, ...]
    incomplete_versions: tuple[int, ...]
    objects: int
    stored_bytes: int
    rows: int
    findings: tuple[Finding, ...]
    omitted: int = 0
    empty_views: tuple[EmptyView, ...] = ()
    wal_rows: int = 0

    @property
    def has_damage(self) -> bool:
        """Whether anything is known to be wrong."""
        return self.omitted > 0 or any(finding.is_damage for finding in self.findings)

    @property
    def is_complete(self) -> bool:
        """Whether everything could be checked."""
        return all(finding.is_damage for finding in self.findings)


@dataclass(slots=True)
class Findings:
    """Collects findings, and counts what was read."""

    items: list[Finding] = field(default_factory=list)
    omitted: int = 0
    objects: int = 0
    stored_bytes: int = 0
    rows: int = 0
    wal_rows: int = 0

    def take(self, other: Findings) -> None:
        """Add what another one has collected."""
        for finding in other.items:
            self.add(finding)
        self.omitted += other.omitted
        self.objects += other.objects
        self.stored_bytes += other.stored_bytes
        self.rows += other.rows
        self.wal_rows += other.wal_rows

    def count(self, stored_bytes: int) -> None:
        """Count an object that was read."""
        self.objects += 1
        self.stored_bytes += stored_bytes

    def add(self, finding: Finding) -> None:
        """Note a finding."""
        if len(self.items) < MAX_FINDINGS:
            self.items.append(finding)
        else:
            self.omitted += 1

    def damage(self, url: str, section: str, what: str, offset: int | None = None) -> None:
        """Note a fault."""
        self.add(Finding(url, section, offset, what))

    def unchecked(self, url: str, section: str, what: str) -> None:
        """Note that something could not be checked."""
        self.add(Finding(url, section, None, what, is_damage=False))

    @contextmanager
    def noting(self, url: str, section: str) -> Iterator[None]:
        """Note the error that ends a block which reads files again whose bytes were checked: they may be gone now."""
        try:
            yield
        except CorruptDataError as exc:
            self.error(url, section, exc)
        except SnapshotExpiredError as exc:
            what = f"{exc.args[0]} It was garbage-collected during the verification: run it again."
            self.unchecked(url, section, what)

    def error(self, url: str, section: str, error: SlateError, base: int | None = None) -> None:
        """Note an error: damaged bytes are a fault, anything else could not be checked.

        Parameters
        ----------
        base : offset in the object of the examined bytes; the offset of an error that names an object counts from the
            start of the object
        """
        what = " ".join(part for part in (str(error.args[0]), error.why) if part)
        if isinstance(error, CorruptDataError):
            start = 0 if error.path else base
            offset = base if error.offset is None else error.offset + (start or 0)
            self.damage(url, section, what, offset)
        else:
            self.unchecked(url, section, what)


def key_text(key: bytes | None) -> str:
    """Return a key for a message: hexadecimal, and cut where it is long."""
    if key is None:
        return "nothing"
    return key.hex() if len(key) <= MAX_KEY_BYTES else f"{key[:MAX_KEY_BYTES].hex()}... ({len(key)} bytes)"
