"""The driver of a `Cluster`: reads scripts from standard input, runs each in a session of its own, and answers."""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from io import RawIOBase


def main() -> None:
    """Run the scripts that come in, until there are no more."""
    start = json.loads(sys.argv[1])
    spark = open_session(start)
    with os.fdopen(int(sys.argv[2]), "wb", buffering=0) as answers:
        for line in sys.stdin:
            answer(answers, run(spark if start["connects"] else spark.newSession(), **json.loads(line)))
    spark.stop()


def open_session(start: dict[str, Any]) -> SparkSession:
    builder = SparkSession.builder
    builder = builder.remote(start["master"]) if start["connects"] else builder.master(start["master"])
    spark = builder.config(map=start["settings"]).getOrCreate()
    if not start["connects"]:
        spark.sparkContext.setLogLevel("ERROR")
    return spark


def run(spark: SparkSession, script: str, arguments: dict[str, Any]) -> dict[str, Any]:
    # As that of a script: what it defines is pickled by value.
    namespace: dict[str, Any] = {"__name__": "__main__", "spark": spark, "arguments": arguments, "result": None}
    try:
        exec(compile(script, "<script>", "exec"), namespace)
    except Exception:
        return {"result": None, "error": traceback.format_exc()}
    return {"result": namespace["result"], "error": None}


def answer(answers: RawIOBase, found: dict[str, Any]) -> None:
    data = memoryview(json.dumps(found).encode() + b"\n")
    while data:
        data = data[answers.write(data) :]


if __name__ == "__main__":
    main()
