"""Inspection: the methods of `SlateStore` that show what is stored, and the table itself as text and HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slatespark.errors import SlateError
from slatespark.options.flags import parsing_flags
from slatespark.options.values import both_given, normalize_name
from slatespark.shown import Listing
from slatespark.slate_store.base import OpenTable
from slatespark.table.inspection.dump import NEWEST

if TYPE_CHECKING:
    from slatespark.table.inspection.describe import TableFacts, TableSummary
    from slatespark.table.inspection.dump import ObjectDump
    from slatespark.table.inspection.files import FileFacts, LayerFacts
    from slatespark.table.inspection.timeline import KeyTimeline
    from slatespark.table.retention.expiry_tally import ExpiryReport


class Inspection(OpenTable):
    """Inspection: facts, files, layers, timeline and expiry, as values, text, HTML and figures."""

    @parsing_flags
    def detail(self, *, countRows: bool = False, **options: Any) -> TableFacts:
        """Return the facts of the table: definition, version, layers, files, WAL, checkpoints.

        Parameters
        ----------
        countRows : whether to count row versions, which costs a request per file
        options : read options that choose a version

        Raises
        ------
        OptionError, HistoryTrimmedError
            When an option is wrong, or the version was collected.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from slatespark import SlateStore
        >>> store = SlateStore.create("memory://detailed", "id BIGINT, name STRING", "id")
        >>> version = store.write(pa.table({"id": [1, 2], "name": ["a", "b"]}))
        >>> facts = store.detail(countRows=True)
        >>> facts.version == version, facts.files, facts.rows.puts
        (True, 1, 2)
        """
        from slatespark.table.inspection.describe import describe_table

        return describe_table(self._stores, self._read_options(options), self._clock, count_rows=countRows)

    @parsing_flags
    def files(self, *, countRows: bool = False, **options: Any) -> Listing[FileFacts]:
        """Return the files of a version, layer by layer, newest first.

        Parameters
        ----------
        countRows : whether to count the row versions of each file, which costs a request per file
        options : read options that choose a version

        Raises
        ------
        OptionError, HistoryTrimmedError
            When an option is wrong, or the version was collected.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from slatespark import SlateStore
        >>> store = SlateStore.create("memory://filed")
        >>> version = store.write(pa.table({"key": [b"a", b"b"], "value": [b"1", b"2"]}))
        >>> [(file.layer, file.start, file.rows) for file in store.files(countRows=True)]
        [('run 0', b'a', 2)]
        """
        from slatespark.table.inspection.files import list_files

        found = list_files(self._stores, self._read_options(options), self._clock, count_rows=countRows)
        return Listing(found)

    def runs(self, **options: Any) -> Listing[LayerFacts]:
        """Return the layers of a version, L0 views and sorted runs, newest first.

        Parameters
        ----------
        options : read options that choose a version

        Raises
        ------
        OptionError, HistoryTrimmedError
            When an option is wrong, or the version was collected.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from slatespark import SlateStore
        >>> store = SlateStore.create("memory://layered")
        >>> version = store.write(pa.table({"key": [b"a", b"b"], "value": [b"1", b"2"]}))
        >>> version = store.write(pa.table({"key": [b"c"], "value": [b"3"]}))
        >>> [(layer.name, layer.files) for layer in store.runs()]
        [('run 1', 1), ('run 0', 1)]
        """
        from slatespark.table.inspection.files import list_layers

        return Listing(list_layers(self._stores, self._read_options(options), self._clock))

    def timeline(self, version: int | None = None, **options: Any) -> KeyTimeline:
        """Return the files along the keys: which are visible or hidden in each interval, and since when.

        Parameters
        ----------
        version : a manifest id; by default the newest one
        options : read options that choose a version another way

        Raises
        ------
        OptionError, HistoryTrimmedError
            When an option is wrong, or the version was collected.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from slatespark import SlateStore
        >>> store = SlateStore.create("memory://along-keys")
        >>> version = store.write(pa.table({"key": [b"a", b"b"], "value": [b"1", b"2"]}))
        >>> [(interval.start, len(interval.files)) for interval in store.timeline().intervals]
        [(b'a', 1)]
        """
        from slatespark.table.inspection.timeline import read_timeline

        if version is not None:
            if any(normalize_name(name) == "versionasof" and value is not None for name, value in options.items()):
                raise both_given("version", "versionAsOf")
            options["versionAsOf"] = version
        return read_timeline(self._stores, self._read_options(options), self._clock)

    def dump(self, name: str = NEWEST, *, rows: int = 0) -> ObjectDump:
        """Return what one object of the table holds, verified: a manifest, a `.compactions` file, a WAL file, an SST.

        Parameters
        ----------
        name : `manifest` or `compactions` for the newest one, `manifest/5`, `compactions/5`, `wal/5`, the id of an SST,
            or the path of an object
        rows : how many row versions of an SST or WAL file to show

        Raises
        ------
        InvalidRequestError
            When there is no such object.
        CorruptDataError, UnsupportedFormatError
            When it is damaged, or a later release wrote it.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from slatespark import SlateStore
        >>> store = SlateStore.create("memory://dumped", "id BIGINT, name STRING", "id")
        >>> version = store.write(pa.table({"id": [1, 2], "name": ["a", "b"]}))
        >>> found = store.dump("manifest")
        >>> found.kind, found.content["number"] == version
        ('manifest', True)
        """
        from slatespark.table.inspection.dump import dump_object

        return dump_object(self._stores, name, rows=rows)

    def expiry(self, per: str | None = None, **options: Any) -> ExpiryReport:
        """Return when rows and stored bytes expire: by hour or day, already, or never.

        All stored versions count, including those that a read does not show.

        Parameters
        ----------
        per : `hour` or `day`; by default hours if everything expires within three days, else days
        options : read options that choose a version, and `now`

        Raises
        ------
        OptionError
            When `per` is invalid, or an option would exclude rows.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from slatespark import SlateStore
        >>> store = SlateStore.create("memory://expiring")
        >>> version = store.write(pa.table({"key": [b"a"], "value": [b"1"]}), ttl="1h")
        >>> version = store.write(pa.table({"key": [b"b"], "value": [b"2"]}))
        >>> [(part.state, part.rows) for part in store.expiry(per="day").parts if part.rows]
        [('expires', 1), ('never', 1)]
        """
        from slatespark.table.retention.expiry_run import report_expiry

        return report_expiry(self._stores, self._read_options(options), self._clock, per=per)

    def plotLayers(self, ax: Any = None, **options: Any) -> Any:
        """Return a matplotlib figure of the layers of a version over their keys.

        Parameters
        ----------
        ax : matplotlib axes to draw on; by default a figure of its own
        options : read options that choose a version

        Raises
        ------
        InvalidRequestError
            When matplotlib is not installed.
        """
        from slatespark.display.plots import plot_layers

        return plot_layers(self._summary(options), ax)

    def plotTimeline(self, ax: Any = None, *, version: int | None = None, **options: Any) -> Any:
        """Return a matplotlib figure of the timeline: which file shows the rows of each interval of keys.

        Parameters
        ----------
        ax : matplotlib axes to draw on; by default a figure of its own
        version : a manifest id; by default the newest one
        options : read options that choose a version another way

        Raises
        ------
        InvalidRequestError
            When matplotlib is not installed.
        """
        from slatespark.display.plots import plot_timeline

        return plot_timeline(self.timeline(version, **options), ax)

    def plotExpiry(self, ax: Any = None, *, per: str | None = None, **options: Any) -> Any:
        """Return a matplotlib figure of the stored bytes that expire by hour or day.

        Parameters
        ----------
        ax : matplotlib axes to draw on; by default a figure of its own
        per : `hour` or `day`; by default hours if everything expires within three days, else days
        options : read options that choose a version, and `now`

        Raises
        ------
        InvalidRequestError
            When matplotlib is not installed.
        """
        from slatespark.display.plots import plot_expiry

        return plot_expiry(self.expiry(per, **options), ax)

    def __str__(self) -> str:
        """Show facts, columns and layers of the newest version as text."""
        from slatespark.display.summary_text import summary_text

        try:
            return summary_text(self._summary({}))
        except SlateError as exc:  # printing must not fail
            return f"{self!r}\n{type(exc).__name__}: {exc}"

    def _repr_html_(self) -> str:
        """Show facts, columns and a picture of the layers of the newest version in a notebook."""
        from slatespark.display.notebook import failure_html, summary_html

        try:
            return summary_html(self._summary({}))
        except SlateError as exc:
            return failure_html(repr(self), exc)

    def _summary(self, options: dict[str, Any]) -> TableSummary:
        from slatespark.table.inspection.describe import summarise_table

        return summarise_table(self._stores, self._read_options(options), self._clock)
