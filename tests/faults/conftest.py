from __future__ import annotations

from tests.support.moto_server import moto_server as moto_server
