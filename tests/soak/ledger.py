"""What was acknowledged, and whether readers show it: every key counts up, and only its writer writes it."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

DELETER: Final = b"deleter-"  # begins the keys that are deleted now and then
DELETES_EVERY: Final = 5  # numbers


@dataclass
class Ledger:
    """Numbers of all keys.

    Attributes
    ----------
    acknowledged : the last number that a writer was told is stored, by key
    attempted : the last number that a writer has tried to store
    outcomes : how often each actor succeeded, or failed, by the class of the error
    lost, wrong : what readers did not find, or found and may not
    stalls_s : the longest time from one success of an actor to the next
    """

    acknowledged: dict[bytes, int] = field(default_factory=dict)
    attempted: dict[bytes, int] = field(default_factory=dict)
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    stalls_s: dict[str, float] = field(default_factory=dict)
    _succeeded_s: dict[str, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def attempt(self, keys: Iterable[bytes]) -> dict[bytes, int]:
        """Return the next number of each key, which is to be written."""
        with self._lock:
            numbers = {key: self.attempted.get(key, 0) + 1 for key in keys}
            self.attempted |= numbers
            return numbers

    def acknowledge(self, numbers: Mapping[bytes, int]) -> None:
        """Note that numbers are stored."""
        with self._lock:
            self.acknowledged |= numbers

    def note(self, actor: str, outcome: str) -> None:
        """Count what came of an actor's step."""
        now_s = time.monotonic()
        with self._lock:
            self.outcomes[(actor, outcome)] += 1
            if outcome == "done":
                stall_s = now_s - self._succeeded_s.get(actor, now_s)
                self.stalls_s[actor] = max(self.stalls_s.get(actor, 0.0), stall_s)
                self._succeeded_s[actor] = now_s

    def state(self) -> tuple[dict[bytes, int], dict[bytes, int]]:
        """Return what was acknowledged, and attempted, until now."""
        with self._lock:
            return dict(self.acknowledged), dict(self.attempted)

    @staticmethod
    def deletes(key: bytes, number: int) -> bool:
        """Whether a number of a key stands for its deletion."""
        return key.startswith(DELETER) and number % DELETES_EVERY == 0

    def compare(self, who: str, shown: Mapping[bytes, int], before: Mapping[bytes, int]) -> None:
        """Judge a read: it shows what was acknowledged before it began, and nothing that nobody has written."""
        _, attempted = self.state()
        for key, number in before.items():
            if key not in shown and any(self.deletes(key, later) for later in range(number, attempted[key] + 1)):
                continue
            if shown.get(key, 0) < number:
                self.lost.append(f"{who}: {key!r} shows {shown.get(key)}, and {number} was acknowledged")
        for key, number in shown.items():
            if number > attempted.get(key, 0) or self.deletes(key, number):
                self.wrong.append(f"{who}: {key!r} shows {number}, and {attempted.get(key)} was the last one written")
