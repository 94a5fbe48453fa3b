"""An explanation of an operation as HTML for notebooks."""

from __future__ import annotations

from slatespark.display.explanation_text import costs, explained_facts, layers
from slatespark.display.notebook import block_html
from slatespark.shown import html_table
from slatespark.table.explain.explanation import ExplanationFacts


def explanation_html(facts: ExplanationFacts) -> str:
    """Return an explanation as HTML: facts, costs, layers."""
    header, rows = costs(facts)
    pairs = ((name, value.replace("\n", ", ")) for name, value in explained_facts(facts))
    parts = [html_table((), pairs), html_table(header, rows)]
    if facts.layers:
        parts.append(html_table(("layer", "files", "read"), layers(facts)))
    return block_html(parts)
