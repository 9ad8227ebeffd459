"""
How a setting is declared, and what can be asked about its declaration.

Each setting is one call of `setting`, with its default, unit, description and bounds. The commands
show what `unit_of`, `bounds_of` and `default_of` say of it.
"""

from __future__ import annotations

from typing import Any, Literal, get_args, get_origin

from pydantic import Field
from pydantic.fields import FieldInfo

# Settings and keys of the definition that earlier versions had, and what to do about each. The
# nearest present name may mean something else.
FORMER = {
    **dict.fromkeys(
        (
            "dead_letter_bytes_max", "originals_on_disk_from", "page_memory_mb",
            "page_nesting_max", "page_timeout_s", "processes", "queue_batches_max",
            "record_bytes_max", "retries_max", "search_prefix_max", "shingles_min",
        ),
        "it was removed, as nobody has to choose it. Leave it out",
    ),
    "record_format": "it was removed, as a log says its format itself. Leave it out",
    **dict.fromkeys(
        ("search_block_bits", "search_blocks", "search_patterns"),
        'write search_size = "10x26x64" into the definition: blocks, the bits of each, and the '
        "prefixes that are looked up in each",
    ),
    "fault": "it is for tests alone, which set the variable NEARDUP_FAULT. Leave it out",
    "kafka_options": "write a line for each property into the file of settings, such as "
    "kafka.linger.ms = 5, or set a variable for each, such as NEARDUP_KAFKA_LINGER_MS=5",
}  # fmt: skip


def setting(
    default: Any,
    unit: str,
    description: str,
    *,
    low: float | None = None,
    high: float | None = None,
    pattern: str | None = None,
    default_text: str | None = None,
) -> Any:
    """
    Declare a setting.

    Args:
        default: a value, or a function that finds one on this machine.
        unit: what a value counts, or what kind of value it is ("text", "choice", "file").
        description: what the setting does, and why it has its default or its bounds.
            `neardup settings --describe` shows it.
        low: the smallest value; of a text, the smallest number of characters.
        high: the largest value; of a text, the largest number of characters.
        pattern: a regular expression that a text must match.
        default_text: shown instead of a default that depends on the machine, or that is a number
            with a meaning of its own ("off", "no limit").
    """
    bounds: Any = (
        {"min_length": low, "max_length": high} if unit == "text" else {"ge": low, "le": high}
    )
    extra: Any = {"unit": unit, "default_text": default_text}
    by_default: Any = {"default_factory": default} if callable(default) else {"default": default}
    return Field(
        **by_default,
        **bounds,
        description=description,
        pattern=pattern,
        json_schema_extra=extra,
    )


def unit_of(field: FieldInfo) -> str:
    """Return the unit that a setting was declared with."""
    extra: Any = field.json_schema_extra
    return str(extra["unit"])


def kind_of(field: FieldInfo) -> str:
    """
    Say whether a setting takes true or false, for an error of a value that is the other.

    >>> kind_of(setting(5, "ms", "How long a call waits.", low=0, high=10_000))
    'cannot be true or false (unit: ms)'
    """
    if unit_of(field) == "yes/no":
        return "must be true or false"
    return f"cannot be true or false (unit: {unit_of(field)})"


def bounds_of(field: FieldInfo) -> str | None:
    """
    Say which values a setting takes: "1 to 100,000", "first or last", or None when its type says it
    all.

    >>> bounds_of(setting(5, "ms", "How long a call waits.", low=0, high=10_000))
    '0 to 10,000'
    """
    if get_origin(field.annotation) is Literal:
        *others, last = map(str, get_args(field.annotation))
        return f"{', '.join(others)} or {last}"
    names = ("ge", "le", "min_length", "max_length")
    bounds = {
        name: getattr(part, name)
        for part in field.metadata
        for name in names
        if hasattr(part, name)
    }
    low = bounds.get("ge", bounds.get("min_length"))
    high = bounds.get("le", bounds.get("max_length"))
    if low is None or high is None:
        return None
    characters = " characters" if "max_length" in bounds else ""
    return f"{low:,} to {high:,}{characters}"


def default_of(field: FieldInfo) -> str:
    """Return the default as the pages and the help show it."""
    extra: Any = field.json_schema_extra
    if extra["default_text"] is not None:
        return str(extra["default_text"])
    default = field.default
    if isinstance(default, tuple):
        return ",".join(map(str, default))
    if isinstance(default, int) and not isinstance(default, bool):
        return f"{default:,}"
    if isinstance(default, float):
        return f"{default:g}"
    return {None: "none", True: "yes", False: "no"}.get(default) or str(default)
