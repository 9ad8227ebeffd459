"""How a setting and its value are written: as a flag, in the environment, in a file."""

from __future__ import annotations

import json
from typing import Any

from pydantic import SecretStr

from worker.settings.model import Settings

ENV_PREFIX = "NEARDUP_"
CONFIG_VARIABLE = "NEARDUP_CONFIG"
HIDDEN = "**********"
_SECRET_WORDS = ("password", "secret", "token", "credential", "pem", "jaas")


def flag_name(name: str) -> str:
    """
    Return a setting's flag: that of batch_wait_ms is --batch-wait-ms.

    >>> flag_name("batch_wait_ms")
    '--batch-wait-ms'
    """
    return "--" + name.replace("_", "-")


def flag(settings: Settings, name: str) -> str:
    """
    Return the flag that gives a setting the value that it has.

    >>> flag(Settings(), "shingle_widths"), flag(Settings(), "mask_numbers")
    ('--shingle-widths 2', '--no-mask-numbers')
    """
    value = getattr(settings, name)
    if isinstance(value, bool):
        return flag_name(name if value else f"no_{name}")
    return f"{flag_name(name)} {written(settings, name)}"


def written(settings: Settings, name: str) -> str:
    """
    Return the value of a setting as a flag or the environment has it, a secret in clear.

    >>> written(Settings(kafka_options={"linger.ms": "5"}), "kafka_options")
    '{"linger.ms": "5"}'
    """
    match value := getattr(settings, name):
        case SecretStr():
            return value.get_secret_value()
        case dict():
            return json.dumps(value)
        case tuple():
            return ",".join(map(str, value))
        case _:
            return "" if value is None else str(value)


def toml_value(value: Any) -> str:
    """
    Write a value as TOML; passwords and the like among Kafka's options are hidden.

    >>> toml_value({"linger.ms": "5", "sasl.oauthbearer.client.secret": "x"})
    '{ "linger.ms" = "5", "sasl.oauthbearer.client.secret" = "**********" }'
    """
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)
        case tuple():
            return "[" + ", ".join(map(toml_value, value)) + "]"
        case dict():
            hidden = {name for name in value if any(word in name for word in _SECRET_WORDS)}
            parts = (
                f"{_quoted(name)} = {_quoted(HIDDEN if name in hidden else text)}"
                for name, text in value.items()
            )
            return "{ " + ", ".join(parts) + " }"
        case _:
            return _quoted(str(value))


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
