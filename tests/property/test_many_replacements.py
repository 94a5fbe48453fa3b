"""Many random replacements of one table leave nothing behind: no view without rows, and no file that nothing needs.

`python -m tests.property.many_replacements` makes 1,000 of them, and times each.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.support.client import Client, Location
from tests.support.effort import examples
from tests.support.replaced_table import ReplacedTable
from tests.support.used_copies import copies_wherever_possible

_names = itertools.count()


def test_random_replacements_leave_nothing_behind() -> None:
    table = ReplacedTable(f"memory://many-replacements-{next(_names)}", seed=1)
    with copies_wherever_possible() as used:
        for number in range(examples(60)):
            table.replace(number)
            if number % 20 == 19:
                table.check()
                table.check_files()
        table.check()
        table.check_files()
    assert sum(used.values()) > 0


@pytest.mark.slow
def test_the_client_reads_what_replacements_left(tmp_path: Any) -> None:
    table = ReplacedTable(str(tmp_path / "db"), seed=2)
    codec = table.store.definition.codec()
    for number in range(examples(20)):
        table.replace(number)
        if number % 10 == 9:
            with Client.open(Location.local(tmp_path / "db")) as client:
                keys = sorted(map(codec.encode_key, table.state))
                assert [row.key for row in client.scan()] == keys
    table.check()
