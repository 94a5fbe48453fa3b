"""The options of `compact`: its arguments, and the write options that apply to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from slatespark.options import Call, WriteOptions, option_keys
from slatespark.options.fields import find_other, with_common
from slatespark.options.values import normalize_name, unknown_option

_FILE_OPTIONS: Final = ("compression", "blockSize", "sstSize", "bloomBitsPerKey")
_OF_WORKER: Final = option_keys(WriteOptions, Call.WORKER)
_ARGUMENTS: Final = (
    "full",
    "force",
    "where",
    "filters",
    "now",
    "l0Only",
    "due",
    "columnar",
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
    given : the further options of the call

    Raises
    ------
    OptionError
        When one is unknown, malformed, or does not apply to a compaction.
    """
    why = "A compaction rewrites rows as they are."
    return WriteOptions.of_call("compact", Call.COMPACT, common, given, arguments=_ARGUMENTS, why=why)


def parse_worker(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that a compaction worker takes, checked; raises `OptionError` for any other."""
    if (other := find_other(WriteOptions, given, _OF_WORKER)) is not None:
        raise unknown_option(other, list(_OF_WORKER))
    WriteOptions.parse(with_common({"path": "?"}, given))
    return dict(given)


def given_file_options(given: Mapping[str, Any]) -> frozenset[str]:
    """Return the keys of the options in `given` that shape files."""
    names = {normalize_name(name) for name, value in given.items() if value is not None}
    return frozenset(key for key in _FILE_OPTIONS if normalize_name(key) in names)
