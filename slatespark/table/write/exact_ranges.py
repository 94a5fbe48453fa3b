"""The ranges of keys that a condition, or key bytes in the options, select exactly: those that a write cuts out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from slatespark.encoding.row_codec import RowCodec
from slatespark.errors import OptionError
from slatespark.format.manifest import Manifest
from slatespark.options import WriteOptions
from slatespark.options.values import both_given
from slatespark.ranges import KeyRange, prefix_range
from slatespark.table.rows.key_bounds import KeyBounds

if TYPE_CHECKING:
    from slatespark.encoding.predicates import Filter

MAX_INTERVALS: Final = 1000  # of one commit; `key_plan.MAX_RANGES` is no less


def plan_bounds(options: WriteOptions, codec: RowCodec, *, overwrite: bool) -> KeyBounds | None:
    """Return the intervals of keys that a write replaces, by `replaceWhere` or key bytes; None if it has neither.

    Parameters
    ----------
    overwrite : whether the mode of the write is `overwrite`

    Raises
    ------
    OptionError
        When the condition is not exactly a non-empty set of key intervals, or when the mode is not `overwrite`.
    """
    given = options.given_keys
    if options.replace_where is None and not given:
        return None
    if not overwrite:
        raise OptionError(
            f"{next(iter(given), 'replaceWhere')} is for mode overwrite.",
            todo="Set mode to overwrite, or the output mode of a stream to complete.",
        )
    if options.replace_where is not None:
        return KeyBounds(exact_ranges(options.replace_where, codec, name="replaceWhere"), options.replace_where)
    return KeyBounds((_given_range(options, codec),), _given_text(options))


def _given_text(options: WriteOptions) -> str:
    return ", ".join(f"{name} {key.hex()}" for name, key in options.given_keys.items())


def _given_range(options: WriteOptions, codec: RowCodec) -> KeyRange:
    """Return the range of keys that options give as bytes; raises `OptionError`."""
    if not codec.is_raw:
        raise OptionError(
            f"{next(iter(options.given_keys))} is for raw tables, but this table has the key columns "
            f"{', '.join(codec.key_columns)}.",
            todo="Give a condition on these columns.",
        )
    keys = options.key_range
    if keys.is_empty():
        raise OptionError(f"{_given_text(options)}: the range is empty.", todo="Give an endKey above the startKey.")
    return keys


def exact_ranges(condition: str, codec: RowCodec, *, name: str) -> tuple[KeyRange, ...]:
    """Return the ranges of keys that fulfil a condition, ascending.

    Parameters
    ----------
    condition : comparisons in the grammar of the option `filter`, joined by AND and OR
    name : name of the option or argument, for messages

    Raises
    ------
    OptionError
        When the condition cannot be parsed, uses columns other than leading key columns, is never true, or makes too
        many ranges.
    """
    # Imported here: most writes have no condition.
    from slatespark.encoding.least_key import tight_ranges
    from slatespark.encoding.predicates import bind_filter, parse_alternatives

    alternatives = parse_alternatives(condition, name=name)
    bound = [bind_filter(comparisons, codec.schema) for comparisons in alternatives]
    ranges = tight_ranges([keys for each in bound for keys in _ranges_of(each, codec, name)], codec)
    if not ranges:
        raise OptionError(f"{name}: no key can match {condition}.", todo="Give a condition that some keys match.")
    if len(ranges) > MAX_INTERVALS:
        raise _too_many(name, f"{len(ranges)} key ranges")
    return ranges


def find_segment(keys: Sequence[KeyRange], manifest: Manifest) -> bytes | None:
    """Return the prefix of the one segment that key ranges are exactly, perhaps of one without rows; None for none."""
    if manifest.segment_extractor_name is None:
        return None
    prefix = keys[0].start
    others = [tree.prefix for tree in manifest.segments if keys[0].overlaps(prefix_range(tree.prefix))]
    return prefix if tuple(keys) == (prefix_range(prefix),) and others in ([], [prefix]) else None


def _ranges_of(bound: Filter, codec: RowCodec, name: str) -> tuple[KeyRange, ...]:
    """Return the ranges of keys that fulfil comparisons joined by AND, which may be none."""
    from slatespark.encoding.predicates import plan_keys

    plan = plan_keys(bound, codec)
    if plan.residual.columns:
        raise _not_exact(bound, plan.residual, codec, name)
    if plan.points is not None and len(plan.points) > MAX_INTERVALS:
        raise _too_many(name, f"{len(plan.points)} keys")
    return plan.ranges


def _too_many(name: str, what: str) -> OptionError:
    return OptionError(
        f"{name}: the condition makes {what}; at most {MAX_INTERVALS} are allowed.",
        todo="Give a key range, or split the keys over several calls.",
    )


def _not_exact(bound: Filter, residual: Filter, codec: RowCodec, name: str) -> OptionError:
    """Return the error for a condition that is not exactly a set of ranges, with a hint at a valid one."""
    keys = ", ".join(codec.key_columns)
    apart = [column for column in residual.columns if column not in codec.key_columns]
    if apart:
        return OptionError(
            f"{name}: {apart[0]} is not a key column.",
            why="The condition must be exactly a set of key ranges.",
            todo=f"Use leading key columns: {keys}.",
        )
    named = {part.column: part for part in bound.conditions}
    for before in codec.key_columns[: codec.key_columns.index(residual.columns[0])]:
        if before not in named:
            return OptionError(
                f"{name}: {residual.columns[0]} selects no key range without {before}, which comes before it.",
                why="Keys are sorted by their columns in order.",
                todo=f"Restrict {before} too, by = or IN; the key columns are {keys}.",
            )
        if not named[before].has_only_points:
            return OptionError(
                f"{name}: {residual.columns[0]} selects no key range if {before} is a range.",
                why="Keys are sorted by their columns in order.",
                todo=f"Restrict {before} by = or IN, or omit {residual.columns[0]}.",
            )
    return _too_many(name, f"more than {MAX_INTERVALS} key ranges")


def ranges_to_delete(where: str | None, options: WriteOptions, codec: RowCodec) -> tuple[KeyRange, ...]:
    """Return the ranges of a `deleteRange`; raises `OptionError` unless a condition or options give them exactly."""
    keys = named_ranges(where, options, codec)
    if keys is None:
        raise OptionError(
            "deleteRange: no range is given.", todo="Give a condition on leading key columns, or keys of a raw table."
        )
    return keys


def named_ranges(where: str | None, options: WriteOptions, codec: RowCodec) -> tuple[KeyRange, ...] | None:
    """Return the ranges that a condition, or options with key bytes, select exactly; None if neither is given.

    Raises
    ------
    OptionError
        When both are given, or the condition is not exactly a set of ranges.
    """
    if where is None:
        return (_given_range(options, codec),) if options.given_keys else None
    if options.given_keys:
        raise both_given("where", next(iter(options.given_keys)))
    return exact_ranges(where, codec, name="where")
