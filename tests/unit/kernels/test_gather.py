from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from slatespark.errors import InternalError
from slatespark.kernels.columns import RowColumns
from tests.unit.kernels.rows import all_rows, columns, delete, operand, packed, put, versions

FIRST = [
    put(b"a", 1, b"x" * 200, create_ts=-1),
    delete(b"", 2**64 - 1),
    put(b"key of 33 bytes, more than a word", 3, b""),
]
SECOND = [operand(b"b", 4, b"seventeen bytes..", expire_ts=5), put(b"b", 3, b"y")]
SOURCES = [columns(*FIRST), columns(*SECOND)]
ROWS = np.array([*packed(1, 1, 0), *packed(0, 2, 0, 0, 1)], np.int64)
TAKEN = [SECOND[1], SECOND[0], FIRST[2], FIRST[0], FIRST[0], FIRST[1]]


def strings(buffers: tuple[Any, Any]) -> list[bytes]:
    offsets, data = buffers
    assert offsets.dtype == np.int32
    assert offsets[0] == 0
    assert offsets[-1] == len(data)
    return [data[start:end].tobytes() for start, end in zip(offsets.tolist(), offsets[1:].tolist(), strict=False)]


def test_keys_and_values(kernels: Any) -> None:
    assert strings(kernels.gather_keys(SOURCES, ROWS)) == [row.key for row in TAKEN]
    assert strings(kernels.gather_values(SOURCES, ROWS)) == [row.value for row in TAKEN]


def test_lengths(kernels: Any) -> None:
    assert kernels.key_lengths(SOURCES, ROWS).tolist() == [len(row.key) for row in TAKEN]
    assert kernels.value_lengths(SOURCES, ROWS).tolist() == [len(row.value) for row in TAKEN]


def test_fields(kernels: Any) -> None:
    fields = kernels.gather_fields(SOURCES, ROWS)
    assert fields.seqs.tolist() == [row.seq for row in TAKEN]
    assert fields.flags.tolist() == [row.flags for row in TAKEN]
    assert fields.create_ts.tolist() == [row.create_ts for row in TAKEN]
    assert fields.expire_ts.tolist() == [row.expire_ts for row in TAKEN]


def test_taken_rows_are_copies(kernels: Any) -> None:
    taken = kernels.take_rows(SOURCES, ROWS)
    assert versions(taken) == TAKEN
    for source in SOURCES:
        assert not np.shares_memory(taken.key_bytes, source.key_bytes)
        assert not np.shares_memory(taken.value_bytes, source.value_bytes)


def test_new_keys(kernels: Any) -> None:
    assert kernels.new_key_mask(SOURCES, ROWS).tolist() == [True, False, True, True, False, True]
    assert kernels.new_key_mask(SOURCES, ROWS).dtype == np.bool_


def test_no_rows(kernels: Any) -> None:
    none = np.zeros(0, np.int64)
    for sources in (SOURCES, []):
        assert strings(kernels.gather_keys(sources, none)) == []
        assert strings(kernels.gather_values(sources, none)) == []
        assert len(kernels.take_rows(sources, none)) == 0
        assert len(kernels.new_key_mask(sources, none)) == len(kernels.gather_fields(sources, none).seqs) == 0


@pytest.mark.parametrize("size", [*range(34), 127, 128, 129, 500])
def test_strings_of_every_length_to_the_last_byte_of_a_buffer(kernels: Any, size: int) -> None:
    rows = columns(put(b"k" * size, 1, b"v" * size), put(b"l" * size, 1, b"w" * size))
    assert strings(kernels.gather_keys([rows], np.array([1, 0]))) == [b"l" * size, b"k" * size]
    assert strings(kernels.gather_values([rows], np.array([1, 0]))) == [b"w" * size, b"v" * size]


@pytest.mark.parametrize("row", [*packed(0, 3), *packed(2, 0), -1])
@pytest.mark.parametrize(
    "name", ["gather_keys", "gather_values", "gather_fields", "key_lengths", "take_rows", "new_key_mask", "hash_keys"]
)
def test_rows_that_do_not_exist(kernels: Any, name: str, row: int) -> None:
    with pytest.raises(InternalError, match="exist"):
        getattr(kernels, name)(SOURCES, np.array([0, row]))


MANY = 3000


def many(kernels: Any, *, longest: int) -> tuple[RowColumns, list[bytes]]:
    """Return rows of which one has a value of that length, and the values."""
    values = [b"%d" % number * (number % 7) for number in range(MANY)]
    values[1000] = b"long" * (longest // 4)
    return columns(*(put(b"%05d" % number, 1, value) for number, value in enumerate(values))), values


@pytest.mark.parametrize("longest", [0, 1000, 20_000])  # the last does not fit 16 MiB so often
def test_many_rows(kernels: Any, longest: int) -> None:
    source, values = many(kernels, longest=longest)
    backwards = np.arange(MANY)[::-1].copy()
    assert strings(kernels.gather_values([source], backwards)) == values[::-1]
    assert strings(kernels.gather_keys([source], backwards))[0] == b"02999"
    twice = np.concatenate([backwards, packed(1, *range(MANY))])
    taken = kernels.take_rows([source, source], twice)
    assert [taken.value(row) for row in range(2 * MANY)] == values[::-1] + values
    assert taken.value_bytes.base is None or len(taken.value_bytes.base) < len(taken.value_bytes) + 64


@pytest.mark.parametrize("at", [0, 5, MANY - 13, MANY - 12, MANY - 1])
def test_many_rows_of_which_one_does_not_exist(kernels: Any, at: int) -> None:
    source, _ = many(kernels, longest=0)
    rows = np.arange(MANY)
    for wrong in (MANY, -1, *packed(1, 0)):
        rows[at] = wrong
        for name in ("gather_keys", "gather_values", "take_rows"):
            with pytest.raises(InternalError, match="exist"):
                getattr(kernels, name)([source], rows)


def test_many_rows_of_which_one_lies_outside_its_buffer() -> None:
    from slatespark.kernels import gather

    source, _ = many(gather, longest=0)
    for start, length in ((-1, 1), (len(source.value_bytes), 1), (0, -1), (0, 2**62), (2**62, 2**62)):
        starts, lengths = source.value_starts.copy(), source.value_lengths.copy()
        starts[2500], lengths[2500] = start, length
        with pytest.raises(InternalError, match="outside"):
            gather.gather_values([replace(source, value_starts=starts, value_lengths=lengths)], np.arange(MANY))


def test_more_than_fits_into_an_arrow_array(kernels: Any) -> None:
    big = np.zeros(1 << 20, np.uint8)
    one = columns(put(b"k", 1))
    value = RowColumns(
        one.key_bytes,
        one.key_offsets,
        one.seqs,
        one.flags,
        one.create_ts,
        one.expire_ts,
        big,
        np.zeros(1, np.int64),
        np.array([len(big)]),
    )
    if kernels.gather_values.__module__.startswith("slatespark.kernels.reference"):
        pytest.skip("it would build the 2 GiB first")
    with pytest.raises(InternalError, match="2147483648"):
        kernels.gather_values([value], np.zeros(2048, np.int64))


def test_compiled_kernels_check_their_arrays() -> None:
    from slatespark.kernels import gather

    sound = columns(put(b"k", 1), put(b"l", 1))
    rows = replace(sound, seqs=sound.seqs.astype(np.int64))
    with pytest.raises(InternalError, match="uint64"):
        gather.gather_fields([rows], all_rows([rows]))
    rows = replace(sound, key_offsets=sound.key_offsets[:-1])
    with pytest.raises(InternalError, match="int64"):
        gather.gather_keys([rows], all_rows([rows]))
    rows = replace(sound, value_starts=sound.value_starts + 2)
    with pytest.raises(InternalError, match="outside"):
        gather.gather_values([rows], all_rows([rows]))
