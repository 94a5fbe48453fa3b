"""`python -m slatespark.cli`."""

from __future__ import annotations

from slatespark.cli.main import main

if __name__ == "__main__":
    main()
