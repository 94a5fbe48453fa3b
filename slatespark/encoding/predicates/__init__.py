"""Filters: SQL comparisons as text, bound to the columns of a table, as masks over rows and as ranges of keys.

`grammar` reads the text, `binding` gives it the types of a schema, `row_filter` tests Arrow arrays, `key_plan` says
which keys can match at all. In between, a comparison is nothing but a set of values of one column: `ordering` maps the
values of each type to ordinals that order as SQL orders the values, `intervals` is the algebra of sets of them.
"""

from __future__ import annotations

from slatespark.encoding.predicates.binding import bind_filter
from slatespark.encoding.predicates.grammar import Comparison, parse_filter
from slatespark.encoding.predicates.key_plan import KeyPlan, plan_keys
from slatespark.encoding.predicates.literals import Literal
from slatespark.encoding.predicates.row_filter import Condition, Filter

__all__ = [
    "Comparison",
    "Condition",
    "Filter",
    "KeyPlan",
    "Literal",
    "bind_filter",
    "parse_filter",
    "plan_keys",
]
