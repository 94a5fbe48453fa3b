"""Verification of all versions of a table."""

from __future__ import annotations

import gc
import tracemalloc

import pyarrow as pa

from slatespark import SlateStore
from slatespark.format.manifest_codec import decode_manifest
from slatespark.format.paths import manifest_path, sst_path
from slatespark.format.ulid import Ulid
from slatespark.table.log.manifests import fetch_manifest
from slatespark.table.verify.plan import VersionSurvey


def test_memory_grows_with_what_differs_between_versions() -> None:
    store = SlateStore.create("memory://verify-many-versions", autoCompact=False)
    for number in range(20):
        store.write(pa.table({"key": [b"a", b"%d" % number, b"z"], "value": [b"v"] * 3}))
    data = bytes(store._stores.main.get(manifest_path(store.detail().version)))
    survey, held = VersionSurvey(), []
    tracemalloc.start()
    for number in range(12):
        assert list(survey.add(number, decode_manifest(data), {}, is_needed=False)) == []
        gc.collect()
        held.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert held[-1] < 2 * held[1]
    assert [version.number for version in survey.versions] == [*range(12)]
    assert [task.spans for task in survey.files()] == [[range(12)]] * 20
    assert [len(overlap.pairs) for overlap in survey.latest_overlaps()] == [20 * 19 // 2]


def test_a_file_that_comes_back_is_missed_in_all_of_its_versions() -> None:
    store = SlateStore.create("memory://verify-restored", autoCompact=False)
    row = pa.table({"key": [b"a"], "value": [b"1"]})
    first = store.write(row)
    file = store.files()[0]
    store.write(row, mode="overwrite")
    store.restoreToVersion(first)
    store._stores.main.delete(sst_path(Ulid.parse(file.id)))
    report = store.verify(allVersions=True)
    manifests = {version: fetch_manifest(store._stores, version) for version in report.versions}
    with_file = [version for version, manifest in manifests.items() if Ulid.parse(file.id) in manifest.ssts]
    assert with_file != [*range(with_file[0], with_file[-1] + 1)]
    [found] = [finding.what for finding in report.findings if file.id in finding.object]
    assert found.endswith(f"version {', '.join(map(str, with_file))} needs it.")
