"""`neardup topics create|check`: the topics with the right settings."""

from __future__ import annotations

import typer

from worker.cli import Commands, app
from worker.cli.options import TOPICS, with_cluster
from worker.settings import Settings

topics_app = typer.Typer(
    cls=Commands, no_args_is_help=True, help="The topics: create them, or say what is wrong with them."
)
app.add_typer(topics_app, name="topics")


@topics_app.command()
@with_cluster(*TOPICS, "partitions", "replication_factor", "document_bytes_max")
def create(settings: Settings) -> None:
    """Create the topics that are missing, with the right settings; then check all."""
    from worker.shell.kafka import Admin, config, topics  # noqa: PLC0415

    admin = Admin(config.admin(settings), settings.call_timeout_s)
    for name, was_missing in topics.create(admin, settings).items():
        typer.echo(f"{name}: {'created' if was_missing else 'exists'}")
    _check(settings)


@topics_app.command()
@with_cluster(*TOPICS, "document_bytes_max")
def check(settings: Settings) -> None:
    """Say what is wrong with the topics and how to mend it; exit code 1 if that stops a worker."""
    _check(settings)


def _check(settings: Settings) -> None:
    from worker.shell.kafka import Admin, config, topics  # noqa: PLC0415

    problems = topics.check(Admin(config.admin(settings), settings.call_timeout_s), settings)
    for problem in problems:
        typer.echo(f"{'error' if problem.fatal else 'warning'}: {problem}")
    if not problems:
        typer.echo("all topics are as they should be")
    if any(problem.fatal for problem in problems):
        raise typer.Exit(1)
