"""Explanation: what an operation touches and costs, as values, text and HTML."""

from __future__ import annotations

from dataclasses import fields
from typing import Self

from slatespark.table.explain.explanation import ExplanationFacts


class Explanation(ExplanationFacts):
    """What an operation touches and costs; docs/reference/slate-store.md lists its fields.

    Made by `SlateStore.explain`. `print` shows it as text, a notebook as a table.

    Examples
    --------
    >>> from slatespark import SlateStore
    >>> SlateStore.create("memory://shown").explain().files
    0
    """

    __slots__ = ()

    @classmethod
    def of(cls, facts: ExplanationFacts) -> Self:
        """Return facts that show themselves.

        Parameters
        ----------
        facts : what is shown
        """
        return cls(**{item.name: getattr(facts, item.name) for item in fields(facts)})

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        """Show the explanation as text."""
        from slatespark.display.explanation_text import explanation_text

        return explanation_text(self)

    def _repr_html_(self) -> str:
        """Show the explanation in a notebook."""
        from slatespark.display.explanation_html import explanation_html

        return explanation_html(self)
