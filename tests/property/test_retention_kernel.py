"""What a compaction keeps of a key: the compiled kernel gives what its plain twin gives."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE, MERGE, TOMBSTONE, Retention
from slatespark.kernels.results import Fields
from tests.support.effort import examples
from tests.unit.kernels.implementations import COMPILED, REFERENCE
from tests.unit.kernels.rows import same

MAX_SEQ = 2**64 - 1

times = st.integers(0, 6) | st.sampled_from([-(2**63), 2**63 - 1])
bounds = st.none() | times
retentions = st.builds(
    Retention,
    min_seq=st.integers(0, 12) | st.sampled_from([MAX_SEQ - 1, MAX_SEQ]),
    now_ms=bounds,
    floor_ms=bounds,
    retired_ms=bounds,
    drops_tombstones=st.booleans(),
)


@st.composite
def keys_of_versions(draw: st.DrawFn) -> tuple[Fields, NDArray[np.bool_]]:
    """Some keys, each with versions newest first."""
    seqs: list[int] = []
    first: list[bool] = []
    for _ in range(draw(st.integers(0, 4))):
        own = sorted(draw(st.sets(st.integers(0, 12) | st.just(MAX_SEQ), min_size=1, max_size=8)), reverse=True)
        seqs += own
        first += [True, *[False] * (len(own) - 1)]
    kinds = st.sampled_from([0, TOMBSTONE, MERGE, MERGE])
    flags = [draw(kinds) | draw(st.sampled_from([0, HAS_CREATE, HAS_EXPIRE, HAS_CREATE | HAS_EXPIRE])) for _ in seqs]
    flags = [flag & ~HAS_EXPIRE if flag & TOMBSTONE else flag for flag in flags]
    return (
        Fields(
            seqs=np.array(seqs, np.uint64),
            flags=np.array(flags, np.uint8),
            create_ts=np.array([draw(times) if flag & HAS_CREATE else 0 for flag in flags], np.int64),
            expire_ts=np.array([draw(times) if flag & HAS_EXPIRE else 0 for flag in flags], np.int64),
        ),
        np.array(first, np.bool_),
    )


@settings(max_examples=examples(100))
@given(keys_of_versions(), retentions)
def test_both_kernels_keep_the_same(versions: tuple[Fields, NDArray[np.bool_]], retention: Retention) -> None:
    compiled = COMPILED.retain_versions(*versions, retention)
    assert same(compiled, REFERENCE.retain_versions(*versions, retention))
