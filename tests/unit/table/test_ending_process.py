"""Calls in a thread that goes on after the main thread, and in a function at exit: Python starts no pools then."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support.moto_server import MotoServer
from tests.support.moto_server import moto_server as moto_server

_SCRIPT: Final = """
import atexit, json, sys, threading
import pyarrow as pa
from slatespark import SlateStore

how, url, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
store = SlateStore.create(f"{url}/table", "id BIGINT, v STRING", "id", autoCompact=False, **options)

def put(first):
    store.write(pa.table({"id": range(first, first + 20_000), "v": ["%06d" % n for n in range(first, first + 20_000)]}))

put(0)
put(20_000)

def work():
    if how != "at exit":
        threading.main_thread().join()
    put(10_000)
    store.delete("id = 7")
    assert store.scan(parallelism=2, splitSize="10k").read_all().num_rows == 39_999
    store.copyTo(f"{url}/copy")
    store.compact(full=True)
    store.vacuum()
    copy = SlateStore.open(f"{url}/copy", **options)
    print(store.scan().read_all().num_rows, copy.scan().read_all().num_rows)

atexit.register(work) if how == "at exit" else threading.Thread(target=work).start()
"""


@pytest.mark.parametrize(
    ("driver", "how"),
    [("local", "in a thread"), ("local", "at exit"), ("obstore", "in a thread"), ("fsspec", "at exit")],
)
def test_calls_work_after_the_main_thread(moto_server: MotoServer, tmp_path: Path, driver: str, how: str) -> None:
    url, options = str(tmp_path), {}
    if driver != "local":
        url, options = moto_server.create_bucket(), {**moto_server.options, "driver": driver}
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, how, url, json.dumps(options)],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert (done.stdout, done.stderr) == ("39999 39999\n", "")
