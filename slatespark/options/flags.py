"""Flags of calls: they take what flags among the options take."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import ParamSpec, TypeVar

from slatespark.options.values import parse_flag

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def parsing_flags(call: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Let a call take `true` and `false` as text for its `bool` parameters, and refuse what is not a flag.

    Any text is true for Python, so `force="false"` would force.
    """
    expected = signature(call)
    names = [name for name, parameter in expected.parameters.items() if parameter.annotation == "bool"]

    @wraps(call)
    def parsed(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        try:
            given = expected.bind(*args, **kwargs)
        except TypeError:
            return call(*args, **kwargs)  # Python's own error says which call it was
        for name in names:
            if name in given.arguments:
                given.arguments[name] = parse_flag(given.arguments[name], name)
        return call(*given.args, **given.kwargs)

    return parsed
