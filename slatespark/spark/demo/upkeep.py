"""The scene about upkeep: a compaction by Spark, with a filter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from slatespark.errors import InternalError
from slatespark.slate_store import SlateStore
from slatespark.spark.demo.tables import DemoEvent, DemoTables
from slatespark.table.compaction.filter import FilterDecisions
from slatespark.texts import align_table
from slatespark.units import bytes_to_text

CARRIER: Final = "FL"
AIRLINE: Final = "AirTran"

_COLUMNS: Final = ["flights", "runs", "rows", "tail numbers", "stored"]
_FILTER: Final = f"""\
class ForgetTails:
    def decide(self, versions):
        theirs = pc.and_(pc.equal(versions["carrier"], "{CARRIER}"), pc.not_equal(versions["_op"], "delete"))
        nothing = pa.nulls(versions.num_rows, pa.string())
        return FilterDecisions(pc.if_else(theirs, "replace", "keep"), values=pa.table({{"tailnum": nothing}}))

flights.compact(full=True, filters=[ForgetTails()])"""


class ForgetTails:
    """Removes the tail numbers of an airline from the rows that a compaction rewrites."""

    def decide(self, versions: pa.RecordBatch) -> FilterDecisions:
        """Return a decision for each version."""
        theirs = pc.and_(pc.equal(versions["carrier"], CARRIER), pc.not_equal(versions["_op"], "delete"))
        nothing = pa.nulls(versions.num_rows, pa.string())
        return FilterDecisions(pc.if_else(theirs, "replace", "keep"), values=pa.table({"tailnum": nothing}))


def compact_flights(tables: DemoTables) -> Iterator[DemoEvent]:
    """Merge all runs of the flights into one and remove values on the way."""
    table = tables.table("flights")
    yield DemoEvent("step", f"Compact: one run instead of several, and a filter that forgets tail numbers of {AIRLINE}")
    yield DemoEvent("code", _FILTER)
    facts = [_facts(tables, "before")]
    report = table.compact(full=True, filters=[ForgetTails()])
    facts.append(_facts(tables, "after"))
    yield DemoEvent("result", align_table(_COLUMNS, facts, right=set(_COLUMNS[1:])))
    done = f"{report.rows_in:,} versions read, {report.rows_out:,} left, {report.filtered:,} changed by the filter."
    yield DemoEvent("result", done)
    if facts[0][2] != facts[1][2] or facts[1][3] != "0":
        raise InternalError("The compaction changed other rows than the filter said.", todo="Report this.")


def _facts(tables: DemoTables, when: str) -> tuple[str, str, str, str, str]:
    store = SlateStore.open(tables.path("flights"))
    rows = store.scan(columns=["carrier", "tailnum"]).read_all()
    named = rows.filter((pc.field("carrier") == CARRIER) & pc.field("tailnum").is_valid()).num_rows
    stored_bytes = sum(file.stored_bytes for file in store.files())
    return when, str(len(store.runs())), f"{rows.num_rows:,}", f"{named:,}", bytes_to_text(stored_bytes)
