"""A load into a database that a SlateDB client has open and writes to. Needs `pip install slatedb==0.17.0`.

The client commits the rows itself: it is not fenced, and writes on.

python examples/load_beside_a_client.py [FOLDER]
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pyarrow as pa
from slatedb import uniffi

from slatespark import SlateStore

ROWS = 1000


def load(folder: Path) -> None:
    """Load rows, as a job on another machine would: `cooperate` hands them to the client."""
    rows = pa.table({"key": [b"bulk/%04d" % n for n in range(ROWS)], "value": [b"%d" % n for n in range(ROWS)]})
    version = SlateStore.open(str(folder)).write(rows, ifClientActive="cooperate")
    print(f"loaded {ROWS} rows; version {version}")


async def serve(folder: Path) -> None:
    """Open the database as an application would, and put rows until the load is committed."""
    settings = uniffi.Settings.default()
    settings.set("compactor_options.poll_interval", '"100ms"')  # 5s by default: this example is in a hurry
    place = uniffi.ObjectStoreBuilder(uniffi.ObjectStoreType.LOCAL)
    place.with_url(str(folder.parent))
    builder = uniffi.DbBuilder(folder.name, place.build())
    builder.with_settings(settings)
    db = await builder.build()
    await db.put(b"client/0000", b"before the load")
    await db.flush_with_options(uniffi.FlushOptions(flush_type=uniffi.FlushType.MEM_TABLE))

    loading = asyncio.create_task(asyncio.to_thread(load, folder))
    count = 1
    while not loading.done():
        await (await db.put(b"client/%04d" % count, b"during the load")).await_durable()
        count += 1
    await loading
    await (await db.put(b"client/last", b"after the load")).await_durable()
    print("the client was never interrupted:", db.status().close_reason is None)
    await db.shutdown()


def main(folder: Path) -> None:
    """Let a client write all the time, load beside it, and look at everything."""
    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    asyncio.run(serve(folder))
    keys = SlateStore.open(str(folder)).scan(columns=["key"]).read_all()["key"].to_pylist()
    print(sum(key.startswith(b"bulk/") for key in keys), "rows of the load, and the last one of the client:", keys[-1])


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "load-beside-a-client"))
