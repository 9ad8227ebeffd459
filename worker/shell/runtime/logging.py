"""
Structured logs on stderr: JSON for machines, readable on a terminal.

No traceback shows a variable's value. In a program that uses neardup as a library nobody calls
`configure`: its lines then go where the program sends those of structlog or of `logging`.

    a worker, or --log-format json        lines of JSON for machines; laid out on a terminal
    any other command, typed by a person  sentences that begin with "neardup: ", as its errors do;
                                          only what is a warning, since the command itself says
                                          what it does (with --log-level debug, everything)
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any

import structlog
from structlog.tracebacks import ExceptionDictTransformer

_problem: dict[str, Any] | None = None
_ends_as_json = False


def configure(level: str = "info", log_format: str = "auto", *, is_worker: bool = False) -> None:
    """
    Write log lines to stderr, as it is at each line; stdout is for what a command answers.

    Args:
        level: debug, info, warning or error.
        log_format: json, console, or auto: for a worker console on a terminal, else JSON; for
            other commands sentences.
        is_worker: the lines are a worker's log; otherwise they are for the person who typed a
            command.
    """
    global _ends_as_json  # noqa: PLW0603  # logging is one for a process
    is_spoken = log_format == "auto" and not is_worker
    is_console = log_format == "console" or (log_format == "auto" and sys.stderr.isatty())
    if is_spoken and level == "info":
        level = "warning"  # news such as "snapshot written" belong in a worker's log only
    _ends_as_json = not (is_spoken or is_console)
    rendering: list[Any]
    if is_spoken:
        rendering = [structlog.processors.format_exc_info, _speak]
    elif is_console:
        rendering = [
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
            )
        ]
    else:
        rendering = [
            # Local variables hold passwords and documents.
            structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False)),
            structlog.processors.JSONRenderer(default=repr),
        ]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.StackInfoRenderer(),
            _remember,
            *rendering,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
        # Tests and progress bars put another stream in stderr's place.
        cache_logger_on_first_use=False,
    )
    # The core does not know structlog and logs here. A person gets its lines as sentences; among a
    # worker's lines they are no problem that `last_problem` should name.
    ours = logging.getLogger("neardup")
    handler = logging.Handler()
    say = "warning" if is_spoken else "info"
    handler.emit = lambda record: getattr(structlog.get_logger("neardup"), say)(record.getMessage())  # type: ignore[method-assign]
    ours.handlers, ours.propagate = [handler], False


class _Logger:
    """
    A logger of structlog if anybody has configured structlog, else the `neardup` logger of logging.

    Unless it is configured, structlog prints to stdout, among what a program answers there. So a
    library must not use it before; and must not configure it, because it belongs to the program.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        # Like the core, which knows only this one. Without a handler, warnings go to stderr.
        self._plain = structlog.wrap_logger(
            logging.getLogger("neardup"),
            processors=[
                structlog.stdlib.filter_by_level,
                structlog.stdlib.PositionalArgumentsFormatter(),
                structlog.processors.format_exc_info,
                _as_text,
            ],
            wrapper_class=structlog.stdlib.BoundLogger,
        )

    def __getattr__(self, method: str) -> Any:
        # A copy has no attributes at first, and asking for `_plain` would end here again.
        if method.startswith("_"):
            raise AttributeError(f"a logger has no {method}")
        is_configured = structlog.is_configured()
        return getattr(structlog.get_logger(self._name) if is_configured else self._plain, method)


def get_logger(name: str) -> Any:
    """Return the logger of a module: it has the methods of structlog's, such as `warning`."""
    return _Logger(name)


def _as_text(_logger: object, _method: str, event: MutableMapping[str, Any]) -> str:
    """Render a line as a sentence, its traceback below it."""
    text = sentence(event)
    return f"{text}\n{event['exception']}" if event.get("exception") else text


def end(text: str, error: Exception | None = None) -> bool:
    """
    Say why the process ends, in the form of its other lines.

    Returns False if nothing was said and there is a traceback to show.
    """
    text = text.encode("utf-8", "backslashreplace").decode()  # names of files stand in it
    if _ends_as_json:
        structlog.get_logger(__name__).critical(text, exc_info=error)
    elif error is None:
        sys.stderr.write(f"{_spoken(text)}\n")
    return _ends_as_json or error is None


# What a line explains its event with, and what it says of what to do.
_REASONS = ("problem", "reason", "cause", "text")
_REMEDY = "remedy"
_NO_DETAILS = {"event", "level", "timestamp", "exception", *_REASONS, _REMEDY}


def sentence(line: Mapping[str, Any]) -> str:
    """
    Return a line of the log as a sentence: the event, the reason, the details and the remedy.

    >>> sentence({"event": "snapshot not written", "cause": "disk full", "path": "/state",
    ...           "level": "warning", "remedy": "make room"})
    'snapshot not written: disk full (path=/state). make room'
    """
    parts = [str(line.get("event", "a problem"))]
    parts += [str(line[name]) for name in _REASONS if line.get(name)]
    text = ": ".join(parts)
    details = [
        f"{name}={value}"
        for name, value in line.items()
        if name not in _NO_DETAILS and value is not False
    ]
    if details:
        text += f" ({', '.join(details)})"
    if line.get(_REMEDY):
        text += f". {line[_REMEDY]}"
    return text


def _spoken(text: str) -> str:
    """Return a text as a command says it: it does nothing to a terminal."""
    shown = "".join(char if char.isprintable() or char == "\n" else "\ufffd" for char in text)
    return f"neardup: {shown}"


def _speak(_logger: object, _method: str, event: MutableMapping[str, Any]) -> str:
    """Render a line for the person who typed the command, its traceback below it."""
    said = _spoken(sentence(event))
    return f"{said}\n{event['exception']}" if event.get("exception") else said


def last_problem() -> dict[str, Any] | None:
    """
    Return the last line that was a warning or an error, without its traceback; None if there was
    none.
    """
    return _problem


def _remember(
    _logger: object, method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    global _problem  # noqa: PLW0603  # logging is one for a process, and so is its last problem
    if method in ("warning", "error", "critical", "exception"):
        plain = (str, int, float, bool)
        _problem = {
            name: value
            for name, value in event.items()
            if isinstance(value, plain) and name != "exc_info"
        }
    return event
