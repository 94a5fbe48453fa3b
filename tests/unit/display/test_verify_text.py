from __future__ import annotations

from slatespark.display.verify_text import finding_text, verify_text
from slatespark.table.verify.findings import Finding, VerifyReport


def test_findings_say_where_and_what() -> None:
    damage = Finding("file:///t/wal/1.sst", "block 3", 4096, "It is wrong.")
    gap = Finding("file:///t", "WAL", None, "It is elsewhere.", is_damage=False)
    assert finding_text(damage) == "file:///t/wal/1.sst at byte 4,096 (block 3): It is wrong."
    report = VerifyReport("file:///t", (4, 5), (4,), 3, 2048, 10, (damage, gap), omitted=2)
    assert verify_text(report).splitlines()[1:] == [
        "file:///t (WAL): not checked: It is elsewhere.",
        "2 more findings are not listed.",
        "Note: files of version 4 were garbage-collected; such versions can no longer be read.",
        "Read 3 objects, 2.0 KiB, 10 row versions; version 4-5 of file:///t.",
        "3 faults found, 1 part could not be checked.",
    ]


def test_rows_of_the_wal_are_counted_apart() -> None:
    report = VerifyReport("t", (1,), (), 3, 1, 369, (), wal_rows=167)
    assert "369 row versions" in verify_text(report)
    assert "167 are in WAL files" in verify_text(report)


def test_a_sound_table_is_called_so() -> None:
    assert verify_text(VerifyReport("t", (1,), (), 1, 1, 0, ())).endswith("No faults found.")


def test_what_an_object_holds_does_not_command_the_terminal() -> None:
    finding = Finding("file:///a\x1b[2J", "manifest", None, "is \x9b31m\n\u202e")
    report = VerifyReport("file:///t", (1,), (), 1, 1, 1, (finding,))
    first, *others = verify_text(report).split("\n")
    assert first == "file:///a\\u001b[2J (manifest): is \\u009b31m\\n\\u202e"
    assert len(others) == 2
