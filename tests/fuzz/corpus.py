"""The corpus: for each decoder small inputs that together reach what is known of it, one a line, in base64."""

from __future__ import annotations

import base64
import contextlib
import sys
from collections.abc import Iterable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, TypeAlias

import slatespark
from tests.fuzz.targets import run

CORPUS: Final = Path(__file__).parent.parent / "data" / "fuzz"
MAX_INPUT_BYTES: Final = 4096
MAX_TARGET_BYTES: Final = 24 << 10  # of the inputs of one decoder, in the repository

_PACKAGE: Final = str(Path(slatespark.__file__).parent)

Step: TypeAlias = tuple[CodeType, int, int]  # from one line of a function to another


def read_corpus(target: str) -> list[bytes]:
    """Return the inputs of a decoder."""
    path = CORPUS / f"{target}.txt"
    return [base64.b64decode(line) for line in path.read_text().splitlines()] if path.exists() else []


def write_corpus(target: str, inputs: Iterable[bytes]) -> None:
    """Store the inputs of a decoder, the short ones first."""
    CORPUS.mkdir(parents=True, exist_ok=True)
    lines = [base64.b64encode(each).decode() + "\n" for each in sorted(set(inputs), key=lambda each: (len(each), each))]
    (CORPUS / f"{target}.txt").write_text("".join(lines))


def steps_of(target: str, data: bytes) -> set[Step]:
    """Return the steps from line to line that an input makes in the package."""
    steps: set[Step] = set()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith(_PACKAGE):
            return None
        last = 0

        def trace_line(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal last
            if event == "line":
                steps.add((code, last, frame.f_lineno))
                last = frame.f_lineno
            return trace_line

        return trace_line

    sys.settrace(trace)
    try:
        with contextlib.suppress(Exception):  # whoever replays it finds it
            run(target, data)
    finally:
        sys.settrace(None)
    return steps


def minimise(target: str, inputs: Iterable[bytes]) -> tuple[list[bytes], set[Step]]:
    """Return the inputs, short ones first, that make steps which none before made; and all of these steps."""
    kept: list[bytes] = []
    seen: set[Step] = set()
    left = MAX_TARGET_BYTES
    for data in sorted(set(inputs), key=lambda each: (len(each), each)):
        if len(data) > min(left, MAX_INPUT_BYTES):
            continue
        steps = steps_of(target, data)
        if steps - seen:
            kept.append(data)
            left -= len(data)
        seen |= steps
    return kept, seen
