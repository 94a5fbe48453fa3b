"""Numbers in the explanations are those of the code."""

from __future__ import annotations

from slatespark.encoding.predicates.key_plan import MAX_POINTS, MAX_RANGES
from slatespark.encoding.predicates.literals import MAX_DIGITS
from slatespark.format.sst import MIN_FILTER_KEYS
from slatespark.options.defaults import (
    HEARTBEAT_INTERVAL,
    INCLUDE_SIZE_THRESHOLD,
    MAX_COMPACTION_SOURCES,
    MAX_INTERVAL,
    MIN_AGE,
    MIN_COMPACTION_SOURCES,
    MIN_INTERVAL,
    POLL_INTERVAL,
)
from slatespark.spark.java import NEWEST_JAVA, OLDEST_JAVA
from slatespark.storage.local_store import MAP_BYTES
from slatespark.storage.remote_store import MAX_GAP_BYTES, MAX_MERGED_BYTES
from slatespark.storage.retry import RetryPolicy
from slatespark.table.commit.active_jobs import HEARTBEAT_FRESH_MS
from slatespark.table.commit.backoff import MAX_COMMIT_ATTEMPTS
from slatespark.table.compaction import auto, filter_rows, periodic_plan, small_runs
from slatespark.table.log.manifests import MAX_AHEAD_MS
from slatespark.table.read.arrow import MAX_BATCH_BYTES, MAX_BATCH_ROWS
from slatespark.table.read.descending import DESCENDING_SPLIT_BYTES
from slatespark.table.read.fetch import WAL_BYTES_AHEAD, WAL_FILES_AHEAD
from slatespark.table.read.merge.cursor import MAX_WINDOW_BYTES, MIN_WINDOW_BYTES
from slatespark.table.read.planning.plan import MAX_SAMPLED_INDEXES
from slatespark.table.read.section_cache import METADATA_BYTES, VARIABLE
from slatespark.table.records.leases import LEASE_LIFETIME_MS
from slatespark.table.rows.encoder import MAX_KEY_BYTES
from tests.docs.pages import REPOSITORY

KIB, MIB = 1 << 10, 1 << 20
RETRIES = RetryPolicy()
SECONDS = {10: "ten seconds"}
PARTS = {8: "an eighth"}

FACTS = {
    "docs/explanation/speed.md": [
        f"from {MIN_WINDOW_BYTES // KIB} KiB to {MAX_WINDOW_BYTES // MIB} MiB each",
        f"{METADATA_BYTES // MIB} MiB per process (`{VARIABLE}`)",
        f"{MAX_BATCH_ROWS:,} rows and {MAX_BATCH_BYTES // MIB} MiB",
        f"{MAP_BYTES // KIB} KiB or more",
        f"up to {MAX_SAMPLED_INDEXES} of the largest files",
        f"less than {MAX_GAP_BYTES // MIB} MiB apart",
        f"to {MAX_MERGED_BYTES // MIB} MiB",
        f"up to {WAL_BYTES_AHEAD // MIB} MiB of files ahead",
    ],
    "docs/reference/requests.md": [
        f"up to {WAL_FILES_AHEAD + 1} or {WAL_BYTES_AHEAD // MIB} MiB ahead",
        f"{METADATA_BYTES // MIB} MiB of decoded indexes and filters",
    ],
    "docs/how-to/automatic-compaction.md": [
        f"leaves {small_runs.MIN_RUNS} or more runs below {small_runs.SMALL_BYTES // MIB} MiB",
        f"at most {PARTS[auto.WRITES_PER_ROUND]} of all segments",
        f"at least {small_runs.MIN_SERIES} and at most {small_runs.MAX_RUNS} of them",
        f"{small_runs.MAX_RUNS * small_runs.SMALL_BYTES >> 30} GiB at most",
        f"the oldest {periodic_plan.MAX_FILES} of them, or the oldest {periodic_plan.MAX_BYTES >> 30} GiB",
    ],
    "docs/how-to/compaction-filters.md": [
        f"{MAX_BATCH_ROWS:,} versions or {MAX_BATCH_BYTES // MIB} MiB",
        f"more than {filter_rows.MAX_KEY_BYTES // MIB} MiB",
    ],
    "docs/explanation/architecture.md": [f"the {MAX_SAMPLED_INDEXES} largest files"],
    "docs/explanation/how-a-commit-works.md": [
        f"up to {MAX_COMMIT_ATTEMPTS} times",
        f"expires after {LEASE_LIFETIME_MS // 3_600_000} hours",
    ],
    "docs/how-to/work-beside-a-live-client.md": [
        f"within the last {HEARTBEAT_FRESH_MS // 1000} seconds",
        f"the race is lost {MAX_COMMIT_ATTEMPTS} times",
    ],
    "docs/how-to/troubleshooting.md": [
        f"more than {SECONDS[MAX_AHEAD_MS // 1000]} ahead",
        f"faster {MAX_COMMIT_ATTEMPTS} times in a row",
        f"No Java {OLDEST_JAVA} to {NEWEST_JAVA} was found",
    ],
    "docs/how-to/bulk-load.md": [f"{MAX_KEY_BYTES:,} bytes", f"below {MIN_FILTER_KEYS:,} rows"],
    "docs/reference/object-stores.md": [f"from {RETRIES.first_wait_s:g} to {RETRIES.longest_wait_s:g} seconds"],
    "docs/reference/options.md": [
        f"writes that leave {small_runs.MIN_RUNS} or more runs below {small_runs.SMALL_BYTES // MIB} MiB",
        f"Files below {MIN_FILTER_KEYS:,} rows get none",
    ],
    "docs/reference/table-metadata.md": [
        f"leave {small_runs.MIN_RUNS} or more below {small_runs.SMALL_BYTES // MIB} MiB",
    ],
    "docs/reference/filter.md": [
        f"More than {MAX_RANGES:,} ranges",
        f"More than {MAX_POINTS:,} lookups",
        f"at most {MAX_DIGITS} digits",
    ],
    "docs/reference/slate-store.md": [
        f"at most {MAX_BATCH_ROWS:,} rows, and {MAX_BATCH_BYTES // MIB} MiB",
        f"{DESCENDING_SPLIT_BYTES // MIB} MiB unless given",
        f'store.vacuum(minAge="{MIN_AGE}"',
        f'Reaper(tables=(), *, minInterval="{MIN_INTERVAL}", maxInterval="{MAX_INTERVAL}"',
        f'Upkeep(tables=(), *, minInterval="{MIN_INTERVAL}", maxInterval="{MAX_INTERVAL}", duties=None, '
        f'minAge="{MIN_AGE}"',
    ],
    "docs/reference/slate-table.md": [f'vacuum(minAge="{MIN_AGE}"'],
    # Signatures of the generated pages name the constants alone, so the docstrings tell the values.
    "slatespark/slate_store/maintenance.py": [
        f"`{MIN_AGE}` by default",
        f"{MIN_COMPACTION_SOURCES} and {MAX_COMPACTION_SOURCES} by default",
        f"{INCLUDE_SIZE_THRESHOLD:g} by default",
    ],
    "slatespark/spark/slate_table/upkeep.py": [f"`{MIN_AGE}` by default"],
    "slatespark/spark/jobs/compaction_worker.py": [
        f"`{POLL_INTERVAL}` by default",
        f"`{HEARTBEAT_INTERVAL}` by default",
    ],
    "slatespark/table/upkeep/reaper.py": [f"`{MIN_INTERVAL}` and `{MAX_INTERVAL}` by default"],
    "slatespark/table/upkeep/upkeep.py": [f"`{each}` by default" for each in (MIN_INTERVAL, MAX_INTERVAL, MIN_AGE)],
}


def test_numbers_are_those_of_the_code() -> None:
    stale = [
        f"{name}: {fact}"
        for name, facts in FACTS.items()
        for text in [" ".join((REPOSITORY / name).read_text().split())]
        for fact in facts
        if fact not in text
    ]
    assert not stale
