"""
Structured logs on stderr: JSON for machines, readable on a terminal; no traceback shows a
variable's value.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
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
        log_format: json, console, or auto (console on a terminal).
        is_worker: what ends the process is a line of the log, too, with auto; else it is for
            whoever typed a command.
    """
    global _ends_as_json  # noqa: PLW0603  # logging is one for a process
    console = log_format == "console" or (log_format == "auto" and sys.stderr.isatty())
    _ends_as_json = not console and (is_worker or log_format == "json")
    rendering: list[Any] = (
        [
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
            )
        ]
        if console
        else [
            # Local variables hold passwords and documents.
            structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False)),
            structlog.processors.JSONRenderer(default=repr),
        ]
    )
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
        cache_logger_on_first_use=False,  # tests and progress bars put another stream in stderr's place
    )
    # What the core says, which knows no structlog.
    ours = logging.getLogger("neardup")
    handler = logging.Handler()
    handler.emit = lambda record: structlog.get_logger("neardup").info(record.getMessage())  # type: ignore[method-assign]
    ours.handlers, ours.propagate = [handler], False


def end(text: str, error: Exception | None = None) -> bool:
    """
    Say why the process ends, in the form of its other lines; False: not said, and there is a
    traceback to show.
    """
    text = text.encode("utf-8", "backslashreplace").decode()  # names of files stand in it
    if _ends_as_json:
        structlog.get_logger(__name__).critical(text, exc_info=error)
    elif error is None:
        shown = "".join(char if char.isprintable() or char == "\n" else "\ufffd" for char in text)
        sys.stderr.write(f"neardup: {shown}\n")
    return _ends_as_json or error is None


def last_problem() -> dict[str, Any] | None:
    """
    Return the last line that was a warning or an error, without its traceback; None: there was
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
