"""`slatespark demo`: a year of flights, written, read, changed and checked with Spark.

`run` plays the scenes in order; `times`, `upkeep` and `beside_client` hold the longer ones. `tables` is the stage that
they share, `data` the folder, the source files and the Spark session, `client` the SlateDB client. Only
`data.demo_session` starts Spark, after it has found Java, so no module here imports pyspark at its top. Keep out:
anything that other parts of slatespark need.
"""
