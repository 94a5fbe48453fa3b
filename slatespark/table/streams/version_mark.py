"""What tells a version from another one of its number, as an older copy of the table has it that was written since.

Equal numbers of versions, rows and WAL files prove nothing: a job that commits regularly reaches the same ones again.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from slatespark.format.manifest import Manifest
from slatespark.table.log.versioned_object import Version

ID_DIGITS: Final = 16  # hexadecimal


@dataclass(frozen=True, slots=True)
class VersionMark:
    """A version, and an id that no other version of this number has.

    Attributes
    ----------
    id : 16 hexadecimal digits
    """

    version: int
    id: str


def mark_of(version: Version[Manifest]) -> VersionMark:
    """Return the mark of a version: its nonce; for a version of a client, which has none, a digest of random ids.

    Offsets hold it, so what is digested must stay the same. It is what a client's next version differs in: the ids of
    checkpoints, of the rows that were flushed last and of the newest run, and the epochs.
    """
    manifest = version.value
    if manifest.nonce:
        return VersionMark(version.number, f"{manifest.nonce:0{ID_DIGITS}x}")
    said = [manifest.writer_epoch, manifest.compactor_epoch, manifest.last_l0_seq, manifest.last_l0_clock_tick]
    said += [point.id.int for point in manifest.checkpoints]
    for tree in manifest.trees():
        marker, runs = tree.last_compacted_l0_sst_view_id, tree.compacted[:1]
        said.append(0 if marker is None else marker.value)
        said += [view.id.value for view in (*tree.l0[:1], *(view for run in runs for view in run.views[-1:]))]
    digest = hashlib.sha256(" ".join(map(str, said)).encode()).hexdigest()
    return VersionMark(version.number, digest[:ID_DIGITS])
