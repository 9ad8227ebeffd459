"""The settings as options of a command: those that it uses, the usual ones in its help."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from pydantic.fields import FieldInfo
from rich.console import Console

from worker.cli import METAVARS
from worker.cli.reading import with_reading
from worker.errors import StopError
from worker.settings import (
    LoadedSettings,
    Settings,
    default_of,
    environment,
    flag_name,
    is_secret,
    load_settings,
    unit_of,
)

WAIT_S = 3.0  # a person waits; a worker waits `call_timeout_s`

# The settings that commands use, and so offer.
CLUSTER = ("bootstrap", "kafka")
ROWS = ("document_bytes_max", "batch_documents_max", "threads")
DOCUMENTS = (*ROWS, "batch_bytes_max")

# The settings that the help shows, in panels. `neardup settings --describe` shows all.
PANELS = {
    "Cluster": ("bootstrap", "group", "worker_id", "partitions", "replication_factor"),
    "Operation": ("definition", "threads", "state_dir", "metrics_port", "log_level"),
}
_PANEL_OF = {name: panel for panel, names in PANELS.items() for name in names}

# Options that the pages use, and for which the help has no room: `--config` says where they are.
FURTHER = ("topic_new", "base_snapshot", "metrics_host")

Command = Callable[..., Any]


def await_cluster(settings: Settings) -> None:
    """
    Wait for the cluster's first answer, some 20 ms.

    Until then a terminal shows which address is being asked.
    """
    from worker.shell.kafka.admin import Admin  # noqa: PLC0415

    with Console(stderr=True).status(f"asking {settings.bootstrap}"):
        Admin(settings, WAIT_S).cluster_id()


def with_settings(*names: str) -> Callable[[Command], Command]:
    """
    Return a command with an option for each of these settings, which it uses, and `--config`.

    The command has a parameter `settings: Settings`, or `loaded: LoadedSettings`; its own
    parameters stay, and `reading: Reading` becomes the options of `reading.py`. The help shows the
    options of PANELS. Other settings are still read from the environment and the file. What is
    wrong is said in one line each, with exit code 2.
    """
    return partial(_with_options, names=names)


def with_cluster(*names: str) -> Callable[[Command], Command]:
    """
    Return a command with an option for each of these settings and for the cluster's.

    The command runs once the cluster has answered.
    """
    return partial(_with_options, names=(*CLUSTER, *names), needs_cluster=True)


def _with_options(
    command: Command, *, names: tuple[str, ...], needs_cluster: bool = False
) -> Command:
    order = [*_PANEL_OF, *names]
    fields = {name: Settings.model_fields[name] for name in sorted(names, key=order.index)}
    # Others can read a flag.
    fields = {name: field for name, field in fields.items() if unit_of(field) != "secret"}
    signature = inspect.signature(command, eval_str=True)
    taken = "loaded" if "loaded" in signature.parameters else "settings"
    own, gather_reading = with_reading(signature)

    def wrapper(**arguments: Any) -> Any:
        config = arguments.pop("config")
        flags = {name: arguments.pop(name) for name in fields}
        given = {name: value for name, value in flags.items() if value not in (None, [])}
        loaded = _load(given, config, is_worker=command.__name__ == "worker")
        if needs_cluster:
            await_cluster(loaded.settings)
        gather_reading(arguments)
        return command(**{taken: loaded if taken == "loaded" else loaded.settings}, **arguments)

    offered = {"config": (Path | None, _config_option(fields))} | {
        name: _option(name, one) for name, one in fields.items()
    }
    parameters = [parameter for parameter in own if parameter.name != taken] + [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, option]
        )
        for name, (kind, option) in offered.items()
    ]
    wrapper.__name__, wrapper.__doc__, wrapper.__module__ = (
        command.__name__,
        command.__doc__,
        command.__module__,
    )
    wrapper.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return wrapper


def _config_option(fields: Iterable[str]) -> Any:
    """Return the option of the file of settings, whose help says where further options are."""
    named = ", ".join(flag_name(name) for name in FURTHER if name in fields)
    further = f"More{f', like {named}' if named else ''}: `neardup settings --describe`."
    return typer.Option(
        "--config", metavar="FILE", help=f"TOML settings. {further}", show_default=False
    )


def _load(flags: dict[str, Any], config: Path | None, *, is_worker: bool) -> LoadedSettings:
    from worker.shell.runtime import logging  # noqa: PLC0415

    try:
        if "kafka" in flags:
            flags["kafka"] = dict(_name_and_value(text) for text in flags["kafka"])
        loaded = load_settings(flags, config)
    except StopError as error:
        logging.configure(is_worker=is_worker)
        logging.end(str(error))
        raise typer.Exit(2) from None
    logging.configure(loaded.settings.log_level, loaded.settings.log_format, is_worker=is_worker)
    return loaded


def _name_and_value(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise StopError(f"--kafka takes NAME=VALUE, got {text!r}")
    name = name.strip()
    if is_secret(name):
        raise StopError(
            f"--kafka {name}=…: others on this machine can read an option. Set "
            f"{', '.join(environment({'kafka': {name: ''}}))}, or put it into the file"
        )
    return name, value


def _option(name: str, field: FieldInfo) -> tuple[Any, Any]:
    """
    Return the type and the option of a setting.

    A value stays text here, so that the settings check all values in the same way, from any source.
    """
    kind = field.annotation
    flag = flag_name(name)
    if type(None) in (parts := get_args(kind)):  # X of `X | None`
        kind = parts[0]
    default = "" if default_of(field) == "none" else f" [default: {default_of(field)}]"
    shown: dict[str, Any] = {
        "help": f"{(field.description or '').partition('. ')[0].removesuffix('.')}.{default}",
        "show_default": False,
        "hidden": name not in _PANEL_OF,
        "rich_help_panel": _PANEL_OF.get(name),
    }
    if kind is bool:
        return bool | None, typer.Option(f"{flag}/--no-{flag[2:]}", **shown)
    metavar = (
        "|".join(get_args(kind))
        if get_origin(kind) is Literal
        else METAVARS.get(get_origin(kind) or kind, "TEXT")
    )
    annotation: Any = list[str] | None if get_origin(kind) is dict else str | None
    return annotation, typer.Option(flag, metavar=metavar, **shown)
