"""
Reads the settings: flags take precedence over the environment, then a file, then the defaults. The
definition has a file of its own.

An error names where a wrong value came from, the value, what the setting takes and the remedy.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from worker.errors import StopError
from worker.settings.declaration import FORMER, bounds_of, kind_of, unit_of
from worker.settings.definition import DefinitionSettings, read_definition
from worker.settings.kafka import PREFIX, flattened, property_of, variable_of
from worker.settings.librdkafka import properties
from worker.settings.model import DECIDING, SETTINGS, Settings
from worker.settings.writing import (
    CONFIG_VARIABLE,
    ENV_PREFIX,
    KAFKA_PREFIX,
    env_name,
    flag_name,
    toml_value,
)

# Read elsewhere: the name of the file of settings, what tests look at, and NEARDUP_FAULT, with
# which they make a worker fail.
OTHER_VARIABLES = frozenset(
    {
        CONFIG_VARIABLE,
        "NEARDUP_CORPORA",
        "NEARDUP_EXAMPLES",
        "NEARDUP_FAULT",
        "NEARDUP_HISTORIES",
    }
)
HIDDEN = "**********"
_SHOWN_CHARACTERS_MAX = 100
# Types of pydantic's errors.
_OUT_OF_BOUNDS = ("greater_than_equal", "less_than_equal", "string_too_short", "string_too_long")
# Units that say what a value is and count nothing: "0 to 65,535 port" is no bound.
_NOT_COUNTED = {"text", "port", "weight", "Jaccard index"}
_NOT_WHOLE = ("int_parsing", "int_from_float", "int_parsing_size")


class LoadedSettings(NamedTuple):
    """
    The settings, and for each that is not a default where its value came from. Each of Kafka's own
    settings has its origin under its full name, such as "kafka.linger.ms".
    """

    settings: Settings
    origins: dict[str, str]


def load_settings(
    flags: Mapping[str, Any] | None = None, config: Path | None = None
) -> LoadedSettings:
    """
    Merge flags, environment, file and defaults, in this order of precedence, and check them.

    Kafka's own settings are merged name by name. The file is TOML with a key for each setting;
    `config` or else the variable NEARDUP_CONFIG names it.

    Raises:
        StopError: one line for each wrong value: where it was set, value, bound and remedy.
    """
    if config is None and os.environ.get(CONFIG_VARIABLE):
        config = Path(os.environ[CONFIG_VARIABLE])
    values: dict[str, Any] = {}
    properties: dict[str, Any] = {}
    origins: dict[str, str] = {}
    sources = (
        (_read_file(config) if config is not None else {}, str(config)),
        (_read_environment(), "environment"),
        (dict(flags or {}), "flag"),
    )
    for found, origin in sources:
        its_properties = found.pop("kafka", {})
        properties |= its_properties
        values |= found
        origins |= dict.fromkeys([*found, *(PREFIX + name for name in its_properties)], origin)
    if properties:
        values["kafka"] = properties
    try:
        settings = Settings(**values)
        settings._config = config
        of_definition = [name for name in DECIDING if name in settings.model_fields_set]
        return LoadedSettings(
            settings, origins | dict.fromkeys(of_definition, str(settings.definition))
        )
    except ValidationError as error:
        lines = [_line(part, values, origins) for part in error.errors(include_url=False)]
        raise StopError(
            "these settings are wrong:\n" + "\n".join(f"  {line}" for line in lines)
        ) from None


def load_definition(path: Path) -> DefinitionSettings:
    """
    Return the keys of a definition alone, without the settings of a worker, as the library does.

    Raises:
        StopError: the file is no definition; a line for each wrong key, with value and bound.
    """
    try:
        values = read_definition(path)
        return DefinitionSettings(**values)
    except ValidationError as error:
        values["definition"] = path
        lines = [_line(part, values, {}) for part in error.errors(include_url=False)]
        raise StopError("\n".join(lines)) from None
    except ValueError as error:
        raise StopError(str(error)) from None


def _read_file(path: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise StopError(f"cannot read the settings of {path}: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise StopError(f"{path} is not TOML: {error}") from None
    for name, value in values.items():
        _refuse_unknown(name, str(path))
        _refuse_other_kind(name, value, path)
    if "kafka" in values:
        try:
            values["kafka"] = flattened(values["kafka"])
        except ValueError as error:
            raise StopError(f"{path}: {error}") from None
    return values


def _refuse_unknown(name: str, where: str) -> None:
    if name not in SETTINGS:
        raise StopError(f"{where}: there is no setting {name!r}: {_remedy(name)}")


def _refuse_other_kind(name: str, value: Any, path: Path) -> None:
    """
    Raise StopError for true or false where a number is wanted, and the other way round.

    Pydantic would take each for the other. A text may say either, as in a variable.
    """
    field = Settings.model_fields[name]
    is_wrong = isinstance(value, bool)
    if unit_of(field) == "yes/no":
        is_wrong = isinstance(value, int | float) and not is_wrong
    if is_wrong:
        raise StopError(f"{name} = {toml_value(value)} in {path}: {kind_of(field)}")


def _remedy(name: str) -> str:
    """Say what may have been meant by a setting that does not exist."""
    if name in DECIDING:
        return in_definition(name)
    if property_of(name) in properties():  # one of Kafka's own without its prefix
        return f"did you mean {PREFIX}{property_of(name)} ({KAFKA_PREFIX}{name.upper()})?"
    if name in FORMER:
        return FORMER[name]
    near = difflib.get_close_matches(name, SETTINGS, 1)
    return f"did you mean {near[0]}?" if near else "`neardup settings` lists all"


def in_definition(name: str) -> str:
    """Say where a key of the definition is written."""
    return (
        f"it decides verdicts, so it is a key of the definition. Write {name} = … into a TOML file "
        f"and name this file: {flag_name('definition')} FILE, {env_name('definition')}=FILE, or "
        'definition = "FILE" in the file of settings'
    )


def _read_environment() -> dict[str, Any]:
    """Return what the variables say; one that is empty says nothing, as compose files pass it."""
    given = {name: value for name, value in sorted(os.environ.items()) if value}
    for name in given:
        _refuse_lower_case(name)
    properties = {
        property_of(name.removeprefix(KAFKA_PREFIX)): value
        for name, value in given.items()
        if name.startswith(KAFKA_PREFIX)
    }
    for name in given:
        if name in (env_name("kafka"), env_name("kafka_options")):
            raise StopError(
                f"{name}: each of Kafka's own settings has a variable of its own, "
                f"such as {KAFKA_PREFIX}LINGER_MS=5"
            )
        is_ours = name.startswith(ENV_PREFIX) and not name.startswith(KAFKA_PREFIX)
        if is_ours and name not in OTHER_VARIABLES:
            _refuse_unknown(name.removeprefix(ENV_PREFIX).lower(), name)
    # By hand: pydantic ignores case, and would take the keys of the definition, too.
    values: dict[str, Any] = {
        name: given[env_name(name)] for name in SETTINGS if env_name(name) in given
    }
    return values | ({"kafka": properties} if properties else {})


def _refuse_lower_case(name: str) -> None:
    """Raise StopError for a variable that would be one of ours in upper case."""
    upper = name.upper()
    if name == upper or not upper.startswith(ENV_PREFIX):
        return
    key = upper.removeprefix(ENV_PREFIX).lower()
    if key in DECIDING:
        raise StopError(f"{name}: {in_definition(key)}")
    is_ours = upper in OTHER_VARIABLES or upper.startswith(KAFKA_PREFIX)
    if key in FORMER and not is_ours:
        raise StopError(f"{name}: there is no setting {key!r}: {FORMER[key]}")
    if key in SETTINGS or is_ours:
        raise StopError(f"{name}: variables of settings are in upper case: write {upper}")


def _line(error: Any, values: Mapping[str, Any], origins: Mapping[str, str]) -> str:
    """Put one error of pydantic into our words."""
    message = str(error["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    if not error["loc"]:
        return message  # settings that do not agree: the message names them
    name = str(error["loc"][0])
    if name == "kafka":
        return f"{_property(error['loc'], origins)}: {message}"
    message = _rule(Settings.model_fields[name], str(error["type"])) or message
    if name in DECIDING:
        shown = _shown(name, error["input"])
        return f"{name} = {shown} in the definition {values['definition']}: {message}"
    shown = _shown(name, values.get(name))
    given = {
        None: f"{flag_name(name)} ({env_name(name)})",
        "environment": f"{env_name(name)}={shown}",
        "flag": f"{flag_name(name)} {shown}",
    }
    origin = origins.get(name)
    return f"{given.get(origin, f'{name} = {shown} in {origin}')}: {message}"


def _property(place: Sequence[Any], origins: Mapping[str, str]) -> str:
    """Say where a property was set, without its value: some are secrets under a wrong name."""
    name = str(place[1]) if len(place) > 1 else ""
    match origins.get(PREFIX + name):
        case "environment":
            return f"{KAFKA_PREFIX}{variable_of(name)}"
        case "flag":
            return f"--kafka {name}=…"
        case origin:
            return f"{PREFIX}{name} in {origin}"


def _rule(field: FieldInfo, error_type: str) -> str | None:
    """Say what a setting takes, for the errors that pydantic words less well."""
    unit = "" if unit_of(field) in _NOT_COUNTED else f" {unit_of(field)}"
    bounds = bounds_of(field)
    within = f"{', ' + bounds if bounds else ''}{unit}"
    rules = dict.fromkeys(_OUT_OF_BOUNDS if bounds else (), f"must be {bounds}{unit}")
    rules |= dict.fromkeys(_NOT_WHOLE, f"must be a whole number{within}")
    rules |= {
        "float_parsing": f"must be a number{within}",
        "bool_parsing": "must be true or false",
        "string_pattern_mismatch": "must be letters, digits, dots, hyphens and underscores",
        "tuple_type": "must be a list, in brackets",
    }
    return rules.get(error_type)


def _shown(name: str, value: Any) -> str:
    if unit_of(Settings.model_fields[name]) == "secret":
        return HIDDEN
    text = str(value)
    return text if len(text) <= _SHOWN_CHARACTERS_MAX else text[: _SHOWN_CHARACTERS_MAX - 1] + "…"
