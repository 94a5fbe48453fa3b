"""Positions in a filter, as errors show them."""

from __future__ import annotations

import pytest

from slatespark.encoding.predicates.source_span import SourceSpan, filter_error

LETTERS = "a" * 40


@pytest.mark.parametrize(
    ("text", "start", "end", "shown"),
    [
        ("a = b", 4, 5, "at character 5: `a = >>>b<<<`"),
        ("a = b", 0, 1, "at character 1: `>>>a<<< = b`"),
        ("a = ", 4, 4, "at the end of the text, after `a = `"),
        ("", 0, 0, "at the end of the text, after ``"),
        (f"{LETTERS}x{LETTERS}", 40, 41, f"at character 41: `{LETTERS}>>>x<<<{LETTERS}`"),
        (f"b{LETTERS}x{LETTERS}b", 41, 42, f"at character 42: `...{LETTERS}>>>x<<<{LETTERS}...`"),
        (f"x{LETTERS}b", 0, 42, f"at character 1: `>>>x{LETTERS[:39]}<<<`"),
        (f"b{LETTERS}", 41, 41, f"at the end of the text, after `...{LETTERS}`"),
    ],
)
def test_the_text_around_a_position(text: str, start: int, end: int, shown: str) -> None:
    assert str(SourceSpan(text, start, end)) == shown


def test_errors_name_the_argument() -> None:
    error = filter_error("unexpected 'b'", SourceSpan("b", 0, 1, "condition"), todo="Do this.")
    assert error.args[0] == "condition: unexpected 'b' at character 1: `>>>b<<<`."
    assert error.todo == "Do this."
    assert filter_error("unexpected 'b'", None).args[0] == "filter: unexpected 'b'."
