from __future__ import annotations

from slatespark.table.upkeep.agenda import Agenda


def test_the_first_one_comes_first() -> None:
    agenda: Agenda[str] = Agenda()
    for name, at_ms in (("late", 30), ("early", 10), ("also early", 10)):
        agenda.put(name, at_ms)
    assert agenda.next_ms() == 10
    assert agenda.entries() == [("early", 10), ("also early", 10), ("late", 30)]
    assert [agenda.pop_due(29) for _ in range(3)] == ["early", "also early", None]
    assert agenda.pop_due(30) == "late"
    assert agenda.next_ms() is None


def test_removal() -> None:
    agenda: Agenda[list[int]] = Agenda()
    one, equal = [1], [1]
    agenda.put(one, 5)
    agenda.put(equal, 4)
    agenda.remove(equal)
    agenda.remove([1])
    assert agenda.pop_due(9) is one


def test_all_are_moved() -> None:
    agenda: Agenda[str] = Agenda()
    for name, at_ms in (("late", 30), ("early", 10)):
        agenda.put(name, at_ms)
    agenda.shift(-20)
    assert agenda.entries() == [("early", -10), ("late", 10)]
