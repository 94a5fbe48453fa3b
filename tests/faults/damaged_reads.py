"""A program that reads a database damaged in many ways, and prints what came of each; it must not crash."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

from slatespark import SlateError
from tests.faults.damage import Damage, InMemory, damages, live_objects, read_objects, resealed, scan_table


def main(folder: str, count: int) -> None:
    in_memory = InMemory(read_objects(Path(folder)))
    rng = np.random.default_rng(7)
    outcomes = {}
    for path, kind in live_objects(in_memory.objects).items():
        for damage in damages(in_memory.objects, path, kind, rng, count=2):
            outcomes[damage.name] = outcome(in_memory, damage)
        if kind != "manifest":
            for damage in resealed(in_memory.objects, path, rng, count=count):
                outcomes[damage.name] = outcome(in_memory, damage)
    print(json.dumps(outcomes))


def outcome(in_memory: InMemory, damage: Damage) -> str:
    """The class of the error, or a digest of the rows."""
    try:
        table = scan_table(in_memory.open(damage.path, damage.data))
    except SlateError as error:
        return type(error).__name__
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return hashlib.sha256(sink.getvalue()).hexdigest()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
