"""A merge in plain Python, row by row: what SlateTable's merge is compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]
Key = tuple[Any, ...]


class Refused(Exception):  # noqa: N818  # it is no failure of a test
    """The merge is not allowed."""


@dataclass(frozen=True)
class Condition:
    """A condition, or a value, as SQL text and as a function of the rows of both sides; None is unknown, or null."""

    sql: str
    holds: Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Clause:
    """A clause: `kind` is that of the builder, `condition` None for all rows.

    Attributes
    ----------
    assigned : SQL and Python of what each column becomes; None for all columns of the source; unused by a delete
    """

    kind: str
    action: str
    condition: Condition | None = None
    assigned: Mapping[str, Condition] | None = None


def merge_in_python(
    target: Mapping[Key, Row],
    source: Sequence[Row],
    condition: Condition,
    clauses: Sequence[Clause],
    keys: Sequence[str],
) -> dict[Key, Row]:
    """Return the target after the merge; raises `Refused` when it is not allowed."""
    result: dict[Key, Row] = {}
    for key, row in target.items():
        pairs = [other for other in source if condition.holds(row, other)]
        result |= _stored(key, row, pairs, clauses, keys)
    inserted: dict[Key, Row] = {}
    for other in source:
        if any(condition.holds(row, other) for row in target.values()):
            continue
        clause = _first(clauses, "notMatched", None, other)
        if clause is None:
            continue
        row = _assign(dict.fromkeys(_columns(target, source)), clause, None, other)
        key = tuple(row[name] for name in keys)
        if key in inserted or key in result:
            raise Refused
        inserted[key] = row
    return result | inserted


def _columns(target: Mapping[Key, Row], source: Sequence[Row]) -> list[str]:
    return list(next(iter([*target.values(), *source])))


def _stored(key: Key, row: Row, pairs: Sequence[Row], clauses: Sequence[Clause], keys: Sequence[str]) -> dict[Key, Row]:
    """Return what becomes of a row that is there."""
    matched = [clause for clause in clauses if clause.kind == "matched"]
    if pairs:
        changes = [(clause, other) for other in pairs if (clause := _first(clauses, "matched", row, other)) is not None]
        sole_delete = len(matched) == 1 and matched[0].action == "delete" and matched[0].condition is None
        if len(changes) > 1 and not sole_delete:
            raise Refused
    else:
        clause = _first(clauses, "notMatchedBySource", row, None)
        changes = [] if clause is None else [(clause, {})]
    if not changes:
        return {key: row}
    clause, other = changes[0]
    if clause.action == "delete":
        return {}
    after = _assign(row, clause, row, other)
    if tuple(after[name] for name in keys) != key:
        raise Refused
    return {key: after}


def _first(clauses: Sequence[Clause], kind: str, row: Row | None, other: Row | None) -> Clause | None:
    for clause in clauses:
        if clause.kind == kind and (clause.condition is None or clause.condition.holds(row, other)):
            return clause
    return None


def _assign(start: Row, clause: Clause, row: Row | None, other: Row) -> dict[str, Any]:
    if clause.assigned is None:
        return {name: other[name] for name in start}
    return {**start, **{name: value.holds(row, other) for name, value in clause.assigned.items()}}
