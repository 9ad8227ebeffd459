"""The command line: one file a command group, each registers itself with `app`; heavy imports wait for the command."""

from __future__ import annotations

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


# The commands, in the order of the help. Each import registers its group with `app`.
from worker.cli import broker as _broker  # noqa: E402, F401
from worker.cli import settings as _settings  # noqa: E402, F401
from worker.cli import topics as _topics  # noqa: E402, F401
from worker.cli import verdicts as _verdicts  # noqa: E402, F401
from worker.cli import worker as _worker  # noqa: E402, F401
