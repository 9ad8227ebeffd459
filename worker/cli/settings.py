"""`neardup settings`: the settings that a worker would start with, and where each comes from."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from pydantic import SecretStr

from worker.cli import app
from worker.cli.options import with_loaded_settings
from worker.settings import Settings
from worker.settings.field import unit_of
from worker.settings.load import HIDDEN, Loaded

_SECRET_WORDS = ("password", "secret", "token", "credential", "pem", "jaas")


@app.command("settings")
@with_loaded_settings
def settings_command(
    loaded: Loaded,
    changed: Annotated[bool, typer.Option("--changed", help="Only what differs from the defaults.")] = False,
) -> None:
    """Show every setting in effect, with unit and source, as a TOML file for --config; secrets are hidden."""
    for name, field in Settings.model_fields.items():
        origin = loaded.origins.get(name, "default")
        if changed and origin == "default":
            continue
        value = getattr(loaded.settings, name)
        comment = f"# {unit_of(field)}; {origin}"
        if value is None or isinstance(value, SecretStr):
            typer.echo(f"# {name} is {'not set' if value is None else 'set and hidden'}  {comment}")
        else:
            typer.echo(f"{name} = {toml_value(value)}  {comment}")


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
            hidden = {
                name: HIDDEN if any(word in name for word in _SECRET_WORDS) else part for name, part in value.items()
            }
            return "{ " + ", ".join(f"{_quoted(name)} = {toml_value(part)}" for name, part in hidden.items()) + " }"
        case _:
            return _quoted(str(value))


def _quoted(text: str) -> str:
    """Write a TOML basic string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in escaped) + '"'
