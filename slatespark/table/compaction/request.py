"""What a call asks a compaction to do, apart from the options of its files."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from slatespark.errors import OptionError
from slatespark.options import WriteOptions
from slatespark.options.values import both_given
from slatespark.table.compaction.filter import CompactionFilter
from slatespark.table.compaction.plan import SizeTiers


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRequest:
    """What a compaction is asked to do; by default it follows the client's size-tiered scheduler.

    Attributes
    ----------
    full : merge everything into one run, or each segment; leaves out what is one compacted run, see `find_compacted`
    where : a condition on leading key columns: merge all layers within these intervals. Key options name one as well.
        Files of which rows were removed there, now or before, are written anew, so that a vacuum can delete these rows
    l0_only : merge all L0 views into a run
    due : rewrite files that may hold expired rows and are older than the table's `periodicCompactionInterval`
    force : a full compaction rewrites a compacted run too
    tiers : parameters of the size-tiered choice
    filters : decide about the versions that would be kept, in this order; not called if nothing is merged
    now_ms : the instant at which expiry and retention are evaluated; see `resolve_deletion_time`
    columnar : `true` or `seq`: new files of lowest runs get columnar copies, and then all others that lack one
    file_options : keys of the file options that the caller gave explicitly
    dry_run : only plan; of commits that follow from each other the first one
    max_jobs : so many jobs, and no more; None for as many as there are to do
    """

    full: bool = False
    where: str | None = None
    l0_only: bool = False
    due: bool = False
    force: bool = False
    tiers: SizeTiers | None = None
    filters: Sequence[CompactionFilter] = ()
    now_ms: int | None = None
    columnar: str = "false"
    file_options: Collection[str] = ()
    dry_run: bool = False
    max_jobs: int | None = None

    def check(self, options: WriteOptions) -> None:
        """Refuse arguments that choose the sources in two ways, or that only matter to another choice.

        Parameters
        ----------
        options : may name keys

        Raises
        ------
        OptionError
        """
        range_name = next(iter(options.given_keys), "where")
        is_range = self.where is not None or bool(options.given_keys)
        choices = {"full": self.full, "l0Only": self.l0_only, "due": self.due, range_name: is_range}
        given = [name for name, is_given in choices.items() if is_given]
        if len(given) > 1:
            raise both_given(given[0], given[1])
        if self.force and not self.full:
            raise OptionError(
                "force: full is not given.",
                why="Only a full compaction leaves alone a run that is compacted already.",
                todo="Give full too, or leave force out.",
            )
        if given and self.tiers not in (None, SizeTiers()):
            raise OptionError(
                f"minCompactionSources, maxCompactionSources, includeSizeThreshold: {given[0]} is given too.",
                why="They are parameters of the size-tiered choice, and it chooses the layers in another way.",
                todo=f"Leave them out, or {given[0]}.",
            )


BY_SIZE: Final = CompactionRequest()
