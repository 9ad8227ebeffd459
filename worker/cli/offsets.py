"""`neardup offsets restore` repairs the offsets of a group of workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from worker.cli import group_of_commands, shared
from worker.cli.options import with_cluster
from worker.cli.progress import counted
from worker.settings import TOPICS, Settings

if TYPE_CHECKING:
    from worker.shell.admin.offsets import Restoration

offsets = group_of_commands("offsets")


@offsets.command()
@with_cluster(*TOPICS, "group", "definition", "base_snapshot")
def restore(
    settings: Settings,
    yes: Annotated[
        bool, typer.Option("--yes", help="Set the offsets; otherwise they are only shown.")
    ] = False,
    assume_answered: Annotated[
        bool,
        typer.Option(
            "--assume-answered",
            help=(
                "Take documents for answered whose answers retention may have deleted. Those that "
                "were not get no verdict."
            ),
        ),
    ] = False,
    quiet: shared.QuietOption = False,
) -> None:
    """
    Set the group's offsets to what its workers had committed, by the log and the verdicts.

    Stop all workers first. It causes no second verdict and skips no document without one. Exit code
    1 if an offset still has to be set.
    """
    from worker.shell.admin.offsets import restore as shell  # noqa: PLC0415

    def show(found: list[Restoration]) -> None:
        for one in found:
            typer.echo(str(one))

    with counted("messages", quiet=quiet) as tell:
        found = shell(
            settings,
            is_confirmed=yes,
            assume_answered=assume_answered,
            on_found=show,
            on_progress=tell,
        )
    wanted = sum(one.is_set for one in found)
    undecided = sum(one.undecided > 0 for one in found)
    if undecided:
        typer.echo(
            f"{undecided} offsets are not decided. If the workers had ended cleanly, or had stood "
            "idle, all that the log has was answered: --assume-answered",
            err=True,
        )
    if not wanted:
        typer.echo("no offset has to be set" if not undecided else "nothing was set")
    elif yes:
        typer.echo(f"{wanted} offsets set: start the workers")
    else:
        typer.echo(f"{wanted} offsets would be set: run it with --yes")
    if undecided or (wanted and not yes):
        raise typer.Exit(1)
