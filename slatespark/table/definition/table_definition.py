"""TableDefinition: key columns, formats, schema and properties of a table. A table without a stored one is raw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from slatespark.encoding.row_codec import RAW_CODEC, RowCodec
from slatespark.errors import OptionError
from slatespark.format.segments import SegmentExtractor
from slatespark.options.properties import DEFAULTS, SEGMENT_PROPERTIES, parse_property, require_consistent_properties
from slatespark.options.values import DEFAULT_TTL_MS, parse_duration_or_none
from slatespark.shown import Escaped
from slatespark.units import MIN_MS

TYPED_VERSION_RETENTION: Final = "7d"


@dataclass(frozen=True, slots=True)
class EarlierBounds:
    """The bounds of the past in versions of a history table from before one of them rose.

    Attributes
    ----------
    through : the last version (manifest id) that they hold for
    full_history_ts_low_ms, lost_through_ms : as in `TableDefinition`
    """

    through: int
    full_history_ts_low_ms: int | None = None
    lost_through_ms: int | None = None


@dataclass(frozen=True, slots=True, repr=False)
class TableDefinition(Escaped):
    """The definition of a table: everything but its rows.

    Attributes
    ----------
    key_format, value_format : as in docs/reference/key-encoding.md; `raw` both for a raw table
    key_columns : names in key order; empty for a raw table
    schema : canonical, in table order; None for a raw table
    writer_schemas : Avro record schemas of stored values, by fingerprint
    properties : name -> text, as in the reference of options
    dropped_columns : old rows may still hold them, so they must not come back
    created_by : write id of the job that created the table; its lease tells whether the job is still running
    full_history_ts_low_ms, lost_through_ms, reaped_through_ms : bounds below which the past is incomplete
    earlier_bounds : the first two for older versions, by `through` ascending; later versions have the present ones
    """

    key_format: str = "raw"
    key_columns: tuple[str, ...] = ()
    value_format: str = "raw"
    schema: pa.Schema | None = None
    writer_schemas: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    dropped_columns: tuple[str, ...] = ()
    created_by: str = ""
    full_history_ts_low_ms: int | None = None
    lost_through_ms: int | None = None
    reaped_through_ms: int | None = None
    earlier_bounds: tuple[EarlierBounds, ...] = ()

    @property
    def is_typed(self) -> bool:
        """Whether rows have columns."""
        return bool(self.key_columns)

    @property
    def retention_ms(self) -> int | None:
        """How long after its time a row is shown; None forever."""
        return None if self._retains_from_write else self._retention_ms

    @property
    def retention_from_write_ms(self) -> int | None:
        """How long after its write a row is shown: the latest expiry of rows that are written; None forever."""
        return self._retention_ms if self._retains_from_write else None

    @property
    def _retention_ms(self) -> int | None:
        return parse_duration_or_none(self.properties.get("retention"), "retention")

    @property
    def _retains_from_write(self) -> bool:
        return bool(self._property("retentionFrom") == "write")

    @property
    def lifetimes(self) -> tuple[int | None, int | None]:
        """The properties that determine how long rows are kept."""
        return self.retention_ms, self.full_history_ts_low_ms

    @property
    def version_retention_ms(self) -> int | None:
        """How long a version stays readable after a commit replaced it; None for no guarantee."""
        text = self.properties.get("versionRetention", self.default_of("versionRetention"))
        return parse_duration_or_none(text, "versionRetention") or None

    @property
    def has_own_time(self) -> bool:
        """Whether the table has its own clock, unrelated to that of any machine."""
        return bool(self._property("clock") == "custom")

    @property
    def has_history(self) -> bool:
        """Whether each row may have its own time, by which as-of reads judge it."""
        return bool(self._property("history"))

    @property
    def history_retention_ms(self) -> int | None:
        """How far back the newest state of a history table reaches; None for as far as the stored floor."""
        given = self.properties.get("historyRetention") if self.has_history else None
        return parse_duration_or_none(given, "historyRetention")

    @property
    def holds_history(self) -> bool:
        """Whether commits keep other clients' compaction schedulers off the table's runs."""
        return bool(self._property("holdHistory"))

    @property
    def periodic_compaction_ms(self) -> int | None:
        """The age at which a file that may hold expired rows is due for compaction; None for never."""
        return parse_duration_or_none(self.properties.get("periodicCompactionInterval"), "periodicCompactionInterval")

    @property
    def auto_compacts(self) -> bool:
        """Whether a write that leaves many small runs merges them."""
        return bool(self._property("autoCompact"))

    @property
    def columnar(self) -> str:
        """Whether compactions write columnar copies: `false`, `true`, or `seq` for copies with sequence numbers."""
        return str(self._property("columnar"))

    @property
    def merge_operator(self) -> str | None:
        """The built-in operator that folds operands unless an option gives one; None if the table sets none."""
        given = self.properties.get("mergeOperator")
        return None if given is None else str(parse_property("mergeOperator", given))

    def default_of(self, name: str) -> str | None:
        """Return what a property is if the table does not set it, as text; None for nothing."""
        if name == "versionRetention":
            return TYPED_VERSION_RETENTION if self.is_typed else "none"
        return DEFAULTS.get(name)

    def ttl_ms(self, given_ms: int | None) -> int | None:
        """Return the time to live of rows: the given one, or that of the table if the write gives none; None for none.

        Parameters
        ----------
        given_ms : as `WriteOptions.ttl_ms`
        """
        if given_ms == DEFAULT_TTL_MS:
            return parse_duration_or_none(self.properties.get("defaultTtl"), "defaultTtl")
        return given_ms

    @property
    def segment_extractor(self) -> SegmentExtractor | None:
        """How keys are cut into segments; None if that is not declared."""
        name = self.properties.get("segmentExtractor")
        if name is None:
            return None
        length, delimiter = (self.properties.get(name) for name in ("segmentPrefixLength", "segmentDelimiter"))
        return SegmentExtractor(
            name,
            None if length is None else int(length),
            None if delimiter is None else parse_property("segmentDelimiter", delimiter),
        )

    def declaring(self, properties: Mapping[str, str]) -> TableDefinition:
        """Return the definition with the segment extractor that the options of one write declare, if any.

        It is not stored: with a definition, a table of another client would get slatespark's default properties, too.

        Raises
        ------
        OptionError
            When the declaration is incomplete, or the table has another one.
        """
        declared = {name: properties[name] for name in SEGMENT_PROPERTIES if name in properties}
        if not declared:
            return self
        require_consistent_properties(declared)
        known, given = self.segment_extractor, replace(NO_DEFINITION, properties=declared).segment_extractor
        if known not in (None, given):
            raise OptionError(
                f"The segment extractor is declared as {given}, but that of the table is {known}.",
                todo="Leave the declaration out, or change it with setProperties.",
            )
        return replace(self, properties={**self.properties, **declared})

    def codec(self) -> RowCodec:
        """Return how rows are stored."""
        if self.schema is None:
            return RAW_CODEC
        return RowCodec(self.schema, self.key_columns, self.key_format, self.value_format, self.writer_schemas)

    def with_schema(self, schema: pa.Schema) -> TableDefinition:
        """Return the definition with another schema, and with the writer schema of its new values."""
        grown = replace(self, schema=schema)
        if self.value_format != "avro":
            return grown
        from slatespark.encoding.avro_schema import avro_schema, fingerprint

        writer = avro_schema(grown.codec().value_fields)
        return replace(grown, writer_schemas={**self.writer_schemas, fingerprint(writer): writer})

    def at_version(self, number: int) -> TableDefinition:
        """Return the definition with the bounds of the past of one version (manifest id).

        Files never change, so a version from before a bound rose has everything that it had then.
        """
        for earlier in self.earlier_bounds:
            if number <= earlier.through:
                floor_ms, lost_ms = earlier.full_history_ts_low_ms, earlier.lost_through_ms
                return replace(self, full_history_ts_low_ms=floor_ms, lost_through_ms=lost_ms)
        return self

    def at_present(self, present_ms: int) -> TableDefinition:
        """Return the definition with the history floor of the newest state: `historyRetention` raises the stored one.

        Parameters
        ----------
        present_ms : the system clock or the last clock tick, whichever is later; not the `now` of a read
        """
        floor_ms = floor_by_retention(self.history_retention_ms, present_ms)
        stored_ms = self.full_history_ts_low_ms
        if floor_ms is None or (stored_ms is not None and stored_ms >= floor_ms):
            return self
        return replace(self, full_history_ts_low_ms=floor_ms)

    def same_keys(self, other: TableDefinition) -> bool:
        """Tell whether formats and key columns are the same; they never change."""
        return self._fixed() == other._fixed()

    def _property(self, name: str) -> Any:
        return parse_property(name, self.properties.get(name, DEFAULTS[name]))

    def _fixed(self) -> tuple[object, ...]:
        return tuple(name.lower() for name in self.key_columns), self.key_format, self.value_format


def floor_by_retention(retention_ms: int | None, present_ms: int) -> int | None:
    """Return the history floor that `historyRetention` asks for; None if there is none."""
    if retention_ms is None or present_ms - retention_ms < MIN_MS:
        return None
    return present_ms - retention_ms


NO_DEFINITION: Final = TableDefinition()  # of a raw table that a SlateDB client created
