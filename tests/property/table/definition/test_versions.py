"""A definition survives JSON, and damaged JSON is refused: the content of a table's folder is untrusted."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from slatespark.errors import CorruptDataError, UnsupportedFormatError
from slatespark.table.definition.definition_json import encode_definition
from tests.unit.table.definition.test_versions import TYPED, read


@given(st.data())
def test_any_changed_part_is_read_or_refused(data: st.DataObject) -> None:
    content: Any = json.loads(encode_definition(TYPED))
    del content["checksum"]  # which would find any change
    part = content
    while True:
        key = data.draw(st.sampled_from(sorted(part) if isinstance(part, dict) else list(range(len(part)))))
        if not isinstance(part[key], dict | list) or not part[key] or data.draw(st.booleans()):
            break
        part = part[key]
    part[key] = data.draw(
        st.sampled_from([None, True, 0, -1, 1.5, 2**70, "", "x", "decimal(1,1)", [], {}, [[]], {"type": []}])
    )
    with contextlib.suppress(CorruptDataError, UnsupportedFormatError):
        read(json.dumps(content).encode())


@given(st.integers(0, 2**20), st.binary(min_size=1, max_size=3))
def test_any_changed_bytes_are_read_or_refused(at: int, put: bytes) -> None:
    content = json.loads(encode_definition(TYPED))
    del content["checksum"]
    data = bytearray(json.dumps(content, ensure_ascii=False).encode())
    at %= len(data)
    data[at : at + len(put)] = put
    with contextlib.suppress(CorruptDataError, UnsupportedFormatError):
        read(bytes(data))
