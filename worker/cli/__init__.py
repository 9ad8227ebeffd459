"""
The command line: `PANELS` maps each command to the function that runs it.

A command's module is imported when the command is called, so that `neardup --help` and completion
load none of them. To add a command, write its function in a module of this package and give it a
line in `PANELS`.

Why some commands that look alike are separate:

    topics create, alter    the first makes what is absent; the second changes one setting of one
                            topic, which may be somebody else's, as `topics check` proposes it
    explain, compare        they print one page, about a verdict or about two files; one command
                            would have to guess which it was given
    find-all, find-clusters names and options of known programs; clusters never hold all pairs
    tune, evaluate          a search for settings, and a measure of given ones, by one sampler
    nearest                 it ranks, and no verdict does
    log renew, retire       the second deletes, and checks what nothing else does
    warm-up                 an image needs it: it judges nothing
"""

from __future__ import annotations

import importlib
import inspect
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command


class CommandEntry(NamedTuple):
    """
    The place of a command, and its line in the list of commands.

    Attributes:
        target: module and function below this package, as `module:function`; or a `typer.Typer`
            that holds a group of commands.
        summary: the first sentence of the function's docstring (a test compares them).
    """

    target: str
    summary: str


# Each command, in the panels and the order of the help.
PANELS: dict[str, dict[str, CommandEntry]] = {
    "A group of workers": {
        "worker": CommandEntry(
            "group:worker", "Judge documents as a member of the group: one verdict per document."
        ),
        "topics": CommandEntry("group:topics", "Create, check or change the topics."),
        "feed": CommandEntry("group:feed", "Send crawler output to the topic of documents."),
        "verdicts": CommandEntry(
            "verdicts:verdicts", "Print the committed verdicts, from the beginning of the topic."
        ),
        "ask": CommandEntry(
            "ask:ask", "Ask a worker which verdicts documents would get now. It stores nothing."
        ),
        "verify": CommandEntry(
            "group:verify",
            "Replay the log and report any verdict that is lost, repeated or wrong.",
        ),
        "offsets": CommandEntry(
            "offsets:offsets", "Repair the group's offsets after somebody else has changed them."
        ),
        "log": CommandEntry(
            "log:log", "Begin a new log where the old one ends, and retire the old one."
        ),
        "rebuild": CommandEntry(
            "group:rebuild",
            "Judge all documents again, with other parameters and into a new log.",
        ),
        "top": CommandEntry(
            "top:top", "Show a running group live: members, lag, rates, duplicates."
        ),
    },
    "Files": {
        "dedup": CommandEntry(
            "dedup:dedup",
            "Judge the documents of files, as a group of workers would: one verdict per line.",
        ),
        "archive": CommandEntry(
            "archive:archive",
            "Deduplicate a large collection of files on Spark, with the verdicts of `dedup`.",
        ),
        "report": CommandEntry(
            "report:report",
            "Write an HTML page that shows the verdicts of a file or of the topics.",
        ),
        "explain": CommandEntry(
            "explain:explain_command",
            "Explain why a document got its verdict: bits, search, shingles, diff.",
        ),
        "fingerprint": CommandEntry(
            "fingerprint:fingerprint",
            "Write the fingerprint of each document in files, one per line.",
        ),
        "compare": CommandEntry(
            "compare:compare_command",
            "Compare two documents: bits, shingles, where they differ, a diff.",
        ),
        "nearest": CommandEntry(
            "nearest:nearest",
            "Write the documents that are most similar to a given one, the most similar first.",
        ),
        "find-all": CommandEntry(
            "pairs:find_all", "Write every pair of fingerprints within a distance."
        ),
        "find-clusters": CommandEntry(
            "pairs:find_clusters",
            "Write the clusters of fingerprints that are linked by pairs within a distance.",
        ),
    },
    "Choose settings, try neardup": {
        "settings": CommandEntry(
            "settings:settings",
            "Print every setting in effect, with unit and source, as a TOML file for --config.",
        ),
        "plan": CommandEntry(
            "plan:plan",
            "Plan an index, an archive or a group of workers, with what each costs.",
        ),
        "tune": CommandEntry(
            "tune:tune", "Find the settings that find the most copies among your documents."
        ),
        "evaluate": CommandEntry(
            "evaluate:evaluate",
            "Measure how many labelled copies and how many wrong pairs are found.",
        ),
        "demo": CommandEntry(
            "demo:demo", "Run everything: a sample crawl, a broker, workers, verdicts, a summary."
        ),
        "broker": CommandEntry(
            "broker:broker",
            "Run a real Apache Kafka on this machine. It needs nothing but Python.",
        ),
        "sample-crawl": CommandEntry(
            "sample_crawl:sample_crawl",
            "Write a synthetic crawl in eight languages, and the truth about each document.",
        ),
        "warm-up": CommandEntry(
            "group:warm_up", "Compile every kernel now, and say where the machine code is stored."
        ),
    },
}
METAVARS: dict[Any, str] = {
    int: "INTEGER",
    float: "NUMBER",
    Path: "PATH",
    dict: "NAME=VALUE",
    tuple: "INTEGER,…",
}
_ENTRIES = {name: entry for entries in PANELS.values() for name, entry in entries.items()}


def load_command(name: str) -> Any:
    """
    Import a command.

    Args:
        name: one of those in `PANELS`.
    Returns:
        The command or the group of commands, as `typer.main.get_command` makes it.
    Raises:
        KeyError: there is no such command.

    Cost: that of importing its module, up to a second.

    >>> load_command("settings").name
    'settings'
    """
    module, _, attribute = _ENTRIES[name].target.partition(":")
    target = getattr(importlib.import_module(f"{__name__}.{module}"), attribute)
    program = target
    if not isinstance(target, typer.Typer):
        program = typer.Typer(add_completion=False, rich_markup_mode="rich")
        program.command()(target)
    command = get_command(program)
    command.name = name
    _word(command)
    return command


class CommandGroup(TyperGroup):
    """A group of commands whose help names types as all others do, and takes text as it stands."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        for command in self.commands.values():
            _word(command)

    def get_params(self, ctx: Any) -> list[Any]:
        """
        Return the options without those that install completion.

        They work, but the help has no room for them, nor for itself.
        """
        options: list[Any] = super().get_params(ctx)
        for option in options:
            option.hidden = option.hidden or option.name in (
                "install_completion",
                "show_completion",
                "help",
            )
            _name_type(option)
        return options

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of this name, with `--help` among its options, or None."""
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            _name_type(command.get_help_option(ctx))
        return command


def group_of_commands(name: str) -> typer.Typer:
    """Return the group that `PANELS` lists under a name, without its commands."""
    group = typer.Typer(
        cls=CommandGroup,
        no_args_is_help=True,
        add_completion=False,
        help=_ENTRIES[name].summary,
    )
    group.callback()(lambda: None)  # or a single command would be taken for the group
    return group


class LazyCommands(CommandGroup):
    """The commands of `PANELS`: lists show their summaries, and a call imports the one called."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        for panel, entries in PANELS.items():
            for name, entry in entries.items():
                self.commands[name] = TyperCommand(
                    name,
                    help=_plain(entry.summary),
                    rich_markup_mode="rich",
                    rich_help_panel=panel,
                )

    def invoke(self, ctx: Any) -> Any:
        """Run what was called; drop pydantic's prefix from the message of a wrong value."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")  # pydantic's own words
            raise

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return name, command and remaining arguments of a call; the command is imported."""
        name, listed, rest = super().resolve_command(ctx, args)
        if name is None or listed is None:
            return name, listed, rest
        command = load_command(name)
        _name_type(command.get_help_option(ctx))
        _refuse_empty(command, rest)
        _refuse_keys(command, rest)
        if not ctx.resilient_parsing:  # a completion has no error to show
            _refuse_repeated(ctx, command, rest)
        return name, command, rest


def _refuse_empty(command: Any, arguments: list[str]) -> None:
    """
    Raise BadParameter for an empty argument: as a path, it would be the folder we are in.

    A column may have an empty name: pandas writes one for the numbers of the rows.
    """
    commands = [command, *getattr(command, "commands", {}).values()]
    options = [one for each in commands for one in each.params if not getattr(one, "is_flag", True)]
    with_value = {name for option in options for name in option.opts}
    before = ""
    for argument in arguments:
        if argument == "--":  # behind it are no options
            with_value = set()
        name = argument.removesuffix("=") if argument else before
        is_empty = not argument or (argument.endswith("=") and name in with_value)
        option = name if name in with_value else None
        if is_empty and not (option or "").endswith("-column"):
            text = "must not be empty: is a variable of the shell not set?"
            raise typer.BadParameter(text, param_hint=option)
        before = argument


def _refuse_keys(command: Any, arguments: list[str]) -> None:
    """
    Raise BadParameter for an option that is a key of the definition, or that earlier versions had,
    and say what to do.
    """
    offered = {option for one in command.params for option in (*one.opts, *one.secondary_opts)}
    given = [argument.partition("=")[0] for argument in arguments]
    for option in given:
        if not option.startswith("--") or option in offered:
            continue
        from worker.settings import DECIDING, FORMER, in_definition  # noqa: PLC0415

        name = option.removeprefix("--").removeprefix("no-").replace("-", "_")
        if name in DECIDING:
            raise typer.BadParameter(in_definition(name), param_hint=option)
        if name in FORMER:
            raise typer.BadParameter(FORMER[name], param_hint=option)


def _refuse_repeated(ctx: Any, command: Any, arguments: list[str]) -> None:
    """
    Raise BadParameter for an option that takes one value and is given several times.

    The parser would take the last one, and not say which it leaves out. So it reads the arguments
    once more here, with a list in the place of each value. A flag may come again: it has no value.
    """
    commands = getattr(command, "commands", {})
    if commands:
        command, arguments = commands.get(arguments[0] if arguments else ""), arguments[1:]
    if command is None:  # no command of the group: the group says so
        return
    single = [
        parameter
        for parameter in command.params
        if parameter.param_type_name == "option"
        and not (parameter.is_flag or parameter.count or parameter.multiple)
    ]
    own_ctx = typer.Context(command, parent=ctx, info_name=command.name)
    for parameter in single:
        parameter.multiple = True
    try:
        parser = command.make_parser(own_ctx)
    finally:
        for parameter in single:
            parameter.multiple = False
    values, _, _ = parser.parse_args(list(arguments))
    for parameter in single:
        given = values.get(parameter.name) or []
        if len(given) > 1:
            told = " and ".join(repr(value) for value in given)
            raise typer.BadParameter(
                f"is given {len(given)} times, with {told}: it takes one value",
                param_hint=parameter.opts[0],
            )


def _word(command: Any) -> None:
    """Have a command's help take its text as it stands, paragraph by paragraph, and name types."""
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    command.help = "\n\n".join(_plain(" ".join(paragraph.split())) for paragraph in paragraphs)
    for parameter in command.params:
        parameter.help = _plain(parameter.help or "")
        _name_type(parameter)


def _name_type(parameter: Any) -> None:
    """
    Name in the help what an option takes, as for the options of the settings.

    A flag takes nothing, and an argument's name says it already.
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
    cls=LazyCommands,
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
