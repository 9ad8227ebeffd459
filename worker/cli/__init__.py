"""The command line: one file a command group, each registers itself with `app`; heavy imports wait for the command."""

from __future__ import annotations

import importlib
import pkgutil

import typer

app = typer.Typer(
    name="neardup",
    help="Near-duplicate detection on a live crawl: exactly one verdict for every document.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def _root() -> None:
    """Near-duplicate detection on a live crawl: exactly one verdict for every document."""
    from worker.shell.runtime import logging  # noqa: PLC0415  # 60 ms that `--help` does not need

    logging.configure()


# Each module of this package registers its commands with `app`, in the order of their names.
for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
