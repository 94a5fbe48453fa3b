"""What Linux says of a process and of those it started."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def descendants(pid: int) -> list[int]:
    """Return the processes that a process started, and those that they started, as far as they live."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child), *descendants(int(child))]
    return found


def command_of(pid: int) -> str:
    """Return the command line of a process; empty if it is gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process and its descendants, those that ended and were waited for included."""
    return sum(_own_and_waited(one) for one in [pid, *descendants(pid)])


def _own_and_waited(pid: int) -> float:
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")  # utime, stime, cutime, cstime
    return 0.0


def read_bytes() -> int:
    """Return how many bytes this process has read from files by system calls, from memory or disk."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("rchar")))


def anonymous_bytes(pid: int) -> int:
    """Return `RssAnon` of a process; 0 if it is gone."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    return 0
