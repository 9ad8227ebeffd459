"""`neardup settings`: every setting in effect, as a file for --config, and the definition."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

import typer
from pydantic import SecretStr

from worker.cli.options import with_settings
from worker.settings import (
    DECIDING,
    SETTINGS,
    LoadedSettings,
    Settings,
    bounds_of,
    default_of,
    toml_key,
    toml_value,
    unit_of,
)

_COMMENT: dict[str, Any] = {
    "initial_indent": "# ",
    "subsequent_indent": "# ",
    "break_on_hyphens": False,
}


@with_settings(*SETTINGS)
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
    are hidden. Kafka's own settings have the names of librdkafka's properties.

    What decides verdicts follows as comments: it is written into the file that --definition names.
    """
    for name in SETTINGS:
        _print(loaded, name, changed=changed, describe=describe)
    keys = [entry for name in DECIDING for entry in _entries(loaded, name)]
    if not changed or any(entry.is_changed for entry in keys):
        typer.echo("\n# The definition: keys of the file that `definition` names.")
    for name in DECIDING:
        _print(loaded, name, "# ", changed=changed, describe=describe)


def _print(
    loaded: LoadedSettings, name: str, before: str = "", *, changed: bool, describe: bool
) -> None:
    """Print the lines of a setting, or of a key of the definition behind a mark of comments."""
    field = Settings.model_fields[name]
    entries = [entry for entry in _entries(loaded, name) if entry.is_changed or not changed]
    if entries and describe:
        bounds = bounds_of(field)
        notes = f"Default: {default_of(field)}{f'; {bounds}' if bounds else ''}."
        typer.echo("\n" + textwrap.fill(f"{field.description} {notes}", 98, **_COMMENT))
    for key, value, origin, _is_changed in entries:
        comment = f"# {unit_of(field)}; {origin or 'default'}"
        if value is None:
            typer.echo(f"# {key} is not set  {comment}")
        elif isinstance(value, SecretStr):
            typer.echo(f"# {key} is set and hidden  {comment}")
        else:
            typer.echo(f"{before}{key} = {toml_value(value)}  {comment}")


class _Entry(NamedTuple):
    """A line of the file: its key, its value, and where it came from, None for a default."""

    key: str
    value: Any
    origin: str | None
    is_changed: bool  # whether it was given, and is not the default


def _entries(loaded: LoadedSettings, name: str) -> Iterator[_Entry]:
    """Yield a setting's lines: one, but for Kafka's own settings one each."""
    value = getattr(loaded.settings, name)
    if name != "kafka":
        origin = loaded.origins.get(name)
        default = Settings.model_fields[name].get_default(call_default_factory=True)
        yield _Entry(name, value, origin, origin is not None and value != default)
        return
    if not value:
        yield _Entry(name, None, None, is_changed=False)
    for part, text in value.items():
        origin = loaded.origins.get(f"kafka.{part}")
        yield _Entry(toml_key(part), text, origin, origin is not None)
