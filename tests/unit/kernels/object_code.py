"""Object code of the kernels that `make venv` built for this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from slatespark.kernels._object_code import ObjectCode, file_name, levels, object_folder, unpack_file
from slatespark.kernels.build import outdated_levels

FOLDER: Final = Path(str(object_folder()))
IS_BUILT: Final = bool(levels()) and not outdated_levels(FOLDER)
needs_object_code = pytest.mark.skipif(not IS_BUILT, reason="not built from these sources: run `make venv`")


def load_slowest() -> ObjectCode:
    """Return the code for the least processor, which every other one runs, too."""
    name = file_name(levels()[-1])
    return ObjectCode(name, unpack_file(name, (FOLDER / name).read_bytes()))
