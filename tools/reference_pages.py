"""Write the reference pages that the code itself states: options and errors.

    python tools/reference_pages.py

`slatespark/options/` states every option, `slatespark/errors.py` every error. A test compares the pages with what this
script would write.
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))  # so that it runs without an installation

from slatespark import errors  # noqa: E402
from slatespark.options import ReadOptions, WriteOptions, option_rows  # noqa: E402
from slatespark.storage.s3_driver import OPTIONS as S3_OPTIONS  # noqa: E402

_HEAD: Final = "<!-- Written by tools/reference_pages.py; do not edit. -->\n"

_OPTIONS: Final = """\
# Options

The same options serve Spark (`.option(key, value)`, text) and [SlateStore](slate-store.md) (keyword arguments,
Python values). Case and underscores in a key do not matter: `versionAsOf`, `versionasof` and `version_as_of`
are one option. An unknown key is refused, and the nearest known one named. `None` counts as not given.

| Kind of value | Spellings |
|---|---|
| flag | `true`, `false` |
| size | bytes as a number, or `512k`, `64m`, `1g`; factors of 1024 |
| duration | ms as a number, or `500ms`, `90m`, `7d`, `2w`, `P7D`, `PT1H30M` |
| instant | ms since 1970 as a number, or ISO-8601; without an offset it is UTC |
| key | hexadecimal text; in Python also `bytes` |
| list | names separated by commas; in Python also a list |

## Reading

{reading}
`versionAsOf`, `timestampAsOf`, `seqAsOf` and `checkpoint` exclude each other, and so do `keyPrefix` and `startKey` or
`endKey`.

## Writing

{writing}
`opColumn` excludes `operation`. The mode is not an option: `append` upserts by key, `overwrite` replaces the
whole table ([Spark](spark.md#writing), [SlateStore](slate-store.md#write)).

## Storage

`storage.*` options go to the backend. `storage.root` is kept by the table: it is where the external paths of a
clone start. In `SlateStore.open` and `SlateStore.create` they are keyword arguments without the prefix. For
`s3://` and `s3a://` there are:

{storage}
Options of other protocols are those of their fsspec driver, and are not checked. Whatever is not given is
looked up as the backend usually does: environment, configuration files, role.
"""

_ERRORS: Final = """\
# Errors

Every error raised on purpose is a `SlateError`; all classes are importable from `slatespark`. `str(error)` says
what happened, why, and what to do. The class says what the caller should do next:

| Class | Do |
|---|---|
| `InvalidRequestError` | fix the call; nothing was changed |
| `ConflictError` | try again |
| `FencedError` | stop: a newer writer owns the table |
| `UnavailableError` | try again later; after a commit, look whether it landed |
| `HistoryTrimmedError` | choose a later point |
| `CorruptDataError` | restore the object that is named |
| `UnsupportedFormatError` | use a newer release |
| `InternalError` | report it |

Spark keeps only the text of an error. So it begins with the class: `SchemaError: The columns are ...`. The
command line prints the same line. An error never holds credentials.

## All classes

{classes}
Of these, this release does not raise {unused} yet.
"""


def reference_pages() -> dict[Path, str]:
    """Return the text of each generated page by its path."""
    folder = REPOSITORY / "docs" / "reference"
    options = _OPTIONS.format(
        reading=_table(("Option", "Default", "Meaning"), _option_cells(ReadOptions)),
        writing=_table(("Option", "Default", "Meaning"), _option_cells(WriteOptions)),
        storage=_table(
            ("Option", "Meaning"), [(f"`storage.{name}`", meaning) for name, meaning in sorted(S3_OPTIONS.items())]
        ),
    )
    return {
        folder / "options.md": _HEAD + options,
        folder / "errors.md": _HEAD
        + _ERRORS.format(classes=_table(("Class", "Is a", "Meaning"), _error_cells()), unused=_unused()),
    }


def _option_cells(cls: type[ReadOptions | WriteOptions]) -> list[tuple[str, ...]]:
    return [(f"`{key}`", default or "", meaning) for key, default, meaning in option_rows(cls)]


def _error_classes() -> list[type[errors.SlateError]]:
    classes = [
        item
        for _, item in inspect.getmembers(errors, inspect.isclass)
        if issubclass(item, errors.SlateError) and item is not errors.SlateError
    ]
    return sorted(classes, key=lambda item: inspect.getsourcelines(item)[1])  # as they are grouped in the source


def _error_cells() -> list[tuple[str, ...]]:
    return [(f"`{item.__name__}`", f"`{item.__mro__[1].__name__}`", _first_line(item)) for item in _error_classes()]


def _unused() -> str:
    """Name the classes that no source file raises, neither themselves nor by a class below them."""
    source = "".join(path.read_text() for path in sorted((REPOSITORY / "slatespark").rglob("*.py")))
    raised = [item for item in _error_classes() if re.search(rf"(?<!class )\b{item.__name__}\(", source)]
    idle = [item for item in _error_classes() if not any(issubclass(other, item) for other in raised)]
    return ", ".join(f"`{item.__name__}`" for item in idle) or "none"


def _first_line(item: type) -> str:
    return (inspect.getdoc(item) or "").partition("\n\n")[0].replace("\n", " ")


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


if __name__ == "__main__":
    for path, text in reference_pages().items():
        path.write_text(text)
        print(path.relative_to(REPOSITORY))
