"""One decoder under atheris: `python -m tests.fuzz.decoder TARGET FOLDER [options of libFuzzer]`."""

from __future__ import annotations

import sys
import warnings

import atheris


def main() -> None:
    target, *rest = sys.argv[1:]
    warnings.simplefilter("error")
    with atheris.instrument_imports(include=["slatespark"]):
        from tests.fuzz import checked_memory

        checked_memory.install()
        from tests.fuzz import targets

    def decode(data: bytes) -> None:
        checked_memory.forget_arrays()
        targets.run(target, data)

    atheris.Setup([sys.argv[0], *rest], decode)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
