"""How Spark finds `format("slate")` without any registration.

At the first look-up of a data source in a JVM, Spark imports every top-level module whose name starts with `pyspark_`,
and takes its attribute `DefaultSource` where that is a data source class. One exception on the way and none of these
modules counts, other people's included. So nothing is imported here until Spark asks for the attribute, and if
slatespark cannot be loaded then, there is no attribute, and a warning that says why.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """Load the class when it is asked for; `hasattr` is False where that fails."""
    if name != "DefaultSource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from slatespark.spark.datasource import SlateDataSource
    except Exception as exc:  # whatever it is, it must not cost Spark its other data sources
        import warnings

        warnings.warn(f'format("slate") is not available: {exc!r}', RuntimeWarning, stacklevel=2)
        raise AttributeError(f"{__name__}.DefaultSource could not be loaded: {exc!r}") from exc
    return SlateDataSource
