"""Hostile bytes: every decoder ends with a result or an error of ours, within its time, its memory and its arrays."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.fuzz.corpus import read_corpus
from tests.fuzz.targets import TARGETS
from tests.support.cluster import REPOSITORY
from tests.support.effort import examples


def replay(mode: str, near: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.fuzz.replay", mode, str(near)],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "SLATESPARK_KERNELS": ""},
    )


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "near"), [("checked", 1), ("guarded", 6)])
def test_only_errors_of_ours(mode: str, near: int) -> None:
    done = replay(mode, examples(near))
    last = done.stderr.splitlines()[-1:]
    assert done.returncode == 0, (done.returncode, last, done.stderr[-2000:] if done.returncode > 0 else "")
    found = json.loads(done.stdout)
    assert found["failures"] == {}
    assert found["tried"] > 1000


def test_every_decoder_has_a_corpus() -> None:
    assert [target for target in TARGETS if len(read_corpus(target)) < 3] == []


OVERRUN = """
import numpy as np
from tests.fuzz import {memory}
{memory}.install()
from slatespark.kernels import decode, decode_v2
sources = {sources}
decode_v2.decode_v2(decode.address_of(sources), 0, 0, 0, 0, 0, decode.address_of(sources))
"""


@pytest.mark.parametrize(
    ("memory", "sources"),
    [("checked_memory", "np.zeros(3, np.uint8)"), ("guarded_memory", "guarded_memory.guarded(3)")],
)
def test_an_overrun_is_seen(memory: str, sources: str) -> None:
    """The record of the decoder has 16 words; this one ends after 3 bytes."""
    done = subprocess.run(
        [sys.executable, "-c", OVERRUN.format(memory=memory, sources=sources)],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "SLATESPARK_KERNELS": ""},
    )
    assert done.returncode != 0
    assert done.returncode < 0 or "OverrunError" in done.stderr
