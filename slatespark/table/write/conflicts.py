"""Whether what a commit depends on is still as it was read. Source: design section 10."""

from __future__ import annotations

from slatespark.table.write.read_set import ReadSet as ReadSet
