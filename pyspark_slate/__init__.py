"""How Spark finds `format("slate")` without registration.

At the first lookup of a data source in a JVM, Spark imports every installed top-level module whose name starts with
`pyspark_` and uses its attribute `DefaultSource` if that is a data source class. One exception, and Spark ignores all
these modules, including those of other packages. So this module imports nothing until Spark asks for the attribute. If
slatespark cannot be imported then, the attribute is missing, and a warning says why.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """Load the class on demand; `hasattr` is False if that fails."""
    if name != "DefaultSource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from slatespark.spark.source.datasource import SlateDataSource
    except Exception as exc:  # no error may cost Spark its other data sources
        import warnings

        warnings.warn(f'format("slate") is not available: {exc!r}', RuntimeWarning, stacklevel=2)
        raise AttributeError(f"{__name__}.DefaultSource could not be loaded: {exc!r}") from exc
    return SlateDataSource
