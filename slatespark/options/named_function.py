"""Functions that options name as `module:function`: code of the user, imported where it is called."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from slatespark.errors import OptionError


def import_function(name: str, option: str) -> Callable[..., Any]:
    """Return the function behind `module:function`.

    Parameters
    ----------
    option : name of the option that names it, for messages

    Raises
    ------
    OptionError
        When it cannot be imported, or is not a function.
    """
    module_name, _, function_name = name.partition(":")
    if not module_name or module_name.startswith("."):
        raise OptionError(f"{option}: {name!r} names no module.", todo="Give it as module:function.")
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    except Exception as exc:  # whatever the module raises while it is imported
        raise OptionError(
            f"{option}: {name!r} cannot be imported: {type(exc).__name__}: {exc}.",
            todo="Install the module for every Python that runs the job, on executors too.",
        ) from exc
    if not callable(function):
        raise OptionError(f"{option}: {name!r} is not a function.")
    return function  # type: ignore[no-any-return]  # whatever the user named
