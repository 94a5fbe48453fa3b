"""SlateDB's on-disk format: decodes bytes to frozen dataclasses, encodes them, and says which byte range to read next.

No I/O, no clock, no randomness, and no knowledge of tables, Spark or storage. May import `kernels`, `ranges` and
`errors`. Only this package uses the generated flatbuffers code. Damaged bytes always raise `CorruptDataError`.
"""
