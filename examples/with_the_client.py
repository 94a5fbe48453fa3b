"""The SlateDB client and slatespark on one database, in turns. Needs `pip install slatedb==0.17.0`.

python examples/with_the_client.py [FOLDER]
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
from slatedb import uniffi

from slatespark import SlateStore


async def put_with_client(folder: Path, rows: Mapping[bytes, bytes]) -> None:
    """Open the database for writing, as an application would, and put some rows."""
    place = uniffi.ObjectStoreBuilder(uniffi.ObjectStoreType.LOCAL)
    place.with_url(str(folder.parent))
    db = await uniffi.DbBuilder(folder.name, place.build()).build()
    try:
        for key, value in rows.items():
            await db.put(key, value)
    finally:
        await db.shutdown()  # a commit of ours would shut it out; so it is closed first


def main(folder: Path) -> None:
    """Let the client write, then slatespark, then the client again; both see everything."""
    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    asyncio.run(put_with_client(folder, {b"client/1": b"first", b"shared": b"from the client"}))

    store = SlateStore.open(str(folder))
    store.write(pa.table({"key": [b"bulk/1", b"shared"], "value": [b"loaded", b"from the load"]}))

    asyncio.run(put_with_client(folder, {b"client/2": b"second"}))
    for row in store.scan(metadataColumns=["seq"]).read_all().to_pylist():
        print(row["_seq"], row["key"].decode(), row["value"].decode(), sep="\t")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "with-the-client"))
