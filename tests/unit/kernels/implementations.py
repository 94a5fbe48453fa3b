"""Both implementations of every kernel."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any, Final

MODULES: Final = {
    "avro_decode": ["decode_avro", "decode_avro_parts"],
    "avro_encode": ["encode_avro"],
    "avro_split": ["split_avro"],
    "checksum": ["crc32_blocks", "first_wrong_block"],
    "decode": ["decode_blocks"],
    "encode": ["encode_blocks"],
    "merge": ["merge_visible", "merge_all"],
    "gather": [
        "gather_keys",
        "gather_values",
        "gather_fields",
        "key_lengths",
        "value_lengths",
        "take_rows",
        "new_key_mask",
    ],
    "filter": ["hash_keys", "build_bloom", "probe_bloom"],
    "retain": ["retain_versions"],
    "sort": ["sort_rows"],
    "index": ["decode_indexes", "encode_index"],
    "separators": ["separator_keys"],
    "summarise": ["summarise_blocks"],
    "lz4": ["lz4_sizes"],
    "match": ["match_keys", "lower_bound", "lower_bound_in_each", "lower_bounds"],
    "tuple_encode": ["encode_tuples"],
    "tuple_decode": ["decode_tuples"],
}


def _loaded(package: str) -> Any:
    functions = {
        name: getattr(import_module(f"{package}.{module}"), name) for module, names in MODULES.items() for name in names
    }
    return SimpleNamespace(**functions)


COMPILED: Final = _loaded("slatespark.kernels")
REFERENCE: Final = _loaded("slatespark.kernels.reference")
