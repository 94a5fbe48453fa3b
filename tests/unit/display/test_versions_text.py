from __future__ import annotations

from slatespark.display.versions_text import versions_text
from slatespark.table.inspection.versions import VersionFacts


def test_versions() -> None:
    found = [
        VersionFacts(3, 0, "write", "slatespark", "abc", 5, 7, {"put": 1200, "delete": 0}, 2, 14),
        VersionFacts(2, 0, "claim", "slatespark"),
        VersionFacts(1, 0, "cre\x1bate", None, None, 5, 5, {}, 0),
    ]
    assert versions_text(found).splitlines() == [
        "version  committed                 operation     rows       files  removed  seqs  engine      write",
        "      3  1970-01-01T00:00:00.000Z  write         1,200 put      2       14  5-7   slatespark  abc",
        "      2  1970-01-01T00:00:00.000Z  claim         -              -        -  -     slatespark  -",
        "      1  1970-01-01T00:00:00.000Z  cre\\u001bate  -              0        -  5     -           -",
    ]
