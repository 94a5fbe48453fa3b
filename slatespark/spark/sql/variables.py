"""Variables in a statement, `${name}`: settings of the session, which Spark replaces in what it is given itself."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from slatespark.spark.expressions.conditions import is_on

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_VARIABLE: Final = re.compile(r"\$\{(?:(?:spark|sparkconf|hivevar|hiveconf):)?([^\s{}:]+)\}")


def with_variables(spark: SparkSession, statement: str) -> str:
    """Return a statement with the values of its variables, as Spark would read it; of one that is not set, nothing.

    Those of the system and its environment stay: Spark replaces them in the queries that it gets.
    """
    if "${" not in statement or not is_on(spark, "spark.sql.variable.substitute"):
        return statement
    return _VARIABLE.sub(lambda found: spark.conf.get(found[1], "") or "", statement)
