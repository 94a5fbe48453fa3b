"""What `compact` takes: its arguments, and of the write options those that make sense there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from slatespark.errors import OptionError
from slatespark.options import Call, WriteOptions, option_keys
from slatespark.options.values import normalize_name, unknown_option

_TAKEN: Final = option_keys(WriteOptions, Call.COMPACT)
_ARGUMENTS: Final = (
    "full",
    "where",
    "filters",
    "now",
    "l0Only",
    "due",
    "dryRun",
    "minCompactionSources",
    "maxCompactionSources",
    "includeSizeThreshold",
)


def parse_compaction(common: Mapping[str, Any], given: Mapping[str, Any]) -> WriteOptions:
    """Return the options of a compaction.

    Parameters
    ----------
    common : path and storage
    given : what came besides the arguments

    Raises
    ------
    OptionError
        When one is unknown, malformed, or of no use to a compaction.
    """
    taken = {normalize_name(name) for name in _TAKEN}
    options = {normalize_name(name) for name in option_keys(WriteOptions)}
    for name in given:
        if normalize_name(name) in taken:
            continue
        if normalize_name(name) not in options:
            raise unknown_option(name, [*_ARGUMENTS, *_TAKEN])
        raise OptionError(
            f"compact: {name} is of no use to a compaction.",
            why="It rewrites rows as they are.",
            todo=f"Of write options it takes {', '.join(_TAKEN)}.",
        )
    return WriteOptions.parse({**common, **given})
