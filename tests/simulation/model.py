"""What the table must show: at each manifest that appears, either what it showed, or what its author was about to do.

A commit takes effect when its manifest appears. So at that moment the rows that a fresh reader finds are compared with
those before, and with what the operation under way makes of them. Nothing else may ever change them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Rows: TypeAlias = Mapping[bytes, bytes]
Change: TypeAlias = Callable[[Rows], Rows]


class ModelError(AssertionError):
    """The table shows what it must not, or lacks what it must have."""


def unchanged(rows: Rows) -> Rows:
    """What maintenance does to the rows."""
    return rows


@dataclass(eq=False, slots=True)
class Doing:
    """An operation under way, or one that ended.

    Attributes
    ----------
    change : what it makes of the rows
    applied : what showed its effect first; operations with the same `key` (attempts of one idempotent write) share
        the count
    begun : the moment of its beginning
    is_shared : another process may commit it, also after this one has ended
    is_refused : it was, so it must not take effect any more
    was_idle : at some moment it would have changed nothing, as it does nothing or newer rows hide what it writes, so
        that it may have had no effect
    """

    name: str
    change: Change
    applied: str | None = None
    was_idle: bool = False
    key: str = ""
    begun: int = 0
    is_shared: bool = False
    is_refused: bool = False


@dataclass(eq=False, slots=True)
class TableModel:
    """The versions of one table.

    Attributes
    ----------
    moments : what the newest state showed, one after the other; each new manifest and WAL file makes one
    kept : what each version shows later on, with the part of the WAL that it names
    newest : the newest version
    open, shared : operations under way; those that others may commit
    pinned : named checkpoints that were acknowledged and not deleted, and what each shows
    once : what showed the effect of each idempotent write
    """

    moments: list[Rows]
    kept: dict[int, Rows]
    newest: int
    open: list[Doing] = field(default_factory=list)
    shared: list[Doing] = field(default_factory=list)
    pinned: dict[str, Rows] = field(default_factory=dict)
    once: dict[str, str] = field(default_factory=dict)

    @property
    def rows(self) -> Rows:
        """What the newest state shows."""
        return self.moments[-1]

    @property
    def moment(self) -> int:
        """The present."""
        return len(self.moments) - 1

    def since(self, first: int) -> list[Rows]:
        """Return what there was to see since a moment."""
        return self.moments[first:]

    def begin(self, doing: Doing) -> None:
        """Note that an operation begins."""
        doing.begun = self.moment
        self.open.append(doing)
        if doing.is_shared:
            self.shared.append(doing)
        self._look(doing)

    def end(self, doing: Doing) -> None:
        """Note that an operation has ended, however."""
        self.open.remove(doing)

    def add(self, version: int, doing: Doing | None, found: Rows, kept: Rows) -> None:
        """Check a version that has appeared; raises `ModelError`."""
        if version != self.newest + 1:
            raise ModelError(f"version {version} follows version {self.newest}")
        self.kept[version], self.newest = kept, version
        self.add_moment(f"version {version}", doing, found)

    def add_moment(self, what: str, doing: Doing | None, found: Rows) -> None:
        """Check what is to be seen after something has appeared; raises `ModelError`."""
        before = self.rows
        doing = self._author(doing, before, found)
        if found != before:
            if doing is None or not self._explains(doing, before, found):
                wanted = f", which makes\n  {dict(doing.change(before))}" if doing is not None else ""
                name = "nobody" if doing is None else doing.name
                raise ModelError(f"{what} by {name} shows\n  {dict(found)}, after\n  {dict(before)}{wanted}")
            earlier = self.once.get(doing.key) if doing.key else doing.applied
            if earlier is not None:
                raise ModelError(f"{doing.name} took effect twice: in {earlier}, and in {what}")
            doing.applied = what
            if doing.key:
                self.once[doing.key] = what
        self.moments.append(found)
        for each in self.open:
            self._look(each)

    def check_done(self, doing: Doing) -> None:
        """Check an operation that was acknowledged."""
        if doing.applied is None and doing.key not in self.once and not doing.was_idle:
            raise ModelError(f"{doing.name} was acknowledged, and had no effect")

    def check_refused(self, doing: Doing, error: BaseException) -> None:
        """Check an operation that was refused."""
        doing.is_refused = True
        if doing.applied is not None:
            raise ModelError(f"{doing.name} was refused, but {doing.applied} shows it: {error}") from error

    def check_read(self, what: str, found: Rows, first: int) -> None:
        """Check what a reader found that began at a moment."""
        if found not in self.since(first):
            shown = "\n".join(f"  {dict(rows)}" for rows in self.since(first))
            raise ModelError(f"{what} found\n  {dict(found)}, while there was\n{shown}")

    def _author(self, doing: Doing | None, before: Rows, found: Rows) -> Doing | None:
        """Return whose effect it is: that of the process which did it, or of one that asked it to."""
        if found == before or (doing is not None and self._explains(doing, before, found)):
            return doing
        waiting = (each for each in self.shared if each.applied is None and not each.is_refused)
        return next((each for each in waiting if self._explains(each, before, found)), doing)

    def _explains(self, doing: Doing, before: Rows, found: Rows) -> bool:
        """Tell whether an operation makes one state of the other.

        Rows that are handed over count as older than all that was written since, so newer ones of their keys stay, and
        newer operands fold onto them.
        """
        expected = doing.change(before)
        if found == expected or not doing.is_shared:
            return found == expected
        differing = {key for key in {*found, *expected} if found.get(key) != expected.get(key)}
        return all(self._is_below(doing, key, before.get(key), found.get(key), expected.get(key)) for key in differing)

    def _is_below(
        self, doing: Doing, key: bytes, before: bytes | None, found: bytes | None, loaded: bytes | None
    ) -> bool:
        """Tell whether a row is that of a load, below what was written to its key since the load began."""
        values = {rows.get(key) for rows in self.since(doing.begun)}
        if found == before:
            return len(values) > 1
        operands = ((before or b"").removeprefix(value or b"") for value in values - {before})
        return found in {(loaded or b"") + each for each in operands if each != before or None in values}

    def _look(self, doing: Doing) -> None:
        doing.was_idle = doing.was_idle or self._explains(doing, self.rows, self.rows)
