from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slatespark.format.codecs import (
    Compression,
    compress,
    decode_section,
    decompress,
    encode_section,
)
from tests.unit.format.test_codecs import CODECS


@given(st.binary(min_size=1, max_size=300), st.sampled_from(CODECS), st.integers(1, 50))
def test_sections_round_trip(part: bytes, codec: Compression, times: int) -> None:
    payload = part * times
    section = encode_section(payload, codec)
    assert decompress(compress(payload, codec), codec, max_bytes=len(payload)) == payload
    assert decode_section(section, codec, what="it") == payload
    assert decode_section(memoryview(section), codec, what="it") == payload
