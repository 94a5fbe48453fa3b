"""A folder for temporary files that outlive a process."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def private_folder() -> Path | None:
    """Return a folder below that of temporary files, which only this user can write to; None if there is none."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    folder = Path(tempfile.gettempdir()) / f"slatespark-{user}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError:
        return None
    is_ours = not hasattr(os, "getuid") or (status.st_uid == user and not status.st_mode & 0o22)
    return folder if is_ours else None
