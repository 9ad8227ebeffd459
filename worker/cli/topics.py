"""`neardup topics create|check|alter`: the topics with the right settings."""

from __future__ import annotations

from typing import Annotated

import typer

from worker.cli import Commands, app
from worker.cli.options import with_cluster
from worker.settings import Settings
from worker.settings.connection import TOPICS

topics_app = typer.Typer(
    cls=Commands, no_args_is_help=True, help="The topics: create them, or say what is wrong with them."
)
app.add_typer(topics_app, name="topics")


@topics_app.command()
@with_cluster(*TOPICS, "partitions", "replication_factor", "document_bytes_max")
def create(settings: Settings) -> None:
    """Create the topics that are missing, with the right settings; then check all."""
    from worker.shell.kafka import Admin, topics  # noqa: PLC0415

    admin = Admin(settings)
    for name, was_missing in topics.create(admin, settings).items():
        typer.echo(f"{name}: {'created' if was_missing else 'exists'}")
    _check(settings)


@topics_app.command()
@with_cluster(*TOPICS, "document_bytes_max")
def check(settings: Settings) -> None:
    """Say what is wrong with the topics and how to mend it; exit code 1 if that stops a worker."""
    _check(settings)


@topics_app.command()
@with_cluster()
def alter(
    settings: Settings,
    topic: Annotated[str, typer.Argument(help="Its name.")],
    pairs: Annotated[list[str], typer.Argument(metavar="NAME=VALUE…", help="Settings, as Kafka names them.")],
) -> None:
    """Set some of a topic's settings, as `topics check` says; the others stay."""
    from worker.shell.kafka import Admin  # noqa: PLC0415

    for pair in pairs:
        if not all(pair.partition("=")):
            raise typer.BadParameter(f"must be NAME=VALUE, got {pair!r}", param_hint="NAME=VALUE")
    Admin(settings).alter(topic, dict(pair.split("=", 1) for pair in pairs))
    typer.echo(f"{topic}: {', '.join(pairs)}")


def _check(settings: Settings) -> None:
    from worker.shell.kafka import Admin, topics  # noqa: PLC0415

    problems = topics.check(Admin(settings), settings)
    for problem in problems:
        typer.echo(f"{'error' if problem.fatal else 'warning'}: {problem}")
    if not problems:
        typer.echo("all topics are as they should be")
    if any(problem.fatal for problem in problems):
        raise typer.Exit(1)
