"""Structured logs: JSON for machines, readable on a terminal; secrets never pass, because settings hide them."""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog

__all__ = ["configure"]


def configure(level: str, log_format: str) -> None:
    """
    Write log lines to stderr.

    Args:
        level: debug, info, warning or error.
        log_format: json, console, or auto (console on a terminal).
    """
    console = log_format == "console" or (log_format == "auto" and sys.stderr.isatty())
    renderer: Any = (
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
        if console
        else structlog.processors.JSONRenderer(default=repr)
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.StackInfoRenderer(),
            *([] if console else [structlog.processors.dict_tracebacks]),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
