"""Filters: SQL comparisons from text, bound to the columns of a table, as masks over rows and as key ranges.

`grammar` parses the text, `binding` applies the types of a schema, `row_filter` tests Arrow arrays, and `key_plan`
finds the keys that can match. In between, a comparison is a set of values of one column: `ordering` maps the values of
each type to ordinals in SQL order, and `intervals` is the algebra of sets of ordinals.
"""

from __future__ import annotations

from slatespark.encoding.predicates.binding import bind_filter
from slatespark.encoding.predicates.grammar import Comparison, RowComparison, parse_alternatives, parse_filter
from slatespark.encoding.predicates.key_plan import KeyPlan, plan_keys
from slatespark.encoding.predicates.literals import Literal
from slatespark.encoding.predicates.row_filter import Condition, Filter

__all__ = [
    "Comparison",
    "Condition",
    "Filter",
    "KeyPlan",
    "Literal",
    "RowComparison",
    "bind_filter",
    "parse_alternatives",
    "parse_filter",
    "plan_keys",
]
