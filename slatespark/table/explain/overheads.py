"""What operations request besides their work: to claim, publish and record. Measured; tests hold the bounds.

They depend on what else is in the table (checkpoints, jobs of others, a WAL), so they are ranges. Bytes are those of
manifests and records, in proportion to what the plan has read of them.
"""

from __future__ import annotations

from typing import Final

from slatespark.options import WriteOptions
from slatespark.storage.requests import Requests, upload_requests
from slatespark.table.columns.write import WINDOW_BYTES
from slatespark.table.explain.cost import RequestRange

_COMMIT: Final = RequestRange(Requests(get=3, put=5, list=5, delete=1), Requests(get=90, put=20, list=60, delete=10))
_DEFINITION: Final = RequestRange(Requests(), Requests(get=6, put=2, list=4))
_COLLECTION: Final = RequestRange(Requests(), Requests(get=12, put=4, list=8))
_RELEASE: Final = RequestRange(Requests(), Requests(get=60, put=20, list=40, delete=10))
_READS_OF_A_PLAN: Final = 30  # a commit reads manifest and definition this many times as often as a plan, at most
_GROWTH: Final = 1.25  # of rewritten data, where it is compressed or cut into blocks in another way
_SECTION_BYTES: Final = 64 << 10  # of a new file besides its rows, beyond those of the sources
_COPY_GROWTH: Final = 8  # of a compressed file in its columnar copy, in the worst case
_OBJECT_BYTES: Final = 64 << 10  # of small objects, such as records, all together


def commits(count: int, planning: Requests) -> RequestRange:
    """Return the requests of some commits; `planning` are those of the plan before them."""
    high = _bytes(planning)
    return sum((_COMMIT + high for _ in range(count)), RequestRange())


def definition_change(planning: Requests) -> RequestRange:
    """Return the requests to record something in the definition, if it is not there yet."""
    return _DEFINITION + _bytes(planning)


def collection(planning: Requests, *, leases: int, releases: int) -> RequestRange:
    """Return the requests to declare versions dead, and to look again.

    Parameters
    ----------
    leases : number of deleted leases, each read once more
    releases : checkpoints and jobs that are released first
    """
    look = Requests(get=planning.get + 3 * leases, list=planning.list)
    found = _COLLECTION + _bytes(planning) + RequestRange(Requests(), look)
    return found + (_RELEASE if releases else RequestRange())


def upload(options: WriteOptions, read_bytes: int) -> RequestRange:
    """Return the requests to store what is left of rewritten rows: at most about as much as was read."""
    most_bytes = int(_GROWTH * read_bytes) + _SECTION_BYTES
    files = most_bytes // options.sst_bytes + 1
    largest = min(most_bytes, options.sst_bytes)
    return RequestRange(Requests(), Requests(put=files * upload_requests(largest), written_bytes=most_bytes))


def copied(options: WriteOptions, file_bytes: int) -> RequestRange:
    """Return the requests to write columnar copies of files of about that size together: they are read, twice at most.

    A copy is at most about as large as its SST uncompressed; what it saves is not known before.
    """
    files = file_bytes // options.sst_bytes + 1
    windows = 2 * (file_bytes // WINDOW_BYTES + 2 * files)
    puts = files * upload_requests(_COPY_GROWTH * min(file_bytes, options.sst_bytes) + _SECTION_BYTES)
    written = _COPY_GROWTH * file_bytes + files * _SECTION_BYTES
    most = Requests(get=windows + 2 * files, put=puts, list=1, read_bytes=3 * file_bytes, written_bytes=written)
    return RequestRange(Requests(), most)


def _bytes(planning: Requests) -> RequestRange:
    most = _READS_OF_A_PLAN * planning.read_bytes + _OBJECT_BYTES
    return RequestRange(Requests(), Requests(read_bytes=most, written_bytes=most))
