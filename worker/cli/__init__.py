"""
The command line: one file per group of commands, which register with `app`; heavy imports wait for
the command.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

# Each command, in the panels and the order of the help.
PANELS = {
    "A group of workers": ("worker", "topics", "feed", "verdicts", "dead-letters", "verify", "rebuild", "top"),
    "Files": (
        "dedup", "archive", "report", "explain", "fingerprint", "compare", "nearest", "find-all", "find-clusters",
    ),
    "To choose settings, to try": (
        "settings", "plan", "tune", "evaluate", "demo", "broker", "sample-crawl", "warm-up",
    ),
}  # fmt: skip
METAVARS: dict[Any, str] = {
    int: "INTEGER",
    float: "NUMBER",
    Path: "PATH",
    dict: "NAME=VALUE",
    tuple: "INTEGER,…",
}
_PANEL_OF = {name: panel for panel, names in PANELS.items() for name in names}


class Commands(TyperGroup):
    """
    Commands in the panels and the order of the help. A text is a text: its brackets are no markup.
    """

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        found = self.commands
        self.commands = {
            name: found[name] for name in sorted(found, key=[*_PANEL_OF, *found].index)
        }
        command: Any
        for name, command in self.commands.items():
            command.rich_help_panel = _PANEL_OF.get(name)
            paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
            command.help = "\n\n".join(
                _plain(" ".join(paragraph.split())) for paragraph in paragraphs
            )
            for parameter in command.params:
                parameter.help = _plain(parameter.help or "")
                _name_type(parameter)

    def get_params(self, ctx: Any) -> list[Any]:
        """
        Return the options. Those that install completion work, but the help has no room for them,
        nor for itself.
        """
        found: list[Any] = super().get_params(ctx)
        for option in found:
            option.hidden = option.hidden or option.name in (
                "install_completion",
                "show_completion",
                "help",
            )
            _name_type(option)
        return found

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command, `--help` among its options."""
        if (command := super().get_command(ctx, cmd_name)) is not None:
            _name_type(command.get_help_option(ctx))
        return command


def _name_type(parameter: Any) -> None:
    """
    Have the help name what an option takes as the others do; a flag takes nothing, an argument's
    name says it.
    """
    if parameter.param_type_name == "argument":
        parameter.metavar = parameter.metavar or parameter.name.upper()
        parameter.display_type_rich = lambda **_: None
    elif parameter.metavar is None:
        kind = parameter.type_descriptor.annotation
        choices = parameter.type_descriptor.choices
        parameter.metavar = (
            "" if kind is bool else "|".join(choices or ()) or METAVARS.get(kind, "TEXT")
        )


def _plain(text: str) -> str:
    return text.replace("[", r"\[")


app = typer.Typer(
    name="neardup",
    cls=Commands,
    help="Near-duplicate detection on a live crawl: exactly one verdict for every document.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _tell_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"neardup {version('neardup')}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_tell_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Near-duplicate detection on a live crawl: exactly one verdict for every document."""
    from worker.shell.runtime import logging  # noqa: PLC0415  # 60 ms that `--help` does not need

    logging.configure()


# Each module of this package registers its commands with `app`, in the order of their names.
for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
