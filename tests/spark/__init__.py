"""Against a real Spark: the session of `conftest.py`, or several executors through `tests.support.cluster`."""
