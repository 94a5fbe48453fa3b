"""The notebook magic `%%slate`: a cell of SQL."""

from __future__ import annotations

from typing import Any

from slatespark.errors import InvalidRequestError
from slatespark.spark.sql.run import sql


def load_ipython_extension(shell: Any) -> None:
    """Add `%%slate` to a notebook, for `%load_ext slatespark`.

    `%%slate` runs the statement in the cell by `slatespark.sql` in the active session, and shows the first rows.
    `%%slate name` keeps the DataFrame under that name instead.
    """

    def slate(line: str, cell: str) -> None:
        from pyspark.sql import SparkSession

        name = line.strip()
        if name and not name.isidentifier():
            raise InvalidRequestError(f"%%slate: {name!r} is not a name.", todo="Write %%slate, or %%slate name.")
        spark = SparkSession.getActiveSession()
        if spark is None:
            raise InvalidRequestError("%%slate: there is no active Spark session.", todo="Create one first.")
        found = sql(spark, cell)
        if name:
            shell.push({name: found})
        elif found.columns:
            found.show()

    shell.register_magic_function(slate, magic_kind="cell", magic_name="slate")
