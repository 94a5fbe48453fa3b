"""Values of options: parsers from text or Python values to typed values, and how names are compared.

Each parser takes (value, option name) and raises `OptionError`. Spark passes text, `SlateStore` Python values.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from inspect import Parameter, signature
from typing import Any, Final, TypeAlias

from slatespark.errors import OptionError
from slatespark.ranges import ALL_KEYS, KeyRange, prefix_range
from slatespark.units import DAY_MS, HOUR_MS, MINUTE_MS, parse_bytes, parse_duration_ms, parse_time_ms, whole_number

MIB: Final = 1 << 20

STORAGE_PREFIX: Final = "storage."
WAL_PATH: Final = "walPath"
METADATA_COLUMNS: Final = ("key", "seq", "op", "create_ts", "expire_ts")
DEFAULT_TTL_MS: Final = -1  # stands for the table's defaultTtl
AUTO_THROUGHPUT: Final = -1  # stands for the rate of the table's last reap
MAX_APP_ID_BYTES: Final = 512  # part of a checkpoint's name, which manifests repeat
STREAM_APPS: Final = "stream:"  # of the batches of streams, before the name of each
MAX_TTL_MS: Final = 1000 * 365 * DAY_MS  # 1,000 years
MAX_DIGITS: Final = 20  # of a number as text; for thousands of them Python raises an error of its own

_NEAR: Final = 0.6  # similarity of names
_MISSPELT: Final = 0.75  # storage options differ more from the names of properties
_HEX_LITERAL: Final = re.compile(r"[xX]'((?:[0-9a-fA-F]{2})*)'")
_STREAM_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
_LISTED_NAME: Final = re.compile(r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`\s*|(?P<plain>[^,]*))(?P<comma>,|\Z)")
_DECIMAL: Final = re.compile(r"\d+(\.\d+)?", re.ASCII)

# Names of other libraries, and of other calls of this one, for what a call may take under another name; the first wins.
_MEANT: Final[Mapping[str, Sequence[str]]] = {
    "where": ("filter",),
    "condition": ("filter", "where"),
    "predicate": ("filter", "where"),
    "filter": ("filters", "where"),  # of a compaction both
    "select": ("columns",),
    "primarykey": ("keyColumns",),
    "partitionby": ("keyColumns",),  # its first columns do what partitions do elsewhere
}

Parser: TypeAlias = Callable[[Any, str], Any]
MergeOperator: TypeAlias = str | Callable[[bytes | None, list[bytes]], bytes]


def parse_text(value: object, name: str) -> str:
    """Return non-empty text."""
    if not isinstance(value, str):
        raise OptionError(f"{name}: {value!r} is of type {type(value).__name__}.", todo=f"Give {name} as text.")
    if not value.strip():
        raise OptionError(f"{name}: it is empty.", todo=f"Give {name} a value, or leave it out.")
    return value.strip()


def parse_location(value: object, name: str) -> str:
    """Return a local path or URL as text."""
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(text, str):
        raise OptionError(f"{name}: {value!r} is neither text nor a path of text.", todo="Give a local path or a URL.")
    if not text.strip():  # else it would be the current folder
        raise OptionError(f"{name}: it is empty.", todo="Give a local path or a URL; . is the current folder.")
    try:
        os.fsencode(text)
    except UnicodeEncodeError as exc:
        raise OptionError(f"{name}: {text!r} is not valid Unicode.", todo="Choose another path.") from exc
    return text


def parse_paths(value: object) -> list[str]:
    """Return the argument `paths`, one local path or URL or several, as a list of texts."""
    if isinstance(value, str | bytes | os.PathLike):
        return [parse_location(value, "paths")]
    if not isinstance(value, Iterable):
        raise OptionError(f"paths: {value!r} is not a list of paths.", todo="Give a list of local paths or URLs.")
    return [parse_location(each, "paths") for each in value]


def parse_app_id(value: object, name: str) -> str:
    """Return the name of an application, which becomes part of checkpoint names and paths."""
    text = parse_text(value, name)
    try:
        size = len(text.encode())
    except UnicodeEncodeError as exc:
        raise OptionError(f"{name}: {text!r} is not valid Unicode.", todo="Choose another name.") from exc
    if size > MAX_APP_ID_BYTES:
        raise OptionError(
            f"{name}: {size} bytes are too many.", todo=f"Give a name of at most {MAX_APP_ID_BYTES} bytes of UTF-8."
        )
    if text.startswith(STREAM_APPS):
        raise OptionError(
            f"{name}: {text!r} begins with {STREAM_APPS}.",
            why="The batches of streams are recorded under such names.",
            todo="Choose another name.",
        )
    return text


def parse_stream_id(value: object, name: str) -> str:
    """Return the name of a stream, which becomes part of checkpoint names."""
    text = parse_text(value, name)
    if not _STREAM_ID.fullmatch(text):
        raise OptionError(
            f"{name}: {text!r} is not valid.", todo="Give at most 100 letters, digits, dots, hyphens, underscores."
        )
    return text


def parse_flag(value: object, name: str) -> bool:
    """Return a boolean from a bool or `true`/`false`."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise OptionError(f"{name}: {value!r} is not a boolean.", todo="Write true or false.")


def parse_count(low: int, high: int) -> Parser:
    """Return a parser of integers in `[low, high]`."""

    def parse(value: object, name: str) -> int:
        text = value.strip() if isinstance(value, str) else ""
        is_text = text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS
        number = int(text) if is_text else whole_number(value)
        if number is None or not low <= number <= high:
            raise OptionError(f"{name}: {value!r} is not valid.", todo=f"Give a whole number from {low} to {high}.")
        return number

    return parse


parse_natural: Final = parse_count(0, 2**63 - 1)
parse_positive: Final = parse_count(1, 2**63 - 1)  # such as a manifest id


def parse_throughput(value: object, name: str) -> int:
    """Return bytes per second from millions of them; `AUTO_THROUGHPUT` for `auto`."""
    text = value.strip().lower() if isinstance(value, str) else value
    if text == "auto":
        return AUTO_THROUGHPUT
    if isinstance(text, str) and len(text) <= MAX_DIGITS and _DECIMAL.fullmatch(text):
        text = float(text)
    if not isinstance(text, int | float) or isinstance(text, bool) or not 0.001 <= text <= 1_000_000:
        raise OptionError(
            f"{name}: {value!r} is not valid.",
            todo="Give millions of bytes per second, from 0.001 to 1000000, or auto.",
        )
    return round(text * 1_000_000)


def parse_choice(*choices: str) -> Parser:
    """Return a parser that accepts one of `choices`, ignoring case."""

    def parse(value: object, name: str) -> str:
        text = value.strip().lower() if isinstance(value, str) else value
        if text not in choices:
            raise OptionError(f"{name}: {value!r} is not valid.", todo=f"Choose one of {', '.join(choices)}.")
        return str(text)

    return parse


def parse_columnar(value: object, name: str) -> str:
    """Return whether columnar copies are written: `false`, `true`, or `seq` for copies with sequence numbers."""
    text = str(value).lower() if isinstance(value, bool) else value
    return str(parse_choice("false", "true", "seq")(text, name))


def parse_rounding(value: object) -> bool:
    """Return whether `round` is `up`, not `down`."""
    return bool(parse_choice("down", "up")(value, "round") == "up")


def parse_names(value: object, name: str) -> tuple[str, ...]:
    """Return distinct names from comma-separated text, in which a name may be in backticks, or from a sequence."""
    parts = tuple(_listed_names(value)) if isinstance(value, str) else value
    if not isinstance(parts, Sequence) or not all(isinstance(part, str) and part.strip() for part in parts):
        raise OptionError(f"{name}: {value!r} is not a list of names.", todo="Separate names with commas.")
    names = tuple(parts)
    if not names or len(set(names)) != len(names):
        raise OptionError(f"{name}: {value!r} is empty or repeats a name.", todo="Give each name once.")
    return names


def _listed_names(text: str) -> Iterator[str]:
    at, has_more = 0, True
    while has_more and (found := _LISTED_NAME.match(text, at)) is not None:
        quoted = found["quoted"]
        yield found["plain"].strip() if quoted is None else quoted.replace("``", "`")
        at, has_more = found.end(), found["comma"] == ","


def parse_metadata_columns(value: object, name: str) -> tuple[str, ...]:
    """Return the requested metadata columns in their fixed order; `true` requests all, `false` none."""
    if value is True or (isinstance(value, str) and value.strip().lower() == "true"):
        return METADATA_COLUMNS
    if value is False or (isinstance(value, str) and value.strip().lower() == "false"):
        return ()
    requested = {part.lower().removeprefix("_") for part in parse_names(value, name)}  # the columns have a `_`
    if unknown := sorted(requested - set(METADATA_COLUMNS)):
        raise OptionError(
            f"{name}: there is no metadata column {unknown[0]!r}.", todo=f"Choose from {', '.join(METADATA_COLUMNS)}."
        )
    return tuple(column for column in METADATA_COLUMNS if column in requested)


def parse_key(value: object, name: str) -> bytes:
    """Return key bytes from bytes or hexadecimal text."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    try:
        return bytes.fromhex(value if isinstance(value, str) else "?")
    except ValueError as exc:
        raise OptionError(f"{name}: {value!r} is not hexadecimal.", todo="Write the key bytes like 00ff41.") from exc


def parse_bytes_or_text(value: object, name: str) -> bytes:
    """Return bytes that are not empty, from bytes, text (as UTF-8), or hexadecimal text like `X'00'`."""
    data = value
    if isinstance(value, str):
        match = _HEX_LITERAL.fullmatch(value)
        data = bytes.fromhex(match[1]) if match else value.encode(errors="surrogatepass")
    if not isinstance(data, bytes | bytearray | memoryview) or not len(data):
        raise OptionError(f"{name}: {value!r} is not valid.", todo="Give some text, or bytes like X'00'.")
    return bytes(data)


def bytes_text(data: bytes) -> str:
    """Return bytes as text that `parse_bytes_or_text` reads: readable text as it is, else `X'00'`."""
    text = data.decode(errors="replace")
    plain = text.encode(errors="replace") == data and text.isprintable() and text == text.strip()
    return text if plain and not _HEX_LITERAL.fullmatch(text) else f"X'{data.hex()}'"


def parse_operator(value: object, name: str) -> MergeOperator:
    """Return the name of a merge operator, or a callable unchanged."""
    return value if callable(value) else parse_text(value, name)


def parse_clock(value: object, name: str) -> str:
    """Return the name of a clock: `module:function`. It is imported where the clock is needed."""
    text = parse_text(value, name)
    module, separator, function = text.partition(":")
    if not separator or not all(part.isidentifier() for part in (*module.split("."), function)):
        raise OptionError(f"{name}: {value!r} is not a clock.", todo=f"Write {name}=module:function.")
    return text


def is_clock(value: object) -> bool:
    """Tell whether the value of the option `clock` names a function, not the table property of that name."""
    return isinstance(value, str) and ":" in value


def parse_ttl(value: object, name: str) -> int | None:
    """Return a time to live in ms; None for `none`, `DEFAULT_TTL_MS` for `default`."""
    if isinstance(value, str) and value.strip().lower() == "default":
        return DEFAULT_TTL_MS
    return parse_ttl_or_none(value, name)


def parse_duration_or_none(value: object, name: str) -> int | None:
    """Return a duration in ms; None for `none`."""
    if value is None or (isinstance(value, str) and value.strip().lower() == "none"):
        return None
    return parse_duration(value, name)


def parse_ttl_or_none(value: object, name: str) -> int | None:
    """Return a time to live in ms; None for `none`. Raises `OptionError` above 1,000 years: such rows never expire."""
    ttl_ms = parse_duration_or_none(value, name)
    if ttl_ms is not None and ttl_ms > MAX_TTL_MS:
        raise OptionError(f"{name}: {value!r} is more than 1,000 years.", todo="Write none for rows that never expire.")
    return ttl_ms


def is_bare_number(value: object) -> bool:
    """Tell whether a duration is a number without a unit."""
    if isinstance(value, str):
        return value.strip().isascii() and value.strip().isdigit()
    return whole_number(value) is not None


def parse_duration_of(least_ms: int) -> Parser:
    """Return a parser of durations in ms that are not shorter than `least_ms`."""

    def parse(value: object, name: str) -> int:
        duration_ms = parse_duration(value, name)
        if duration_ms < least_ms:
            raise OptionError(f"{name}: {value!r} is too short.", todo=f"Give {least_ms}ms or more.")
        return duration_ms

    return parse


def parse_lasting_duration(value: object, name: str) -> int | None:
    """Return a duration in ms for which something is kept; None for `none`.

    A number is ms, as in SlateDB. One below a minute is refused: it is mostly meant as hours or days.
    """
    duration_ms = parse_duration_or_none(value, name)
    if duration_ms is not None and 0 < duration_ms < MINUTE_MS and is_bare_number(value):
        raise OptionError(
            f"{name}: {value!r} has no unit and would be {duration_ms} ms.",
            todo=f"Write {duration_ms}h or {duration_ms}d, or {duration_ms}ms if that is meant.",
        )
    return duration_ms


def parse_min_age(value: object, *, is_forced: bool, force: str | None = "Set force=True") -> int:
    """Return `minAge` of a vacuum in ms.

    A number without a unit is refused: in Delta it is hours, elsewhere in this library ms. So is less than an hour,
    unless it is forced.

    Parameters
    ----------
    force : what the user does to force it; None if that is impossible
    """
    min_age_ms = parse_duration(value, "minAge")
    if is_bare_number(value):
        raise OptionError(f"minAge: {value!r} has no unit.", todo=f"Write {value}h for hours.")
    if min_age_ms < HOUR_MS and not is_forced:
        raise OptionError(
            f"minAge: {value!r} is less than an hour.",
            why="Running reads, writes and clones may lose files that they need.",
            todo="Choose a longer one." if force is None else f"{force} if there are none, or choose a longer one.",
        )
    return min_age_ms


def parse_duration(value: object, name: str) -> int:
    """Return a duration in ms."""
    return parse_duration_ms(value, name=name)  # type: ignore[arg-type]  # it checks


def parse_time(value: object, name: str) -> int:
    """Return an instant in ms since 1970."""
    return parse_time_ms(value, name=name)  # type: ignore[arg-type]  # it checks


def parse_size(value: object, name: str) -> int:
    """Return a number of bytes."""
    return parse_bytes(value, name=name)  # type: ignore[arg-type]  # it checks


def key_range_of(start: bytes | None, end: bytes | None, prefix: bytes | None) -> KeyRange:
    """Return the keys selected by `startKey`, `endKey` and `keyPrefix`, each of which may be absent."""
    if prefix is not None:
        return prefix_range(prefix)
    return KeyRange(start or b"", end) if start or end is not None else ALL_KEYS


def given_keys_of(start: bytes | None, end: bytes | None, prefix: bytes | None) -> dict[str, bytes]:
    """Return those of `startKey`, `endKey` and `keyPrefix` that are given, by name."""
    choices = {"startKey": start, "endKey": end, "keyPrefix": prefix}
    return {name: key for name, key in choices.items() if key is not None}


def refuse_prefix_with_bounds(given: Mapping[str, bytes]) -> None:
    """Raise `OptionError` if `keyPrefix` is one of several given options that select keys."""
    if "keyPrefix" in given and len(given) > 1:
        raise OptionError("keyPrefix excludes startKey and endKey.", todo="Give one or the other.")


# --- names ----------------------------------------------------------------------------------------------------------


def normalize_name(key: str) -> str:
    """Return a name without case and underscores, for comparisons."""
    return key.replace("_", "").lower()


def with_own_spelling(given: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the options of a call, some of them under these very names, however they were spelled.

    Raises
    ------
    OptionError
        When one of these is given twice.
    """
    own = {normalize_name(name): name for name in names}
    found: dict[str, Any] = {}
    for name, value in given.items():
        spelled = own.get(normalize_name(name), name)
        if spelled in found:
            raise OptionError(f"Option {spelled} is given twice.", todo="Give it once.")
        found[spelled] = value
    return found


def refuse_place(given: Mapping[str, Any], opened_by: str) -> None:
    """Raise `OptionError` if a call names a clock, a path or a store: an open table has its own, and ignores others.

    Parameters
    ----------
    given : the options of the call; None stands for one that is not given
    opened_by : the calls that take them, for the message
    """
    for name, value in given.items():
        plain = normalize_name(name)
        if plain == "clock" and is_clock(value):
            raise OptionError("clock: an open table has one clock.", todo=f"Give it to {opened_by}.")
        if value is not None and (plain in ("path", "walpath") or plain.startswith(STORAGE_PREFIX)):
            raise OptionError(f"{name}: an open table has one location.", todo=f"Give it to {opened_by}.")


def with_storage_prefix(storage: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of a storage backend under their names among the options of a table."""
    return {f"{STORAGE_PREFIX}{name}": value for name, value in storage.items()}


def argument_names(call: Callable[..., object]) -> list[str]:
    """Return the names of the arguments that a call takes by name alone."""
    return [name for name, found in signature(call).parameters.items() if found.kind is Parameter.KEYWORD_ONLY]


def refuse_misspelt(given: Iterable[str], known: Sequence[str]) -> None:
    """Raise `OptionError` for a name that is similar to a known one.

    For calls that pass unknown names to a storage backend, which may ignore them.
    """
    by_plain = [normalize_name(name) for name in known]
    for name in given:
        if difflib.get_close_matches(normalize_name(name), by_plain, n=1, cutoff=_MISSPELT):
            raise unknown_option(name, list(known))


def both_given(one: str, other: str) -> OptionError:
    """Return the error for two options or arguments that exclude each other."""
    return OptionError(f"{one} and {other} are both given.", todo="Give one of them.")


def unknown_option(key: str, known: list[str]) -> OptionError:
    """Return the error for an unknown option, with the known one that is meant or is the nearest."""
    by_plain, plain = {normalize_name(name): name for name in known}, normalize_name(key)
    near = [normalize_name(name) for name in _MEANT.get(plain, ()) if name in known]
    near = near or difflib.get_close_matches(plain, by_plain, n=1, cutoff=_NEAR)
    todo = f"Did you mean {by_plain[near[0]]}?" if near else f"Known options: {', '.join(known)}, {STORAGE_PREFIX}*."
    return OptionError(f"Unknown option {key!r}.", todo=todo)
