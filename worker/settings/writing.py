"""How a setting and its value are written: as a flag, in the environment, in a file."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from worker.settings.kafka import flattened, variable_of
from worker.settings.model import Settings

ENV_PREFIX = "NEARDUP_"
CONFIG_VARIABLE = "NEARDUP_CONFIG"
KAFKA_PREFIX = f"{ENV_PREFIX}KAFKA_"  # of the variables of Kafka's own settings


def flag_name(name: str) -> str:
    """
    Return a setting's flag: that of batch_wait_ms is --batch-wait-ms.

    >>> flag_name("batch_wait_ms")
    '--batch-wait-ms'
    """
    return "--" + name.replace("_", "-")


def flag(settings: Settings, name: str) -> str:
    """
    Return the flag that gives a setting the value that it has, as a shell reads it.

    >>> flag(Settings(state_dir=Path("a b")), "state_dir"), flag(Settings(tracing=False), "tracing")
    ("--state-dir 'a b'", '--no-tracing')
    """
    value = getattr(settings, name)
    if isinstance(value, bool):
        return flag_name(name if value else f"no_{name}")
    return f"{flag_name(name)} {shlex.quote(_written(value))}"


def command(settings: Settings, words: str, *names: str) -> str:
    """
    Return a command for the cluster of these settings, to be run as it stands: with a flag for each
    of `names` that is not the default.

    Kafka's own settings are left out, because a secret may be among them.

    >>> night = Settings(group="night", bootstrap="kafka:9092")
    >>> command(night, "offsets restore", "group", "topic_new")
    'neardup offsets restore --bootstrap kafka:9092 --group night'
    """
    defaults = Settings.model_fields
    flags = [
        flag(settings, name)
        for name in ("bootstrap", *names)
        if getattr(settings, name) != defaults[name].default
    ]
    return " ".join(["neardup", words, *flags])


def environment(values: Mapping[str, Any]) -> dict[str, str]:
    """
    Return the variables that give another process these settings, secrets in clear.

    >>> environment({"group": "night", "kafka": {"linger.ms": "5"}})
    {'NEARDUP_GROUP': 'night', 'NEARDUP_KAFKA_LINGER_MS': '5'}
    """
    others = {env_name(name): _written(value) for name, value in values.items() if name != "kafka"}
    properties = flattened(values.get("kafka", {}))
    return others | {
        KAFKA_PREFIX + variable_of(name): _written(value) for name, value in properties.items()
    }


def _written(value: Any) -> str:
    """Return a value as a flag or a variable has it."""
    match value:
        case SecretStr():
            return value.get_secret_value()
        case _:
            return "" if value is None else str(value)


def toml_value(value: Any) -> str:
    """
    Write a value as TOML.

    >>> toml_value((1, 2)), toml_value(True), toml_value('a "b"')
    ('[1, 2]', 'true', '"a \\\\"b\\\\""')
    """
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)
        case tuple():
            return "[" + ", ".join(map(toml_value, value)) + "]"
        case _:
            return _quoted(str(value))


def toml_lines(settings: Settings, names: Iterable[str]) -> list[str]:
    """
    Return the lines of a file that gives workers these settings; one that is not set has none.

    Paths are made absolute, because workers may start in other folders.

    >>> toml_lines(Settings(group="night"), ["group", "state_dir"])
    ['group = "night"']
    """
    lines = []
    for name in names:
        value = getattr(settings, name)
        if isinstance(value, Path):
            value = value.resolve()
        if value is not None:  # TOML has no null
            lines.append(f"{name} = {toml_value(value)}")
    return lines


def toml_key(name: str) -> str:
    """
    Write the key of one of Kafka's own settings as TOML.

    >>> toml_key("linger.ms")
    'kafka."linger.ms"'
    """
    return f"kafka.{_quoted(name)}"


def _quoted(text: str) -> str:
    """Write a TOML basic string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return (
        '"'
        + "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in escaped)
        + '"'
    )


def env_name(name: str) -> str:
    """
    Return a setting's environment variable: that of batch_wait_ms is NEARDUP_BATCH_WAIT_MS.

    >>> env_name("batch_wait_ms")
    'NEARDUP_BATCH_WAIT_MS'
    """
    return ENV_PREFIX + name.upper()
