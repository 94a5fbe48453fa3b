"""Where each command is, and what `slatespark --help` says of it, in the order of that list.

The lines repeat the first paragraph of each command's own help (a test compares them), so that the list imports none of
the commands: they need pyarrow and most of this package.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A command or group of commands: its module in `commands`, and its help."""

    module: str
    help: str
    hidden: bool = False  # an alias


COMMANDS: Final[dict[str, CommandLine]] = {
    "describe": CommandLine(
        "inspect", "Describe a table: columns, properties, version, layers, files, WAL, checkpoints."
    ),
    "history": CommandLine("inspect", "List the versions of a table, newest first: time, writer and operation."),
    "files": CommandLine("inspect", "List the files of a table, layer by layer, newest first."),
    "timeline": CommandLine(
        "inspect",
        "Show, for each interval of keys, which files are visible or overshadowed, and since which version.",
    ),
    "expiry": CommandLine(
        "inspect", "Show how much of the stored data has expired, and how much expires in each hour or day, or never."
    ),
    "dump": CommandLine(
        "dump",
        "Show the contents of one object of a table, and verify them: a manifest, .compactions file, WAL file or SST.",
    ),
    "get-timestamp-for-seq": CommandLine(
        "sequence", "Print when a sequence number was reached; exit code 1 if it is unknown. Alias: seq-to-ts."
    ),
    "get-seq-for-timestamp": CommandLine(
        "sequence",
        "Print the sequence number reached at an instant; exit code 1 if it is unknown. Alias: ts-to-seq.",
    ),
    "create": CommandLine(
        "definition",
        "Create an empty table; without --columns and --key-columns a raw one of keys and values.",
    ),
    "set-properties": CommandLine("definition", "Set table properties; others stay as they are. Prints all of them."),
    "drop-columns": CommandLine(
        "definition",
        "Drop columns of a typed table for good: their names cannot be used again, since stored rows keep the values.",
    ),
    "set-history-floor": CommandLine(
        "definition",
        "Give up the past of a history table below an instant, so that compactions may drop it. It cannot be lowered.",
    ),
    "scan": CommandLine("read", "Print rows in key order; with --json, one JSON object per line."),
    "versions": CommandLine(
        "read",
        "Print every version of each row of a history table, and when it was valid; the newest one of a key first.",
    ),
    "changes": CommandLine(
        "read",
        "Print what changed between two versions, in key order; with --json, one JSON object per line.",
    ),
    "get": CommandLine("read", "Print the row of one key; the exit code is 1 if there is none."),
    "put": CommandLine("write", "Insert rows, or replace those with the same keys, in one commit."),
    "update": CommandLine("update", "Set columns of the rows that match, in one commit."),
    "delete": CommandLine("write", "Delete the row of one key, or with --where all rows that match."),
    "import": CommandLine(
        "transfer",
        "Write the rows of Parquet, CSV or JSON lines files to a table in one commit; creates the table if needed.",
    ),
    "ingest": CommandLine(
        "ingest",
        "Publish sorted files made by SstWriter in one commit; their rows become the newest of their keys.",
    ),
    "export": CommandLine("transfer", "Write the rows of a table, in key order, to a Parquet, CSV or JSON lines file."),
    "restore": CommandLine("version", "Make an earlier version the newest one, in one commit that can be undone."),
    "trim": CommandLine(
        "version",
        "Remove the row versions of a history table created after an instant, in one commit that can be undone.",
    ),
    "clone": CommandLine(
        "version", "Make a shallow clone: a separate table that initially shares the files of this one."
    ),
    "copy-to": CommandLine(
        "version",
        "Copy a table, with all of its files, to another place; the copy does not depend on the original.",
    ),
    "compact": CommandLine(
        "compact", "Merge layers into sorted runs, as the size-tiered scheduler of a SlateDB client would."
    ),
    "worker": CommandLine("worker", "Run the compactions that live SlateDB clients schedule, until it is stopped."),
    "reap": CommandLine("reap", "Delete the rows that are past their table's retention."),
    "upkeep": CommandLine(
        "upkeep",
        "Maintain tables until it is stopped: retention, compaction, vacuum, history floor.",
    ),
    "vacuum": CommandLine("vacuum", "Delete unreferenced objects, including leftovers of failed table creation."),
    "drop": CommandLine("drop", "Delete a table for good, with all of its objects and nothing else. Asks first."),
    "erase": CommandLine(
        "absence",
        "Erase a key, or a key range, at every version of a table, and list what still holds a copy, and until when.",
    ),
    "prove-absent": CommandLine(
        "absence",
        "Search every object of a table for a key, or a key range, and list where copies are still stored.",
    ),
    "verify": CommandLine("verify", "Read every byte of a table and list all damage."),
    "demo": CommandLine(
        "demo",
        "Load a year of flights into SlateDB databases with Spark, step by step, and keep them to explore.",
    ),
    "seq-to-ts": CommandLine(
        "sequence",
        "Print when a sequence number was reached; exit code 1 if it is unknown. Alias: seq-to-ts.",
        hidden=True,
    ),
    "ts-to-seq": CommandLine(
        "sequence",
        "Print the sequence number reached at an instant; exit code 1 if it is unknown. Alias: ts-to-seq.",
        hidden=True,
    ),
    "explain": CommandLine(
        "explain",
        "Show what a read, change feed, compaction, vacuum, reap or erasure touches and costs, before or as it runs.",
    ),
    "checkpoint": CommandLine("version", "Protect versions of a table from garbage collection."),
}
