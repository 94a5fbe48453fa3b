"""What a commit record says of the files of a commit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from slatespark.format.manifest import Manifest
from slatespark.table.read.versions.file_properties import record_file
from slatespark.table.records.commit_record import merge_counts
from slatespark.table.rows.sst_upload import NewFile


def count_rows(files: Iterable[NewFile]) -> dict[str, int]:
    """Return how many puts, deletes and merges files hold."""
    known = [file.properties for file in files]
    return merge_counts([{"put": each.puts, "delete": each.deletes, "merge": each.merges} for each in known])


def removed_files(before: Manifest, after: Manifest) -> list[str]:
    """Return the ids of the files of a version that the next one no longer has."""
    return [str(sst_id) for sst_id in before.ssts if sst_id not in after.ssts]


def describe_files(files: Iterable[NewFile]) -> dict[str, dict[str, Any]]:
    """Return the entries of files, by id."""
    return {str(file.handle.id): record_file(file.handle, file.properties) for file in files}
