"""Tables in Polars: `scan_slate`, a lazy frame that reads only the columns and blocks that a query needs.

Needs the extra `polars`. Nothing else of slatespark imports Polars.
"""

from slatespark.polars.scan import scan_slate

__all__ = ["scan_slate"]
