"""The build backend: setuptools, which puts kernels that were compiled ahead of time into a wheel.

`pip wheel .` and `pip install .` come here, since pyproject.toml names it. Where the kernels cannot be compiled, the
wheel holds none, and each process that uses it compiles them.
"""

from __future__ import annotations

import configparser
import subprocess
import sys
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """Return what a wheel needs, an editable install does not: the compiler, and what the kernels import."""
    settings = configparser.ConfigParser()
    settings.read("setup.cfg", encoding="utf-8")
    required = settings["options"]["install_requires"].split()
    ours = [each for each in required if each.startswith(("numba>", "pyarrow>"))]
    return [*build_meta.get_requires_for_build_wheel(config_settings), *ours]


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    """Return the name of the wheel."""
    subprocess.run([sys.executable, "-m", "slatespark.kernels.build"], check=False)
    return build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)
