"""Export a table to Parquet with bounded memory, without Spark.

python examples/export_to_parquet.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from slatespark import SlateStore, TableNotFoundError


def main(folder: Path) -> None:
    """Write the rows of the table in `folder`, with their sequence numbers, to a file beside it."""
    try:
        store = SlateStore.open(str(folder))
    except TableNotFoundError:  # something to export
        store = SlateStore.create(str(folder))
        store.write(pa.table({"key": [b"%03d" % number for number in range(500)], "value": [b"some value"] * 500}))
    target = folder.with_name(f"{folder.name}.parquet")
    rows = 0
    with store.scan(metadataColumns=["seq", "create_ts"]) as batches, pq.ParquetWriter(target, batches.schema) as file:
        for batch in batches:
            file.write_batch(batch)
            rows += batch.num_rows
    print(f"{rows} rows of {store.url} are in {target}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "to-export"))
