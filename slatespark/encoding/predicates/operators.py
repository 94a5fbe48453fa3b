"""Operators of comparisons, as SQL writes them."""

from __future__ import annotations

from typing import Final

EQ: Final = "="
NE: Final = "<>"
NULL_SAFE_EQ: Final = "<=>"  # true for two nulls
LT: Final = "<"
LE: Final = "<="
GT: Final = ">"
GE: Final = ">="
IN: Final = "IN"
NOT_IN: Final = "NOT IN"
BETWEEN: Final = "BETWEEN"
IS_NULL: Final = "IS NULL"
IS_NOT_NULL: Final = "IS NOT NULL"
STARTS_WITH: Final = "LIKE prefix%"  # its literal is the prefix
LIKE_EXACT: Final = "LIKE"  # a pattern without wildcards; its literal is the text that it matches
