"""How a setting is declared: default, unit, bounds and the reason in one call, for help texts and errors to show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field
from pydantic.fields import FieldInfo


def setting(
    default: Any,
    unit: str,
    description: str,
    *,
    low: float | None = None,
    high: float | None = None,
    pattern: str | None = None,
    default_text: str | None = None,
    shown: bool = True,
) -> Any:
    """
    Declare a setting.

    Args:
        default: the value, or a function that finds it on this machine.
        unit: of the value: "ms", "bytes", "documents"; "text" and the like for what is not counted.
        description: what it does, and why it has its default or bound. One or two sentences.
        low: smallest value; for text the fewest characters.
        high: largest value; for text the most characters.
        pattern: regular expression that text must match.
        default_text: how to show a default that is a function.
        shown: False: left out of `repr`, because a value may be a secret.
    """
    extra: dict[str, Any] = {"unit": unit}
    if default_text is not None:
        extra["default_text"] = default_text
    given: dict[str, Any] = {"default_factory": default} if callable(default) else {"default": default}
    if isinstance(low, int | float) and unit == "text":
        given |= {"min_length": low, "max_length": high}
    else:
        given |= {"ge": low, "le": high}
    given = {name: value for name, value in given.items() if value is not None or name == "default"}
    return Field(**given, pattern=pattern, description=description, json_schema_extra=extra, repr=shown)


def unit_of(field: FieldInfo) -> str:
    """Return the unit that a setting was declared with."""
    return str(_extra(field)["unit"])


def bounds_of(field: FieldInfo) -> str | None:
    """
    Say which values a setting takes: "1 to 100,000", or None when its type says it all.

    >>> bounds_of(setting(5, "ms", "A wait.", low=0, high=10_000))
    '0 to 10,000'
    """
    found = {name: getattr(part, name) for part in field.metadata for name in _BOUNDS if hasattr(part, name)}
    low, high = found.get("ge", found.get("min_length")), found.get("le", found.get("max_length"))
    if low is None or high is None:
        return None
    characters = " characters" if "max_length" in found else ""
    return f"{low:,} to {high:,}{characters}"


_BOUNDS = ("ge", "le", "min_length", "max_length")


def default_of(field: FieldInfo) -> str:
    """Say what holds when nothing is set."""
    text = _extra(field).get("default_text")
    if text is not None:
        return str(text)
    default = field.default
    if isinstance(default, tuple):
        return ",".join(map(str, default))
    if isinstance(default, int) and not isinstance(default, bool):
        return f"{default:,}"
    if isinstance(default, float):
        return f"{default:g}"
    return {None: "none", True: "yes", False: "no"}.get(default) or str(default)


def _extra(field: FieldInfo) -> Mapping[str, Any]:
    extra = field.json_schema_extra
    assert isinstance(extra, dict), "declare settings with setting()"
    return extra
