"""`neardup settings`: every setting in effect, as a file for --config."""

from __future__ import annotations

import textwrap
from typing import Annotated, Any

import typer
from pydantic import SecretStr

from worker.cli.options import ALL, with_settings
from worker.settings import LoadedSettings, Settings, bounds_of, default_of, toml_value, unit_of

_COMMENT: dict[str, Any] = {
    "initial_indent": "# ",
    "subsequent_indent": "# ",
    "break_on_hyphens": False,
}


@with_settings(*ALL)
def settings(
    loaded: LoadedSettings,
    changed: Annotated[
        bool,
        typer.Option("--changed", help="Print only the settings that differ from the defaults."),
    ] = False,
    describe: Annotated[
        bool,
        typer.Option(
            "--describe", help="Also print what each setting does, its default and its bounds."
        ),
    ] = False,
) -> None:
    """
    Print every setting in effect, with unit and source, as a TOML file for --config.

    Each setting is also an option of the commands that use it (--group for group) and a variable
    (NEARDUP_GROUP). Options take precedence over variables, and variables over the file. Secrets
    are hidden.
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
