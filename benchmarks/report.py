"""Results as an aligned table, and as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any, Final

from benchmarks.harness import Measure, Result, Target

_MEASURES: Final[dict[Measure, str]] = {
    "seconds": "the time",
    "cpu_seconds": "the processor time",
    "peak_bytes": "the peak memory",
    "written_bytes": "the bytes written",
    "stored_bytes": "the bytes on disk",
    "claimed_s": "the claimed phase",
    "put_p99_s": "the client's put latency (p99)",
    "commit_s": "a commit",
    "median_s": "the median batch",
    "write_s": "the write",
}


def print_machine(machine: Mapping[str, Any], *, busy: bool) -> None:
    """Print the line that figures must not be read without."""
    packages = ", ".join(f"{name} {number}" for name, number in machine["packages"].items())
    print(
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}, "
        f"Python {machine['python']}, {packages}; commit {machine['commit']}; load {machine['load']}"
    )
    if busy:
        print("WARNING: the machine is busy; these figures are worth little.")


def print_result(title: str, result: Result) -> None:
    """Print notes, the table and the targets."""
    print(f"\n{title}")
    for note in result.benchmark.notes:
        print(f"  {note}")
    print()
    _print_table(_table(result))
    print()
    for target in result.benchmark.targets:
        print(target_line(target, result))


def _table(result: Result) -> list[list[str]]:
    base = result.benchmark.base
    watched = any(sample.get("peak_bytes") for samples in result.samples.values() for sample in samples)
    several = any(one.work for one in result.benchmark.alternatives)
    extras = ["idle MiB", "peak MiB", "above idle"] if watched else ["time / first" if several else f"time / {base}"]
    table = [["alternative", "rounds", "median s", "min-max s", "rows/s", "cpu s", *extras]]
    for name, samples in result.samples.items():
        if not samples:
            continue
        seconds = result.values(name)
        middle = statistics.median(seconds)
        cpu = result.values(name, "cpu_seconds")
        row = [
            name,
            str(len(seconds)),
            f"{middle:.3f}",
            f"{min(seconds):.3f}-{max(seconds):.3f}",
            f"{samples[0]['rows'] / middle:,.0f}" if "rows" in samples[0] else "",
            f"{statistics.median(cpu):.2f}" if cpu else "",
        ]
        if watched:
            idle, peak = result.median(name, "idle_bytes"), max(result.values(name, "peak_bytes"))
            row += [f"{size / 2**20:,.0f}" for size in (idle, peak, peak - idle)]
        else:
            row.append(f"{middle / result.median(result.base_of(name)):.2f}")
        table.append(row)
    return table


def _print_table(table: list[list[str]]) -> None:
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    for row in table:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        print("  ".join(cells).rstrip())


def target_line(target: Target, result: Result) -> str:
    """Return one sentence on what was aimed at and what was reached."""
    figure, spread = _reached(target, result)
    mark = "met" if _is_met(target, result) else "MISSED"
    if target.within_s is not None:
        span = f"{min(spread):.2g}-{max(spread):.2g} by round"
        what = "" if target.measure == "seconds" else f" as {_MEASURES[target.measure]}"
        said = f"{target.alternative} takes {figure:.2g} s{what} ({span})"
        return f"{mark}: {said}; target: at most {target.within_s:g} s"
    between = f"{min(spread):.2f}-{max(spread):.2f} by round"
    if target.at_least is not None:
        said = f"{target.alternative} is {figure:.1f} times faster than {target.against} ({between})"
        return f"{mark}: {said}; target: at least {target.at_least:g}"
    what = _MEASURES[target.measure]
    said = f"{target.alternative} takes {figure:.2f} times {what} of {target.against} ({between})"
    return f"{mark}: {said}; target: at most {target.at_most:g}"


def _reached(target: Target, result: Result) -> tuple[float, list[float]]:
    """Return the ratio of the medians, and the ratios by round; seconds where the target is in seconds."""
    if target.within_s is not None:
        return result.median(target.alternative, target.measure), result.values(target.alternative, target.measure)
    one, other = (target.against, target.alternative) if target.at_least else (target.alternative, target.against)
    ratio = result.median(one, target.measure) / result.median(other, target.measure)
    return ratio, result.ratios(one, other, target.measure)


def _is_met(target: Target, result: Result) -> bool:
    figure, _ = _reached(target, result)
    if target.at_least is not None:
        return figure >= target.at_least
    if target.within_s is not None:
        return figure <= target.within_s
    return target.at_most is None or figure <= target.at_most


def result_json(name: str, title: str, result: Result, *, rows: int) -> dict[str, Any]:
    """Return everything that was measured."""
    base = result.benchmark.base
    return {
        "name": name,
        "title": title,
        "rows": rows,
        "notes": list(result.benchmark.notes),
        "base": base,
        "alternatives": [
            {
                "name": one,
                "median_s": result.median(one),
                "min_s": min(result.values(one)),
                "max_s": max(result.values(one)),
                "time_ratio": result.median(one) / result.median(result.base_of(one)),
                "samples": samples,
            }
            for one, samples in result.samples.items()
            if samples
        ],
        "targets": [
            {
                "alternative": target.alternative,
                "against": target.against,
                "measure": target.measure,
                "at_least": target.at_least,
                "at_most": target.at_most,
                "within_s": target.within_s,
                "reached": _reached(target, result)[0],
                "met": _is_met(target, result),
            }
            for target in result.benchmark.targets
        ],
    }
