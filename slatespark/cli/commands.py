"""The entry point of the `slatespark` command; importing this module registers every command."""

from __future__ import annotations

from slatespark.cli import (
    absence_command,
    compact_command,
    definition_commands,
    demo_command,
    drop_command,
    dump_command,
    explain_commands,
    ingest_command,
    inspect_commands,
    read_commands,
    reap_command,
    sequence_commands,
    transfer_commands,
    update_command,
    upkeep_command,
    vacuum_command,
    verify_command,
    version_commands,
    worker_command,
    write_commands,
)
from slatespark.cli.app import app

__all__ = [
    "absence_command",
    "app",
    "compact_command",
    "definition_commands",
    "demo_command",
    "drop_command",
    "dump_command",
    "explain_commands",
    "ingest_command",
    "inspect_commands",
    "main",
    "read_commands",
    "reap_command",
    "sequence_commands",
    "transfer_commands",
    "update_command",
    "upkeep_command",
    "vacuum_command",
    "verify_command",
    "version_commands",
    "worker_command",
    "write_commands",
]

ORDER = (  # of the commands in --help
    "describe",
    "history",
    "files",
    "timeline",
    "expiry",
    "dump",
    "get-timestamp-for-seq",
    "get-seq-for-timestamp",
    "create",
    "set-properties",
    "drop-columns",
    "set-history-floor",
    "scan",
    "versions",
    "changes",
    "get",
    "put",
    "update",
    "delete",
    "import",
    "ingest",
    "export",
    "restore",
    "trim",
    "clone",
    "copy-to",
    "compact",
    "worker",
    "reap",
    "upkeep",
    "vacuum",
    "drop",
    "erase",
    "prove-absent",
    "verify",
    "demo",
)
app.registered_commands.sort(
    key=lambda command: (
        command.hidden,  # aliases
        0 if command.hidden else ORDER.index(command.name or getattr(command.callback, "__name__", "")),
    )
)


def main() -> None:
    """Run the command line."""
    app(prog_name="slatespark")
