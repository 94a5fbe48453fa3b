"""An explanation of an operation as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal

from slatespark.table.compaction.report import CompactionReport
from slatespark.table.explain.explanation import EraseOutlook, ExplanationFacts, ReapOutlook
from slatespark.table.gc.report import VacuumReport
from slatespark.texts import align_facts, align_table, plural, printable
from slatespark.units import bytes_to_text

MAX_LAYERS = 20  # listed; further ones are counted
MAX_REASONS = 6

_KINDS = {"get": "GET", "put": "PUT", "list": "LIST", "delete": "DELETE"}


def explanation_text(facts: ExplanationFacts) -> str:
    """Return an explanation as facts in two columns, and its costs as a table."""
    header, rows = costs(facts)
    parts = [align_facts(explained_facts(facts)), align_table(header, rows, right=set(header[1:]))]
    if facts.layers:
        parts.append(align_table(("layer", "files", "read"), layers(facts), right={"files", "read"}))
    return "\n\n".join(parts)


def explained_facts(facts: ExplanationFacts) -> Iterator[tuple[str, str]]:
    """Yield names and values."""
    yield "table", facts.url
    yield "operation", facts.operation
    yield "version", "none: there is no table here" if facts.version is None else str(facts.version)
    skipped = sum(facts.skipped.values())
    noun = "object" if facts.operation == "vacuum" else "file"
    yield f"{noun}s", f"{facts.files - skipped:,} of {plural(facts.files, noun)}"
    if skipped:
        yield "skipped", "\n".join(_reasons(facts.skipped))
    if facts.copies:
        yield "copies", "\n".join(_reasons(facts.copies))
    if facts.as_parquet:
        yield "toDF", "\n".join(_reasons(facts.as_parquet))
    if facts.operation in ("read", "changes", "compact"):
        yield "splits", f"{facts.splits:,}"
    if facts.wal_files:
        yield "WAL", f"{plural(facts.wal_files, 'file')}"
    yield from _plan_facts(facts)
    if facts.rows is not None:
        yield "rows", f"{facts.rows:,}"
    if facts.elapsed_ms is not None:
        yield "time", f"{facts.elapsed_ms:,} ms"


def _reasons(counts: Mapping[str, int]) -> Iterator[str]:
    reasons = list(counts.items())
    for reason, count in reasons[:MAX_REASONS]:
        yield f"{count:,} {printable(reason)}"
    if len(reasons) > MAX_REASONS:
        yield f"{sum(count for _, count in reasons[MAX_REASONS:]):,} for other reasons"


def _plan_facts(facts: ExplanationFacts) -> Iterator[tuple[str, str]]:
    plan = facts.plan
    if isinstance(plan, CompactionReport):
        jobs = [f"{job.kind} of {plural(job.files_in, 'file')}, {bytes_to_text(job.bytes_in)}" for job in plan.jobs]
        yield "merges", "\n".join(jobs) or "nothing"
    elif isinstance(plan, VacuumReport):
        yield "deletes", f"{plural(len(plan.collected), 'object')}, {bytes_to_text(plan.bytes)}"
    elif isinstance(plan, ReapOutlook):
        if plan.retired_ms is None:
            yield "due", "nothing: no row can be past retention"
            return
        yield "dropped", f"{plural(plan.dropped_files, 'file')}, {bytes_to_text(plan.dropped_bytes)}"
        yield "looked through", f"{plural(plan.examined_files, 'file')}, {bytes_to_text(plan.examined_bytes)}"
    elif isinstance(plan, EraseOutlook):
        yield "rewritten", f"{plural(plan.files, 'file')}, {bytes_to_text(plan.bytes)}"
        if plan.wal_rows:
            yield "in the WAL", plural(plan.wal_rows, "row version")
        yield (
            "copies",
            f"{plural(plan.rows, 'row version')}; {plural(plan.copies, 'object')} with rows or names of the keys",
        )


def layers(facts: ExplanationFacts) -> Iterator[tuple[str, str, str]]:
    """Yield name, number of files, and number of used files of each layer."""
    for layer in facts.layers[:MAX_LAYERS]:
        yield layer.name, f"{layer.files:,}", f"{layer.used:,}"
    rest = facts.layers[MAX_LAYERS:]
    if rest:
        files, used = sum(layer.files for layer in rest), sum(layer.used for layer in rest)
        yield f"and {plural(len(rest), 'older layer')}", f"{files:,}", f"{used:,}"


def costs(facts: ExplanationFacts) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return a header, and a row for each kind of cost: estimated, of which for the plan, measured."""
    low, high = facts.estimated.low, facts.estimated.high
    rows: list[tuple[str, ...]] = []

    def add(name: str, field: str, text: Callable[[int], str]) -> None:
        known = "" if facts.measured is None else text(getattr(facts.measured, field))
        planned = text(getattr(facts.planning, field))
        rows.append((name, _span(text(getattr(low, field)), text(getattr(high, field))), planned, known))

    for field, name in _KINDS.items():
        add(name, field, lambda number: f"{number:,}")
    add("received", "read_bytes", bytes_to_text)
    add("sent", "written_bytes", bytes_to_text)
    if facts.prices is not None and facts.estimated_cost is not None:
        planned, measured = facts.prices.cost(facts.planning), facts.measured_cost
        span = _span(*map(_price, facts.estimated_cost))
        rows.append(("price", span, _price(planned), "" if measured is None else _price(measured)))
    header = ("", "estimated", "of it to plan", "measured")
    if facts.measured is None:
        return header[:3], [row[:3] for row in rows]
    return header, rows


def _span(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


def _price(price: float) -> str:
    return f"{Decimal(f'{price:.3g}'):f}"  # never as a power of ten
