"""Pages that use Spark share the session of the tests below `tests/spark/`."""

from __future__ import annotations

from tests.spark.conftest import spark

__all__ = ["spark"]
