"""External SSTs: an SST with a label. No damage may change the label undetected."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark.errors import CorruptDataError, UnsupportedFormatError
from slatespark.format.external_sst import decode_external_sst, label_sst
from tests.support.effort import examples
from tests.unit.format.test_external_sst import LABEL, built


@settings(max_examples=examples(100))
@given(st.data())
def test_damage_after_the_rows_is_detected(data: st.DataObject) -> None:
    whole = label_sst(built(), LABEL)
    end = decode_external_sst(whole)
    assert end is not None
    changed = bytearray(whole)
    at = data.draw(st.integers(end.info.sections_end, len(whole) - 1))
    changed[at] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.sampled_from([0, 0, 0, 1, 5, 20, len(whole)]))
    try:
        found = decode_external_sst(bytes(changed[: len(changed) - cut]))
    except (CorruptDataError, UnsupportedFormatError):
        return
    assert found is None or (found.label, found.properties) == (end.label, end.properties)
