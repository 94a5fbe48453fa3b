"""Findings: what counts as damage, where a fault lies, and how many are kept."""

from __future__ import annotations

import pytest

from slatespark.errors import CorruptDataError, SlateError, UnavailableError, UnsupportedFormatError
from slatespark.table.verify.findings import MAX_FINDINGS, Finding, Findings, VerifyReport, key_text

DAMAGE = Finding("o", "block 1", 5, "bad")
UNCHECKED = Finding("o", "block 1", None, "gone", is_damage=False)


def test_findings_beyond_the_limit_are_counted() -> None:
    findings = Findings()
    for number in range(MAX_FINDINGS + 5):
        findings.damage("object", "block", str(number))
    assert (len(findings.items), findings.omitted) == (MAX_FINDINGS, 5)


@pytest.mark.parametrize(
    ("findings", "omitted", "has_damage", "is_complete"),
    [
        ((), 0, False, True),
        ((DAMAGE,), 0, True, True),
        ((UNCHECKED,), 0, False, False),
        ((UNCHECKED, DAMAGE), 0, True, False),
        ((UNCHECKED,), 1, True, False),
    ],
)
def test_the_verdict(findings: tuple[Finding, ...], omitted: int, has_damage: bool, is_complete: bool) -> None:
    report = VerifyReport("u", (1,), (), 1, 1, 1, findings, omitted)
    assert (report.has_damage, report.is_complete) == (has_damage, is_complete)


@pytest.mark.parametrize(
    ("error", "base", "offset", "is_damage"),
    [
        pytest.param(CorruptDataError("bad."), 100, 100, True, id="the part"),
        pytest.param(CorruptDataError("bad.", offset=7), 100, 107, True, id="within the part"),
        pytest.param(CorruptDataError("bad.", offset=7, path="p"), 100, 7, True, id="of the object"),
        pytest.param(CorruptDataError("bad.", offset=7), None, 7, True, id="no part"),
        pytest.param(CorruptDataError("bad.", offset=0), 100, 100, True, id="the first byte of the part"),
        pytest.param(CorruptDataError("bad."), None, None, True, id="nowhere"),
        pytest.param(UnavailableError("bad."), 100, None, False, id="not reached"),
        pytest.param(UnsupportedFormatError("bad."), 100, None, False, id="not known"),
    ],
)
def test_where_an_error_lies(error: SlateError, base: int | None, offset: int | None, is_damage: bool) -> None:
    findings = Findings()
    findings.error("o", "index", error, base)
    (found,) = findings.items
    assert (found.object, found.section, found.offset, found.is_damage) == ("o", "index", offset, is_damage)
    assert found.what.startswith("bad.")


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (None, "nothing"),
        (b"", ""),
        (b"\x00a", "0061"),
        (b"a" * 64, "61" * 64),
        (b"a" * 65, "61" * 64 + "... (65 bytes)"),
    ],
)
def test_keys_in_messages(key: bytes | None, text: str) -> None:
    assert key_text(key) == text
