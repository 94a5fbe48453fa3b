from __future__ import annotations

from slatespark.display.files_text import files_text
from slatespark.table.inspection.files import FileFacts


def test_files_show_only_columns_of_which_something_is_known() -> None:
    file = FileFacts("run 1", "01J", None, b"a", b"c\0", 2048, "none", 0)
    cut = FileFacts("L0", "01K", None, b"k" * 50, None, 1, "zstd", 0, rows=1500, min_seq=3, max_seq=5)
    assert files_text([cut, file], as_text=True) == (
        f"layer  file  from key{' ' * 34}to key    bytes  codec   rows  seqs  created\n"
        f"L0     01K   {'k' * 39}…  open        1 B  zstd   1,500  3-5   1970-01-01T00:00:00.000Z\n"
        f"run 1  01J   a{' ' * 41}c       2.0 KiB  none                1970-01-01T00:00:00.000Z"
    )
    assert files_text([]) == "The table has no files."
