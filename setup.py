"""What setup.cfg cannot say: the addresses of a release, which `make wheel URL=...` knows."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "tools"))

from addresses import absolute_links, project_urls, release_tag  # noqa: E402  # only now on the path

URL = os.environ.get("SLATESPARK_URL", "").rstrip("/")
TAG = release_tag(HERE)

setup(
    long_description=absolute_links((HERE / "README.md").read_text(encoding="utf-8"), URL, TAG),
    project_urls=project_urls(URL, TAG),
)
