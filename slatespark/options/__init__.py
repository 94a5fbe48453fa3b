"""Every option of reading and writing, stated once: key, type, default, check, documentation, and who takes it.

`reading` and `writing` declare the options, `properties` those that a table keeps in its definition. `fields` is the
machinery of declarations, `values` the parsers. Spark passes text and `SlateStore` passes Python values, so each
parser takes both. Below `spark/` and `cli/` only the typed objects travel. May import units, ranges, texts and errors.
"""

from __future__ import annotations

from slatespark.options.fields import Call, no_path, option_keys, option_rows
from slatespark.options.reading import ReadOptions, refuse_filter
from slatespark.options.writing import WriteOptions

__all__ = ["Call", "ReadOptions", "WriteOptions", "no_path", "option_keys", "option_rows", "refuse_filter"]
