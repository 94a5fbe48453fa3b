"""Make the tables of a release: `python -m tests.upgrades.make` writes `tests/data/slatespark-<version>/`.

Run it once, with the release that the folder is named after: later releases must read what that one wrote. What the
tables must show comes from the model in `kept`, never from a read.
"""

from __future__ import annotations

import json
import shutil
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path

from tests.upgrades.kinds import KINDS
from tests.upgrades.kinds_of_time import KINDS_OF_TIME

DATA = Path(__file__).parent.parent / "data"


def main(target: Path) -> None:
    """Write the tables as an archive, and what they show as JSON."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    expected = {}
    with tempfile.TemporaryDirectory() as folder, tarfile.open(target / "tables.tar.xz", "w:xz", preset=9) as archive:
        for name, make in {**KINDS, **KINDS_OF_TIME}.items():
            root = Path(folder) / name
            root.mkdir()
            expected[name] = make(root).expected()
            archive.add(root, name, filter=_anonymous)
    text = json.dumps(expected, indent=1, ensure_ascii=False, sort_keys=True)
    (target / "expected.json").write_text(text + "\n", encoding="utf-8")


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    main(DATA / f"slatespark-{version('slatespark')}")
