"""Count what a SlateDB client writes while it stays open, by a stream. Needs `pip install slatedb==0.17.0`.

python examples/follow_a_client.py [FOLDER]
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from slatedb import uniffi

ITEMS = (b"tea", b"rice", b"salt")
ORDERS = 100  # are enough for this example


async def take_orders(folder: Path, is_open: threading.Event, ends: threading.Event) -> int:
    """Open the database as an application would, put an order every few milliseconds, and return how many."""
    place = uniffi.ObjectStoreBuilder(uniffi.ObjectStoreType.LOCAL)
    place.with_url(str(folder.parent))
    db = await uniffi.DbBuilder(folder.name, place.build()).build()
    is_open.set()
    count = 0
    while not ends.is_set():
        await db.put(b"order/%06d" % count, ITEMS[count * count % 7 % len(ITEMS)])
        count += 1
        await asyncio.sleep(0.01)
    await db.shutdown()
    return count


def main(spark: SparkSession, folder: Path) -> None:
    """Count orders for a while, as the client writes them; nothing is flushed to L0 meanwhile."""
    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    is_open, ends = threading.Event(), threading.Event()
    taken: list[int] = []
    client = threading.Thread(target=lambda: taken.append(asyncio.run(take_orders(folder, is_open, ends))), daemon=True)
    client.start()
    is_open.wait(60)  # seconds

    counts: Counter[str] = Counter()

    def count(batch: DataFrame, number: int) -> None:
        counts.update({row["item"]: row["count"] for row in batch.groupBy("item").count().collect()})
        print(f"batch {number}: {counts.total()} orders so far")

    given = {"readChangeFeed": "true", "changes": "log", "startingVersion": "1", "pollInterval": "100ms"}
    orders = spark.readStream.format("slate").options(**given).load(str(folder))
    writer = orders.selectExpr("CAST(value AS STRING) AS item").writeStream.foreachBatch(count)
    query = writer.option("checkpointLocation", f"{folder}-counted").start()
    while counts.total() < ORDERS and query.isActive:
        query.awaitTermination(1)  # seconds; it raises what ended the query

    ends.set()
    client.join()
    while counts.total() < taken[0] and query.isActive:
        query.awaitTermination(1)
    query.stop()
    print(dict(sorted(counts.items())), "of", taken[0])


if __name__ == "__main__":
    main(
        SparkSession.builder.master("local[2]").getOrCreate(),
        Path(sys.argv[1] if len(sys.argv) > 1 else "orders"),
    )
