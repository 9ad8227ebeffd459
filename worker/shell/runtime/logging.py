"""Structured logs on stderr: JSON for machines, readable on a terminal; no traceback shows a variable's value."""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog
from structlog.tracebacks import ExceptionDictTransformer

__all__ = ["configure", "last_problem"]

_problem: dict[str, Any] | None = None


def configure(level: str = "info", log_format: str = "auto") -> None:
    """
    Write log lines to stderr, as it is at each line; stdout is for what a command answers.

    Tracebacks are without local variables: those hold passwords and documents.

    Args:
        level: debug, info, warning or error.
        log_format: json, console, or auto (console on a terminal).
    """
    console = log_format == "console" or (log_format == "auto" and sys.stderr.isatty())
    rendering: list[Any] = (
        [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)]
        if console
        else [
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
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
        cache_logger_on_first_use=False,  # tests and progress bars put another stream in stderr's place
    )


def last_problem() -> dict[str, Any] | None:
    """Return the last line that was a warning or an error, without its traceback; None: there was none."""
    return _problem


def _remember(_logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    global _problem  # noqa: PLW0603  # logging is one for a process, and so is its last problem
    if method in ("warning", "error", "critical", "exception"):
        plain = (str, int, float, bool)
        _problem = {name: value for name, value in event.items() if isinstance(value, plain) and name != "exc_info"}
    return event
