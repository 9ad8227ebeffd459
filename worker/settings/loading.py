"""
Reads the settings: flags take precedence over the environment, then a file, then the defaults.

An error names where a wrong value came from, the value, what the setting takes and the remedy.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import EnvSettingsSource

from worker.errors import StopError
from worker.settings.declaration import bounds_of, unit_of
from worker.settings.model import Settings
from worker.settings.writing import CONFIG_VARIABLE, ENV_PREFIX, HIDDEN, env_name, flag_name

# Read elsewhere: the name of the file of settings, and what tests look at.
OTHER_VARIABLES = frozenset(
    {CONFIG_VARIABLE, "NEARDUP_CORPORA", "NEARDUP_EXAMPLES", "NEARDUP_HISTORIES"}
)
_SHOWN_CHARACTERS_MAX = 100


class LoadedSettings(NamedTuple):
    """The settings, and for each that is not a default where its value came from."""

    settings: Settings
    origins: dict[str, str]


def load_settings(
    flags: Mapping[str, Any] | None = None, config: Path | None = None
) -> LoadedSettings:
    """
    Merge flags, environment, file and defaults, in this order of precedence, and check them.

    Maps (kafka_options) are merged name by name. The file is TOML with a key for each setting;
    `config` or else the variable NEARDUP_CONFIG names it.

    Raises:
        StopError: one line for each wrong value: where it was set, value, bound and remedy.
    """
    if config is None and os.environ.get(CONFIG_VARIABLE):
        config = Path(os.environ[CONFIG_VARIABLE])
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    sources = (
        (_read_file(config) if config is not None else {}, str(config)),
        (_read_environment(), "environment"),
        (dict(flags or {}), "flag"),
    )
    for found, origin in sources:
        for name, value in found.items():
            both = isinstance(value, dict) and isinstance(values.get(name), dict)
            values[name] = values[name] | value if both else value
            origins[name] = origin
    try:
        settings = Settings(**values)
        settings._config = config
        return LoadedSettings(settings, origins)
    except ValidationError as error:
        lines = [_line(part, values, origins) for part in error.errors(include_url=False)]
        raise StopError(
            "these settings are wrong:\n" + "\n".join(f"  {line}" for line in lines)
        ) from None


def _read_file(path: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StopError(f"cannot read the settings of {path}: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise StopError(f"{path} is not TOML: {error}") from None
    for name in values:
        _refuse_unknown(name, str(path))
    return values


def _refuse_unknown(name: str, where: str) -> None:
    if name not in Settings.model_fields:
        near = difflib.get_close_matches(name, Settings.model_fields, 1)
        remedy = f"did you mean {near[0]}?" if near else "`neardup settings` lists all"
        raise StopError(f"{where}: there is no setting {name!r}: {remedy}")


def _read_environment() -> dict[str, Any]:
    for name in sorted(os.environ):
        if name.startswith(ENV_PREFIX) and name not in OTHER_VARIABLES:
            _refuse_unknown(name.removeprefix(ENV_PREFIX).lower(), name)
    try:
        return EnvSettingsSource(Settings)()
    except ValueError as error:  # a map that is not JSON
        raise StopError(f'{error}: a map is written as JSON, like {{"linger.ms": "5"}}') from None


def _line(error: Any, values: Mapping[str, Any], origins: Mapping[str, str]) -> str:
    """Put one error of pydantic into our words."""
    message = str(error["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    if not error["loc"]:
        return message  # settings that do not agree: the message names them
    name = str(error["loc"][0])
    message = _rule(Settings.model_fields[name], str(error["type"])) or message
    shown = _shown(name, values.get(name))
    given = {
        None: f"{flag_name(name)} ({env_name(name)})",
        "environment": f"{env_name(name)}={shown}",
        "flag": f"{flag_name(name)} {shown}",
    }
    origin = origins.get(name)
    return f"{given.get(origin, f'{name} = {shown} in {origin}')}: {message}"


def _rule(field: FieldInfo, error_type: str) -> str | None:
    """Say what a setting takes, for the errors that pydantic words less well."""
    unit = "" if unit_of(field) == "text" else f" {unit_of(field)}"
    bounds = bounds_of(field)
    match error_type:
        case "greater_than_equal" | "less_than_equal" | "string_too_short" | "string_too_long" if (
            bounds
        ):
            return f"must be {bounds}{unit}"
        case "int_parsing" | "int_from_float" | "int_parsing_size":
            return f"must be a whole number{f', {bounds}' if bounds else ''}{unit}"
        case "float_parsing":
            return f"must be a number{f', {bounds}' if bounds else ''}{unit}"
        case "bool_parsing":
            return "must be true or false"
        case "string_pattern_mismatch":
            return "must be letters, digits, dots, hyphens and underscores"
        case _:
            return None


def _shown(name: str, value: Any) -> str:
    if unit_of(Settings.model_fields[name]) == "secret" or isinstance(value, dict):
        return HIDDEN  # a map of Kafka options may hold a password, too
    text = str(value)
    return text if len(text) <= _SHOWN_CHARACTERS_MAX else text[: _SHOWN_CHARACTERS_MAX - 1] + "…"
