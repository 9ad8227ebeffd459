"""The settings as options of a command: its help shows the usual ones, in panels; the others are options, too."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from pydantic.fields import FieldInfo

from worker.cli import METAVARS
from worker.cli.cluster import await_cluster
from worker.core.parameters import Parameters
from worker.errors import StopError
from worker.settings import EngineSettings, Settings
from worker.settings.field import default_of, unit_of
from worker.settings.load import Loaded, flag_name, load_settings

# The settings that commands use, and so offer.
CLUSTER = (
    "bootstrap", "security_protocol", "sasl_mechanism", "sasl_username", "ssl_ca_location", "ssl_certificate_location",
    "ssl_key_location", "kafka_options",
)  # fmt: skip
ALL = tuple(Settings.model_fields)
ENGINE = tuple(EngineSettings.model_fields)
SEARCH = tuple(name for name in ENGINE if name == "max_distance" or name.startswith("search_"))
FINGERPRINTS = tuple(name for name in ENGINE if name == "stopwords_file" or name in Parameters.__dataclass_fields__)
DOCUMENTS = ("document_bytes_max", "text_characters_max", "batch_documents_max", "batch_bytes_max", "threads")

# The settings that the help shows, in panels. `neardup settings --describe` shows all.
PANELS = {
    "Cluster": ("bootstrap", "group", "worker_id", "partitions", "replication_factor"),
    "What counts as a duplicate": (
        "search_mode", "max_distance", "shingle_widths", "recrawls", "expire_after_s", "documents_max",
    ),
    "Operation": ("threads", "state_dir", "metrics_port", "log_level"),
}  # fmt: skip
_PANEL_OF = {name: panel for panel, names in PANELS.items() for name in names}

_CONFIG_OPTION = typer.Option(
    "--config", metavar="FILE", help="A TOML file of settings: see `neardup settings`.", show_default=False
)


Command = Callable[..., Any]


def with_settings(*names: str) -> Callable[[Command], Command]:
    """
    Return a command with an option for each of these settings, which it uses, and `--config`.

    The command has a parameter `settings: Settings`; its own parameters stay. The help shows the options of PANELS.
    Other settings are still read from the environment and the file. What is wrong is said in one line each, with exit
    code 2.

        @app.command()
        @with_settings(*FINGERPRINTS, "threads")
        def fingerprint(settings: Settings, hex: Annotated[bool, typer.Option()] = False) -> None: …
    """
    return partial(_with_settings, names=names, prepare=lambda _: None)


def with_cluster(*names: str) -> Callable[[Command], Command]:
    """Add to a command an option for each of these settings and the cluster's; it runs once that has answered."""
    return partial(_with_settings, names=(*CLUSTER, *names), prepare=await_cluster)


def _with_settings(command: Command, *, names: tuple[str, ...], prepare: Callable[[Settings], None]) -> Command:
    def run(loaded: Loaded, **rest: Any) -> Any:
        prepare(loaded.settings)
        return command(settings=loaded.settings, **rest)

    return _with_options(command, "settings", run, names)


def with_loaded_settings(command: Command) -> Command:
    """Add to a command an option for each setting; it has a parameter `loaded: Loaded`, with the origins."""
    return _with_options(command, "loaded", command, ALL)


def _with_options(command: Command, taken: str, run: Command, names: tuple[str, ...]) -> Command:
    """Wrap `run` in a function whose signature has the command's parameters, without `taken`, and the options."""
    order = [*_PANEL_OF, *names]
    fields = {name: Settings.model_fields[name] for name in sorted(names, key=order.index)}
    fields = {name: field for name, field in fields.items() if unit_of(field) != "secret"}  # others can read a flag
    signature = inspect.signature(command, eval_str=True)
    own = [parameter for name, parameter in signature.parameters.items() if name != taken]

    def wrapper(**arguments: Any) -> Any:
        config = arguments.pop("config")
        flags = {name: arguments.pop(name) for name in fields}
        given = {name: value for name, value in flags.items() if value not in (None, [])}
        loaded = _load(given, config, is_worker=command.__name__ == "worker")
        return run(loaded=loaded, **arguments)

    options = [_parameter("config", Path | None, _CONFIG_OPTION)]
    options += [_parameter(name, *_option(name, field)) for name, field in fields.items()]
    parameters = own + [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in options]
    wrapper.__name__, wrapper.__doc__, wrapper.__module__ = command.__name__, command.__doc__, command.__module__
    wrapper.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return wrapper


def _load(flags: dict[str, Any], config: Path | None, *, is_worker: bool) -> Loaded:
    from worker.shell.runtime import logging  # noqa: PLC0415

    try:
        if "kafka_options" in flags:
            flags["kafka_options"] = dict(_name_and_value(text) for text in flags["kafka_options"])
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
        raise StopError(f"--kafka-options takes NAME=VALUE, got {text!r}")
    return name.strip(), value


def _option(name: str, field: FieldInfo) -> tuple[Any, Any]:
    """Return type and option of a setting. Values stay text: the settings check them, whatever their source."""
    kind, flag = _kind(field), flag_name(name)
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
        "|".join(get_args(kind)) if get_origin(kind) is Literal else METAVARS.get(get_origin(kind) or kind, "TEXT")
    )
    annotation: Any = list[str] | None if get_origin(kind) is dict else str | None
    return annotation, typer.Option(flag, metavar=metavar, **shown)


def _kind(field: FieldInfo) -> Any:
    """Return the type of a setting, without None."""
    if get_origin(field.annotation) is Literal:
        return field.annotation
    arguments = [part for part in get_args(field.annotation) if part is not type(None)]
    is_optional = len(arguments) < len(get_args(field.annotation))
    return arguments[0] if is_optional else field.annotation


def _parameter(name: str, annotation: Any, option: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[annotation, option]
    )
