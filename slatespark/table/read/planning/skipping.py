"""Which files a read can skip, judged by their properties. Pure.

A version that a read does not show may still decide what it shows: an expired put hides the older versions of its key,
and newer operands fold onto a put that fails the filter. So a file is skipped only if it decides nothing. The effect of
its rows in this read is one of four:

- *absent*: the rows count for nothing, as if they did not exist: committed or created after the point of the read, or
  operands that have all expired. The file is skipped.
- *masking*: no row is ever shown, but rows may hide older ones: all have expired, or all are tombstones.
- *masking alone*: the same, but newer operands may fold onto its rows and show them: all are past retention, or none
  can pass the filter on metadata columns. It counts as masking where no newer file that may hold operands shares keys.
- *visible*: anything else, and every file whose properties are not known.

A masking file is skipped where no older visible one shares keys with it. Otherwise it is read from the first to the
last shared key. Other masking files do not matter: a key whose versions are all in masking files shows nothing,
whichever of these files are read. See docs/explanation/what-a-scan-skips.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from slatespark.format.properties import SstProperties
from slatespark.format.ulid import Ulid
from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE, Visibility
from slatespark.kernels.lifetimes import reached
from slatespark.ranges import ALL_KEYS
from slatespark.table.read.planning.key_cover import KeyCover
from slatespark.table.read.planning.plan import FileSlice, Layer


class Effect(Enum):
    """The effect of the rows of a file in a read; see the head of this module."""

    ABSENT = "absent"
    MASKING = "masking"
    MASKING_ALONE = "masking alone"
    VISIBLE = "visible"


@dataclass(frozen=True, slots=True)
class SkipRule:
    """The part of a read's conditions that decides about whole files.

    Attributes
    ----------
    visibility, retired_ms : as in `ScanSettings`
    may_pass : whether any row of a file with such properties can pass the filter
    newest_may_fold : whether rows that are newer than every file may be operands, of any key
    """

    visibility: Visibility
    retired_ms: int | None = None
    may_pass: Callable[[SstProperties], bool] | None = None
    newest_may_fold: bool = False


def skip_files(layers: Sequence[Layer], known: Mapping[Ulid, SstProperties], rule: SkipRule) -> tuple[Layer, ...]:
    """Return the layers without the files, and parts of files, that make no difference to a read.

    Parameters
    ----------
    layers : layers of the snapshot, newest first
    known : properties of files, as many as are known
    rule : conditions of the read that decide about whole files
    """
    effects = {sst_id: judge_file(properties, rule)[0] for sst_id, properties in known.items()}
    if all(effect is Effect.VISIBLE for effect in effects.values()):
        return tuple(layers)
    if Effect.MASKING_ALONE in effects.values():
        masking = _masking_slices(layers, known, effects, rule)
    else:
        masking = {part for layer in layers for part in layer.slices if effects.get(part.file.id) is Effect.MASKING}
    kept: list[Layer] = []
    below = KeyCover()
    for layer in reversed(layers):
        parts: list[FileSlice] = []
        for part in reversed(layer.slices):  # a later slice is the older one where both hold the same key
            if effects.get(part.file.id) is Effect.ABSENT:
                continue
            if part in masking:
                shared = below.shared(part.keys)
                parts += [] if shared is None else [FileSlice(part.file, shared)]
            else:
                below.add(part.keys)
                parts.append(part)
        if parts:
            kept.append(Layer(layer.name, tuple(reversed(parts))))
    return tuple(reversed(kept))


def _masking_slices(
    layers: Sequence[Layer], known: Mapping[Ulid, SstProperties], effects: Mapping[Ulid, Effect], rule: SkipRule
) -> set[FileSlice]:
    """Return the slices that are masking, where some are so only if nothing newer folds onto them."""
    masking: set[FileSlice] = set()
    operands = KeyCover()
    if rule.newest_may_fold:
        operands.add(ALL_KEYS)
    for layer in layers:
        for part in layer.slices:
            effect = effects.get(part.file.id, Effect.VISIBLE)
            if effect is Effect.MASKING or (effect is Effect.MASKING_ALONE and operands.shared(part.keys) is None):
                masking.add(part)
            properties = known.get(part.file.id)
            if effect in (Effect.VISIBLE, Effect.MASKING_ALONE) and (properties is None or properties.merges):
                operands.add(part.keys)
    return masking


def judge_file(properties: SstProperties, rule: SkipRule) -> tuple[Effect, str]:
    """Return the effect of the rows of a file in a read, and why the file is skipped, if it is."""
    shown = rule.visibility
    if _is_later(properties, shown):
        return Effect.ABSENT, "newer than the read"
    fails, filtered = rule.may_pass is not None and not rule.may_pass(properties), "no row passes the filter"
    if shown.all_versions:  # each is shown by itself; nothing hides another one
        return Effect.ABSENT if fails else Effect.VISIBLE, filtered
    flags = properties.all_flags
    if not shown.include_expired and reached(flags, HAS_EXPIRE, properties.max_expire_ts, shown.now_ms):
        effect = Effect.ABSENT if properties.merges == properties.num_rows else Effect.MASKING
        return effect, "all rows have expired"
    if not shown.include_deleted and properties.deletes == properties.num_rows:
        return Effect.MASKING, "only deletions, of rows that are gone"
    retired_ms = None if shown.include_deleted and properties.deletes else rule.retired_ms
    if retired_ms is not None and reached(flags, HAS_CREATE, properties.max_create_ts, retired_ms):
        return Effect.MASKING_ALONE, "all rows are past retention"
    # Folded operands of the file have the metadata of several rows, so the test of single rows says nothing.
    return Effect.MASKING_ALONE if fails and not properties.merges else Effect.VISIBLE, filtered


def _is_later(properties: SstProperties, shown: Visibility) -> bool:
    """Tell whether all rows came after the point of a read."""
    if properties.min_seq > shown.max_seq:
        return True
    bound_ms, first_ms = shown.max_create_ts_ms, properties.min_create_ts
    have_times = properties.all_flags & HAS_CREATE != 0
    return bound_ms is not None and first_ms is not None and have_times and first_ms > bound_ms
