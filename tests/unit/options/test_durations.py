"""Durations for which something is kept: a number without a unit is mostly meant as hours or days."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from slatespark import OptionError, SlateStore
from slatespark.options.values import MAX_TTL_MS, parse_min_age

ROWS = pa.table({"key": [b"a"], "value": [b"1"]})


@pytest.mark.parametrize("name", ["retention", "versionRetention"])
@pytest.mark.parametrize("value", [168, "168", 59_999])
def test_a_small_number_needs_a_unit(name: str, value: Any) -> None:
    with pytest.raises(OptionError, match=name):
        SlateStore.create("memory://durations/number", **{name: value})


@pytest.mark.parametrize("value", ["100ms", "7d", 3_600_000, timedelta(seconds=1), "none", "0"])
def test_durations_that_say_what_they_are(value: Any) -> None:
    store = SlateStore.create(f"memory://durations/{abs(hash(str(value)))}")
    store.setProperties(versionRetention=value)


def test_a_lifetime_needs_a_unit() -> None:
    store = SlateStore.create("memory://durations/lifetime")
    with pytest.raises(OptionError, match="lifetime"):
        store.createCheckpoint("daily", lifetime=24)
    store.createCheckpoint("daily", lifetime="24h")


@pytest.mark.parametrize("value", [168, "168", 0, 86_400_000])
def test_min_age_is_never_a_number(value: Any) -> None:
    with pytest.raises(OptionError, match="unit"):
        parse_min_age(value, is_forced=True)


def test_min_age_below_an_hour_is_forced() -> None:
    store = SlateStore.create("memory://durations/vacuum")
    for value in ("0s", "59m", timedelta(minutes=59)):
        with pytest.raises(OptionError, match="hour"):
            store.vacuum(value)
        store.vacuum(value, force=True)
        store.vacuum(value, dryRun=True)
    store.vacuum("1h")


@pytest.mark.parametrize(("force", "said"), [("Give --force", "--force"), (None, "Choose a longer one")])
def test_the_refusal_names_what_the_caller_has(force: str | None, said: str) -> None:
    with pytest.raises(OptionError, match=said) as refusal:
        parse_min_age("5m", is_forced=False, force=force)
    assert "force=True" not in str(refusal.value)


@pytest.mark.parametrize("ttl", [MAX_TTL_MS + 1, "366000d"])
def test_a_ttl_above_a_thousand_years(ttl: Any) -> None:
    store = SlateStore.create(f"memory://durations/ttl-{ttl}")
    for refused in (lambda: store.write(ROWS, ttl=ttl), lambda: store.setProperties(defaultTtl=ttl)):
        with pytest.raises(OptionError, match="1,000"):
            refused()
    store.write(ROWS, ttl=MAX_TTL_MS)
