"""Sections of docstrings for the site: ours say what a parameter means where numpy's convention has its type.

The types are in the signature. griffe, which reads the docstrings for mkdocstrings, takes them from there when the
docstring names none: so the meaning moves to a line of its own.
"""

from __future__ import annotations

import re
from typing import Any, Final

import griffe

_SECTION: Final = re.compile(
    r"^(?P<name>Parameters|Other Parameters|Attributes|Returns|Yields)\n-{4,}\n(?P<body>.+?)(?=\n\n|\Z)",
    re.MULTILINE | re.DOTALL,
)
_ITEM: Final = re.compile(r"^(?P<names>[*\w, ]+?) : (?P<meaning>.+)$", re.MULTILINE)


class DocstringSections(griffe.Extension):
    """Rewrites the docstring of every object before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Handle one object."""
        if obj.docstring:
            obj.docstring.value = _SECTION.sub(_rewritten, obj.docstring.value)


def _rewritten(section: re.Match[str]) -> str:
    name, body = section["name"], section["body"]
    if name in ("Returns", "Yields"):
        body = ":\n" + "\n".join(f"    {line}" for line in body.splitlines())
    else:
        body = _ITEM.sub(r"\g<names>\n    \g<meaning>", body)
    return f"{name}\n{'-' * len(name)}\n{body}"
