"""Arguments of `SlateTable`: types, paths as text, storage options apart from table properties; frames by them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from slatespark.errors import OptionError
from slatespark.options.properties import parse_properties, split_creation
from slatespark.options.values import STORAGE_PREFIX, WAL_PATH, is_clock, normalize_name, parse_clock
from slatespark.slate_store.base import location_options
from slatespark.spark.frames.table_frames import TableFrames

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slatespark.slate_store import SlateStore

CLOCK: Final = "clock"

PathArgument: TypeAlias = str | os.PathLike[str]
Names: TypeAlias = Sequence[str] | str  # a list, or a comma list
Prices: TypeAlias = Mapping[str, float | str] | str  # by name, or text such as `get=0.0004,put=0.005`


def path_text(path: PathArgument) -> str:
    """Return a path as text; whether it is a valid one is checked where it is opened."""
    return os.fspath(path) if isinstance(path, os.PathLike) else path


def storage_arguments(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return those arguments of `create` that are about storage.

    Raises
    ------
    OptionError
        When one is neither that nor a property.
    """
    clock = {name: value for name, value in properties.items() if name == CLOCK and is_clock(value)}
    rest = split_creation({name: value for name, value in properties.items() if name not in clock})[2]
    parse_properties({name: value for name, value in rest.items() if not _is_storage(name)})
    return {**rest, **clock}


def store_arguments(storage: Mapping[str, Any]) -> dict[str, Any]:
    """Return storage arguments as `SlateStore` takes them: without the prefix, paths as text."""
    return {name.removeprefix(STORAGE_PREFIX): path_text(value) for name, value in storage.items()}


def frames_of_store(spark: SparkSession, store: SlateStore, storage: Mapping[str, Any]) -> TableFrames:
    """Return the rows of an open table as DataFrames; its path is not resolved a second time.

    Parameters
    ----------
    storage : arguments that may have a clock; raises as `clock_option`
    """
    place = location_options(store)
    return TableFrames(spark, place.pop("path"), {**place, **clock_option(storage)})


def clock_option(storage: Mapping[str, Any]) -> dict[str, str]:
    """Return the option of the data source for the clock among some arguments; none for the system clock.

    Raises
    ------
    OptionError
        When the clock is not given by a name.
    """
    clock = storage.get(CLOCK)
    if clock is None:
        return {}
    if not is_clock(clock):
        raise OptionError(
            f"clock: {clock!r} cannot be passed to Spark's processes.",
            todo="Give the name of a function: module:function.",
        )
    return {CLOCK: parse_clock(clock, CLOCK)}


def _is_storage(name: str) -> bool:
    return name.startswith(STORAGE_PREFIX) or normalize_name(name) == normalize_name(WAL_PATH)
