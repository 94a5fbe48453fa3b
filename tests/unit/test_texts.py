from __future__ import annotations

import json

import pytest

from slatespark.texts import align_facts, align_table, bytes_text, listed, name_some, numbers_text, printable_lines


def test_a_table_aligns_numbers_on_the_right() -> None:
    text = align_table(["name", "rows"], [["a", "1,000"], ["long one", "7"]], right={"rows"})
    assert text == "name       rows\na         1,000\nlong one      7"


def test_facts_keep_further_lines_in_their_column() -> None:
    assert align_facts([("a", "1\n2"), ("long", "3")]) == "a     1\n      2\nlong  3"
    assert align_facts([]) == ""


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"plain", "plain"),
        ("größer".encode(), "größer"),
        (b"\xff\x00", "0xff00"),
        (b"a\x1b[2Jb\n", "a\\u001b[2Jb\\n"),
        (b"", ""),
    ],
)
def test_bytes_as_text_never_command_the_terminal(data: bytes, text: str) -> None:
    assert bytes_text(data, as_text=True) == text
    assert bytes_text(data, as_text=False) == data.hex()


def test_numbers_join_what_follows_each_other() -> None:
    assert numbers_text([1, 2, 3, 7, 9, 10]) == "1-3, 7, 9-10"
    assert numbers_text([]) == "-"


def test_a_message_names_the_first_few() -> None:
    assert name_some("abcde") == "a; b; c; d; e"
    assert name_some("abcdef", ", ") == "a, b, c, d, e and others"


def test_a_message_lists_the_columns_of_a_wide_table_in_part() -> None:
    names = [f"c{number}" for number in range(2000)]
    assert listed(names[:30]) == ", ".join(names[:30])
    assert listed(names) == f"{', '.join(names[:30])} and 1,970 others"
    assert listed([]) == ""


EVIL = "a\x1b[2J\x9b31m\u202e"
TAMED = "a\\u001b[2J\\u009b31m\\u202e"


def test_tables_and_facts_never_command_the_terminal() -> None:
    assert align_table([EVIL, "b"], [["1", EVIL + "\n"]]).split("\n") == [
        f"{TAMED}  b",
        f"{'1'.ljust(len(TAMED))}  {TAMED}\\n",
    ]
    assert align_facts([("a", f"1\n{EVIL}")]) == f"a  1\n   {TAMED}"


def test_lines_stay_lines_and_json_the_same_value() -> None:
    assert printable_lines(f"{EVIL}\n{EVIL}") == f"{TAMED}\n{TAMED}"
    text = json.dumps({EVIL: ["\U000e0001", "ä\u00a0"]}, indent=2, ensure_ascii=False)
    assert printable_lines(text) != text
    assert json.loads(printable_lines(text)) == json.loads(text)
