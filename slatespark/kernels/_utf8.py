"""Copying and validating text, compiled. Arrow arrays of strings must contain only UTF-8."""

from __future__ import annotations

import numpy as np

from slatespark.kernels._compile import called, inlined
from slatespark.kernels._native import SLACK, copy_exact, load8, load_part, load_word, store_word

_HIGH_BITS = np.uint64(0x8080808080808080)


@called
def is_utf8(address: int, size: int) -> bool:
    """Tell whether bytes are well-formed UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF."""
    at, end = address, address + size
    while at < end:
        if at + 8 <= end and load_word(at) & _HIGH_BITS == np.uint64(0):
            at += 8
            continue
        lead = load8(at)
        at += 1
        if lead < 0x80:
            continue
        low, high = 0x80, 0xBF  # of the second byte
        if 0xC2 <= lead <= 0xDF:
            rest = 1
        elif 0xE0 <= lead <= 0xEF:
            rest = 2
            low = 0xA0 if lead == 0xE0 else 0x80
            high = 0x9F if lead == 0xED else 0xBF
        elif 0xF0 <= lead <= 0xF4:
            rest = 3
            low = 0x90 if lead == 0xF0 else 0x80
            high = 0x8F if lead == 0xF4 else 0xBF
        else:
            return False
        if rest > end - at or not low <= load8(at) <= high:
            return False
        for number in range(1, rest):
            if load8(at + number) & 0xC0 != 0x80:
                return False
        at += rest
    return True


@called
def _copy_long_text(target: int, source: int, size: int) -> bool:
    copy_exact(target, source, size)
    return is_utf8(source, size)


@inlined
def copy_text(target: int, source: int, size: int, source_end: int) -> bool:
    """Copy `size` bytes and tell whether they are UTF-8; may write up to SLACK bytes more, never reads past the end.

    Bytes that are not UTF-8 are copied, too.
    """
    if size < 16 and source + SLACK <= source_end:
        first, second = load_word(source), load_word(source + 8)
        store_word(target, first)
        store_word(target + 8, second)
        if size < 8:
            seen = first & ((np.uint64(1) << np.uint64(8 * size)) - np.uint64(1))
        else:
            seen = first | second & ((np.uint64(1) << np.uint64(8 * (size - 8))) - np.uint64(1))
        return seen & _HIGH_BITS == np.uint64(0) or is_utf8(source, size)
    if size > 64:
        return _copy_long_text(target, source, size)
    seen = np.uint64(0)
    done = 0
    while done + 8 <= size:
        word = load_word(source + done)
        store_word(target + done, word)
        seen |= word
        done += 8
    rest = load_part(source + done, size - done)
    store_word(target + done, rest)
    return (seen | rest) & _HIGH_BITS == np.uint64(0) or is_utf8(source, size)
