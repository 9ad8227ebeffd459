"""`neardup settings`: the settings that a worker would start with, and where each comes from."""

from __future__ import annotations

import textwrap
from typing import Annotated, Any

import typer
from pydantic import SecretStr

from worker.cli import app
from worker.cli.options import with_loaded_settings
from worker.settings import Settings
from worker.settings.field import bounds_of, default_of, unit_of
from worker.settings.load import HIDDEN, Loaded

_COMMENT: dict[str, Any] = {"initial_indent": "# ", "subsequent_indent": "# ", "break_on_hyphens": False}
_SECRET_WORDS = ("password", "secret", "token", "credential", "pem", "jaas")


@app.command("settings")
@with_loaded_settings
def settings_command(
    loaded: Loaded,
    changed: Annotated[bool, typer.Option("--changed", help="Only what differs from the defaults.")] = False,
    describe: Annotated[bool, typer.Option("--describe", help="What each does, its default and bounds.")] = False,
) -> None:
    """
    Show every setting in effect, with unit and source: a TOML file for --config.

    Each is also an option of the commands that use it (--group for group) and a variable (NEARDUP_GROUP). Options win
    over variables, those over the file. Secrets are hidden.
    """
    for name, field in Settings.model_fields.items():
        origin = loaded.origins.get(name, "default")
        if changed and origin == "default":
            continue
        if describe:
            bounds = bounds_of(field)
            notes = f"Default: {default_of(field)}{f'; {bounds}' if bounds else ''}."
            typer.echo("\n" + textwrap.fill(f"{field.description} {notes}", 98, **_COMMENT))
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
