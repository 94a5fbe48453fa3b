"""All operations, and how often each is drawn."""

from __future__ import annotations

from typing import Final

from tests.simulation import clients, clones, log_streams, reads, streams, upkeep, writes
from tests.simulation.operations import Make

WRITERS: Final[list[Make]] = [
    writes.upsert,
    writes.upsert,
    writes.write_once,
    writes.append,
    writes.delete_keys,
    writes.delete_range,
    writes.delete_where,
    writes.replace_range,
    writes.overwrite,
    writes.ingest,
    writes.restore,
    writes.count_up,
    writes.gather,
]
KEEPERS: Final[list[Make]] = [
    upkeep.keep_up,
    clones.clone,
    clones.drop_clone,
    upkeep.compact,
    upkeep.compact,
    upkeep.reap,
    upkeep.set_properties,
    upkeep.checkpoint,
    upkeep.release,
    upkeep.verify,
]
READERS: Final[list[Make]] = [
    clones.read_clone,
    streams.follow,
    reads.scan,
    reads.scan,
    reads.look_up,
    reads.get,
    reads.read_version,
    reads.read_checkpoint,
    reads.read_changes,
]
COLLECTORS: Final[list[Make]] = [
    upkeep.vacuum,
    upkeep.vacuum,
    upkeep.erase,
]
CLIENTS: Final[list[Make]] = [clients.client]
COORDINATORS: Final[list[Make]] = [clients.coordinate]
COOPERATORS: Final[list[Make]] = [clients.work, clients.cooperate, clients.cooperate]
STREAMS: Final[list[Make]] = [streams.deliver]
KINDS: Final = (WRITERS, KEEPERS, COLLECTORS, READERS, CLIENTS, COORDINATORS, COOPERATORS, STREAMS)

ALL_READERS: Final[list[Make]] = [*READERS, log_streams.follow_log, log_streams.follow_log]
ALL_COOPERATORS: Final[list[Make]] = [*COOPERATORS, clients.withdraw]
ALL_KINDS: Final = (WRITERS, KEEPERS, COLLECTORS, ALL_READERS, CLIENTS, COORDINATORS, ALL_COOPERATORS, STREAMS)
