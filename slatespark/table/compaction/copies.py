"""Which compactions write columnar copies, and adding those that SSTs of the lowest runs lack."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from slatespark.errors import InvalidRequestError
from slatespark.table.columns.missing import AddCopy, find_missing
from slatespark.table.columns.write import CopyOutcome, CopyRule
from slatespark.table.compaction.plan import Tree
from slatespark.table.compaction.state import CompactionState
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.read.planning.plan import SstFile
from slatespark.table.stores import OWN_ROOT, TableStores
from slatespark.table.tasks import THREADS

_FOREIGN: Final = "it is of another database: compact the clone in full"


def copy_rule(definition: TableDefinition, *, is_lowest: bool, asked: str = "false") -> CopyRule | None:
    """Return how a compaction writes columnar copies; None if it writes none.

    Parameters
    ----------
    is_lowest : nothing older lies below its sources
    asked : what the call asks for; the property of the table asks, too
    """
    wishes = {definition.columnar, asked}
    if not is_lowest or definition.has_history or wishes == {"false"}:
        return None
    return CopyRule(definition.codec(), with_seq="seq" in wishes)


def check_asked(asked: str, definition: TableDefinition, url: str) -> None:
    """Refuse copies of a history table; `asked` as for `copy_rule`."""
    if asked != "false" and definition.has_history:
        raise InvalidRequestError(
            f"columnar: {url} is a history table, which has no columnar copies.",
            why="A copy holds one version of each row.",
            todo="Leave the option out.",
        )


def lowest_files(trees: tuple[Tree, ...]) -> list[SstFile]:
    """Return the files of the lowest run of each tree, each once."""
    lowest = [tree.layers[-1] for tree in trees if tree.layers[-1].run_id is not None]
    return list(dict.fromkeys(part.file for source in lowest for part in source.layer.slices))


def add_copies(
    stores: TableStores, state: CompactionState, asked: str, decided: Iterable[CopyOutcome], *, dry_run: bool
) -> tuple[CopyOutcome, ...]:
    """Write the copies that files of the lowest runs lack, and return what became of each.

    Files of other databases get none, since a copy lies beside its SST.

    Parameters
    ----------
    asked : as for `copy_rule`
    decided : what became of the copies of new files, which are not tried again
    dry_run : write none; the outcomes have no rows
    """
    rule = copy_rule(state.definition, is_lowest=True, asked=asked)
    if rule is None:
        return ()
    tried = {outcome.sst for outcome in decided}
    others = [file for file in lowest_files(state.trees) if str(file.id) not in tried]
    missing = find_missing(stores, [file for file in others if file.root == OWN_ROOT], rule)
    foreign = [CopyOutcome(str(file.id), refused=_FOREIGN) for file in others if file.root != OWN_ROOT]
    if dry_run:
        return (*(CopyOutcome(str(file.id)) for file in missing), *foreign)
    return (*THREADS(AddCopy(stores, rule, state.known), missing), *foreign)
