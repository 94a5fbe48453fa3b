"""Explanations: what a read, change feed, compaction, vacuum, reap or erasure touches and costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Self

from slatespark.errors import OptionError
from slatespark.options.flags import parsing_flags
from slatespark.options.values import parse_flag
from slatespark.slate_store.maintenance import Maintenance
from slatespark.slate_store.reading import Reads
from slatespark.table.retention.reap_arguments import ARGUMENTS as REAP_ARGUMENTS
from slatespark.table.retention.reap_arguments import ReapLimits, parse_reap
from slatespark.units import parse_time_ms

if TYPE_CHECKING:
    from slatespark.slate_store.explanation import Explanation
    from slatespark.table.explain.cost import Requests
    from slatespark.table.explain.explanation import ExplanationFacts
    from slatespark.table.explain.meter import Meter

OPERATIONS: Final = ("read", "changes", "compact", "vacuum", "reap", "erase")
_OF_RUN: Final = ("progress", "runner")  # arguments without which an operation does the same


class Explanations(Reads, Maintenance):
    """Explanations: what a read, change feed, compaction, vacuum, reap or erasure touches and costs."""

    @parsing_flags
    def explain(
        self,
        operation: str = "read",
        *,
        analyze: bool = False,
        prices: Mapping[str, float | str] | str | None = None,
        **options: Any,
    ) -> Explanation:
        """Return what an operation touches, and what it costs: layers, files, splits, requests, bytes, money.

        Without `analyze` nothing is done but to plan. Requests are counted as S3 bills them, on every kind of store.
        What depends on bytes that only the operation reads is given as a range.

        Parameters
        ----------
        operation : `read`, `changes`, `compact`, `vacuum`, `reap` or `erase`
        analyze : run it, for good, and put the measured requests beside the estimated ones; rows are read and dropped
        prices : `get`, `put`, `list` and `delete` for 1,000 requests, `read` and `write` for 10^9 bytes, in any
            currency; or as text: `get=0.0004,put=0.005,list=0.005`
        options : as of a read, of `changes`, or the arguments of `compact`, `vacuum`, `reap` or `erase`; of the last
            one `keys=[key]` names a single key

        Raises
        ------
        OptionError
            When the operation, a price or an option is wrong.
        SlateError
            As the operation.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from slatespark import SlateStore
        >>> store = SlateStore.create("memory://explained", "id BIGINT, name STRING", "id")
        >>> version = store.write(pa.table({"id": [1, 2], "name": ["a", "b"]}))
        >>> found = store.explain(filter="id = 1", prices="get=0.0004,list=0.005")
        >>> found.files, found.splits, found.rows
        (1, 1, None)
        >>> store.explain("read", analyze=True).rows
        2
        """
        # Imported here, as in the methods below: few users of a table explain anything.
        from slatespark.slate_store.explanation import Explanation
        from slatespark.table.explain.cost import PriceList

        if operation not in OPERATIONS:
            raise OptionError(f"operation: {operation!r} is not valid.", todo=f"Choose {', '.join(OPERATIONS)}.")
        if "dryRun" in options:
            raise OptionError("explain takes no dryRun.", todo="Give analyze=True to run the operation.")
        given = PriceList.parse(prices)
        facts = self._explain(operation, options, analyze=analyze)
        return Explanation.of(replace(facts, prices=given))

    def _explain(self, operation: str, options: dict[str, Any], *, analyze: bool) -> ExplanationFacts:
        if operation == "read":
            return self._explain_read(options, analyze=analyze)
        if operation == "changes":
            return self._explain_changes(options, analyze=analyze)
        explain = {
            "compact": self._explain_compaction,
            "vacuum": self._explain_vacuum,
            "reap": self._explain_reap,
            "erase": self._explain_erasure,
        }
        facts = explain[operation](options)
        if not analyze:
            return facts
        again = facts.planning if operation == "vacuum" else explain[operation](options).planning
        return self._run(facts, options, again)

    def _explain_read(self, options: dict[str, Any], *, analyze: bool) -> ExplanationFacts:
        from slatespark.table.explain.read import explain_read

        parsed = self._read_options(options)
        return explain_read(self._stores, parsed, self._clock, analyze=analyze)

    def _explain_changes(self, options: dict[str, Any], *, analyze: bool) -> ExplanationFacts:
        from slatespark.table.explain.changes import explain_changes

        parsed = self._read_options({**options, "readChangeFeed": True})
        return explain_changes(self._stores, parsed, self._clock, analyze=analyze)

    def _explain_compaction(self, options: dict[str, Any]) -> ExplanationFacts:
        from slatespark.table.explain.meter import Meter
        from slatespark.table.explain.upkeep import PreviewRunner, explain_compaction

        meter, runner = Meter.on(self._stores), PreviewRunner()
        plan = self._on(meter).compact(**{**options, "dryRun": True, "runner": runner})
        return explain_compaction(self._stores, plan, runner.tasks, meter.requests)

    def _explain_vacuum(self, options: dict[str, Any]) -> ExplanationFacts:
        from slatespark.table.explain.meter import Meter
        from slatespark.table.explain.upkeep import explain_vacuum

        meter = Meter.on(self._stores)
        plan = self._on(meter).vacuum(**{**options, "dryRun": True})
        return explain_vacuum(self._stores, plan, meter.requests)

    def _explain_reap(self, options: dict[str, Any]) -> ExplanationFacts:
        from slatespark.table.explain.reap import explain_reap

        parse_reap(self._common, self._of_call(_without(options, *REAP_ARGUMENTS, *_OF_RUN)))
        now = options.get("now")
        return explain_reap(
            self._stores,
            self._clock,
            max_batch_bytes=ReapLimits.parse(options.get("maxBatchRows"), options.get("maxBatchBytes")).batch_bytes,
            now_ms=None if now is None else parse_time_ms(now, name="now"),
        )

    def _explain_erasure(self, options: dict[str, Any]) -> ExplanationFacts:
        from slatespark.table.explain.erase import explain_erasure

        parsed = self._erase_options(_without(options, "where", "keys", "releaseVersions", *_OF_RUN))
        chosen = self._chosen("erase", (), options.get("where"), options.get("keys"), parsed)
        release = parse_flag(options.get("releaseVersions", False), "releaseVersions")
        return explain_erasure(self._stores, self._clock, chosen, parsed, release_versions=release)

    def _run(self, facts: ExplanationFacts, options: dict[str, Any], again: Requests) -> ExplanationFacts:
        """Run an operation, and add what it requested, and its report.

        Parameters
        ----------
        again : requests of the plan when it is made once more, as the operation does; what the first plan has put into
            caches is not requested again, but would have been without it
        """
        from slatespark.table.explain.meter import Meter

        meter, began_ms = Meter.on(self._stores), self._clock.now_ms()
        try:
            report = getattr(self._on(meter), facts.operation)(**options)
        finally:
            self._stores.heads.note_created()
        measured, elapsed_ms = facts.planning + meter.requests - again, self._clock.now_ms() - began_ms
        return replace(facts, measured=measured, elapsed_ms=elapsed_ms, report=report)

    def _on(self, meter: Meter) -> Self:
        """Return the same table, with all requests counted."""
        return type(self)(meter.stores, self._clock, self._common)


def _without(options: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in names}
