"""SlateDB's on-disk format: bytes in, frozen dataclass out, and back; and which byte range to ask for next.

No I/O, no clock, no randomness, and no knowledge of tables, Spark or storage. May import `kernels`, `ranges` and
`errors`. The generated flatbuffers code is used here alone. Damaged bytes are always a `CorruptDataError`, never
another exception.
"""
