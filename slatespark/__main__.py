"""`python -m slatespark`: the same as the command `slatespark`."""

from __future__ import annotations

from slatespark.cli.main import main

if __name__ == "__main__":
    main()
