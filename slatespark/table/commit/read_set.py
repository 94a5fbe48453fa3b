"""ReadSet: the keys and key ranges that a commit depends on. Pure.

See docs/explanation/how-conflicts-are-found.md.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Self

from slatespark.encoding.row_codec import RowCodec
from slatespark.errors import InternalError
from slatespark.format.ulid import Ulid
from slatespark.ranges import ALL_KEYS, KeyRange, merge_ranges, overlapping_ranges
from slatespark.table.records.json_objects import hex_bounds, range_of_hex
from slatespark.table.snapshot import Snapshot

if TYPE_CHECKING:
    from slatespark.table.read.reader import ReadPlan

MAX_KEYS: Final = 1000  # of a condition; with more, only the ranges are tracked


@dataclass(frozen=True, slots=True)
class ReadSet:
    """Keys and key ranges that must be unchanged since a read.

    Attributes
    ----------
    manifest_id : the version that was read; 0 if there was no table
    read_seq : highest sequence number that the read could see, WAL included
    keys : ascending, distinct, in none of the ranges
    ranges : ascending, disjoint, none empty
    read_ts_ms : history tables: versions created at or after it also count as changes; None if only seqs count
    written : ranges in which every key that the commit writes must be unchanged too; ascending, disjoint, none empty
    newest_sst : newest id of an SST of that version, as text; empty without one. It tells the table from one that was
        created in its place
    operands_only : whether of new rows only merge operands count as changes. For a commit that removes rows which reads
        do not show: a new put or tombstone hides what lies below it in any case
    """

    manifest_id: int
    read_seq: int
    keys: tuple[bytes, ...] = ()
    ranges: tuple[KeyRange, ...] = ()
    read_ts_ms: int | None = None
    written: tuple[KeyRange, ...] = (ALL_KEYS,)
    newest_sst: str = ""
    operands_only: bool = False

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        *,
        keys: Iterable[bytes] = (),
        ranges: Iterable[KeyRange] = (),
        read_ts_ms: int | None = None,
        written: Iterable[KeyRange] = (ALL_KEYS,),
        operands_only: bool = False,
    ) -> Self:
        """Return the read set of keys and ranges, in any order, of a snapshot."""
        bare = cls(
            snapshot.manifest_id,
            snapshot.max_seq,
            read_ts_ms=read_ts_ms,
            written=merge_ranges(written),
            newest_sst=name_newest(snapshot.manifest.newest_sst()),
            operands_only=operands_only,
        )
        return bare.adding(keys=keys, ranges=ranges)

    @classmethod
    def of_plan(cls, plan: ReadPlan) -> Self:
        """Return the read set of everything that a read scans."""
        keys = (key for split in plan.splits for key in split.points or ())
        ranges = (part for split in plan.splits if split.points is None for part in (split.ranges or (split.keys,)))
        bare = cls(plan.manifest_id, plan.max_seq, written=(), newest_sst=name_newest(plan.newest_sst))
        return bare.adding(keys=keys, ranges=ranges)

    @classmethod
    def of_condition(cls, snapshot: Snapshot, condition: str | None, codec: RowCodec) -> Self:
        """Return the read set of the keys that a condition can match in a snapshot; all keys without a condition.

        Parameters
        ----------
        condition : condition in the grammar of the read option `filter`
        """
        if condition is None:
            return cls.of(snapshot, ranges=(ALL_KEYS,), written=())
        from slatespark.encoding.predicates import bind_filter, parse_filter, plan_keys  # most writes have no condition

        plan = plan_keys(bind_filter(parse_filter(condition), codec.schema), codec)
        if plan.points is not None and len(plan.points) <= MAX_KEYS:
            return cls.of(snapshot, keys=plan.points, written=())
        return cls.of(snapshot, ranges=plan.ranges, written=())

    def adding(self, *, keys: Iterable[bytes] = (), ranges: Iterable[KeyRange] = ()) -> Self:
        """Return the read set with more keys and ranges of the same read, in any order."""
        joined = replace(self, ranges=merge_ranges((*self.ranges, *ranges)))
        return replace(joined, keys=tuple(sorted({key for key in (*self.keys, *keys) if not joined.covers(key)})))

    def of_written(self) -> Self:
        """Return the read set of only the keys that the commit writes, since the same read."""
        return replace(self, keys=(), ranges=(), written=(ALL_KEYS,))

    @property
    def is_bounded(self) -> bool:
        """Whether it is of some keys only, as conditions gave them by the types of the key columns."""
        return bool(self.keys or self.ranges) and self.ranges != (ALL_KEYS,) and not self.operands_only

    def covers(self, key: bytes) -> bool:
        """Tell whether a key lies in one of the ranges."""
        return _lies_in(key, self.ranges)

    def covers_write(self, key: bytes) -> bool:
        """Tell whether a key must be unchanged if the commit writes it."""
        return _lies_in(key, self.written)

    def written_parts(self, keys: KeyRange) -> tuple[KeyRange, ...]:
        """Return the parts of a range of written keys that must be unchanged."""
        return tuple(part.intersect(keys) for part in overlapping_ranges(self.written, keys))

    def to_text(self) -> str:
        """Return the read set as text, for an option that Spark carries."""
        content = {
            "manifest_id": self.manifest_id,
            "read_seq": self.read_seq,
            "keys": [key.hex() for key in self.keys],
            "ranges": [hex_bounds(keys) for keys in self.ranges],
            "read_ts_ms": self.read_ts_ms,
            "written": [hex_bounds(keys) for keys in self.written],
            "newest_sst": self.newest_sst,
            "operands_only": self.operands_only,
        }
        return json.dumps(content, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return the read set that `to_text` encoded; raises `InternalError` for any other text."""
        try:
            content = json.loads(text)
            keys = tuple(bytes.fromhex(key) for key in content.pop("keys"))
            ranges, written = (
                tuple(range_of_hex(*bounds) for bounds in content.pop(name)) for name in ("ranges", "written")
            )
            return cls(keys=keys, ranges=ranges, written=written, **content)
        except (ValueError, TypeError, AttributeError, KeyError) as exc:
            raise InternalError(f"The read set of a write cannot be decoded: {exc!r}.") from exc


def name_newest(found: Ulid | None) -> str:
    """Return the newest id of an SST as a read set has it."""
    return "" if found is None else str(found)


def _lies_in(key: bytes, ranges: Sequence[KeyRange]) -> bool:
    at = bisect_right(ranges, key, key=lambda keys: keys.start) - 1
    return at >= 0 and ranges[at].contains(key)
