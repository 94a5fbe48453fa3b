"""Run the corpus, and inputs near it: `python -m tests.fuzz.replay checked|guarded`; prints what failed as JSON.

`checked` looks at every access of kernels to memory, in plain Python; `guarded` runs their machine code.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Iterator

import numpy as np

_MEMORY_BYTES = 6 << 30
_PROCESSOR_S = 400


def main(mode: str, near: int) -> None:
    """Run all inputs of all decoders, each with `near` changed ones."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (_PROCESSOR_S, _PROCESSOR_S))
    from tests.fuzz import checked_memory, guarded_memory

    memory = checked_memory if mode == "checked" else guarded_memory
    memory.install()
    from tests.fuzz import targets
    from tests.fuzz.corpus import read_corpus

    if mode == "guarded":
        targets.place = guarded_memory.place
    failures, tried = {}, 0
    for target in targets.TARGETS:
        for number, data in enumerate(read_corpus(target)):
            for changed in (data, *_near(data, near, seed=number)):
                memory.forget_arrays()
                print(target, changed.hex(), file=sys.stderr, flush=True)  # a crash is of the last line
                tried += 1
                try:
                    targets.run(target, changed)
                except Exception as error:
                    failures[f"{target} {changed.hex()}"] = repr(error)
    print(json.dumps({"tried": tried, "failures": failures}))


def _near(data: bytes, count: int, *, seed: int) -> Iterator[bytes]:
    """Yield inputs with a bit changed, cut off, or a few bytes overwritten; the same ones each time."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        at = int(rng.integers(len(data) + 1))
        if number % 3 == 0 and at < len(data):
            yield data[:at] + bytes([data[at] ^ 1 << int(rng.integers(8))]) + data[at + 1 :]
        elif number % 3 == 1:
            yield data[:at]
        else:
            yield data[:at] + rng.bytes(int(rng.integers(1, 9))) + data[at + 4 :]


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
