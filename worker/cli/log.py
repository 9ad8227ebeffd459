"""`neardup log renew` begins a new log from the old one; `log retire` lets the old one go."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from worker.cli import group_of_commands
from worker.cli.options import with_cluster
from worker.settings import TOPICS, Settings

log = group_of_commands("log")


@log.command()
@with_cluster(
    *TOPICS, "group", "definition", "base_snapshot", "state_dir", "replication_factor",
    "document_bytes_max", "threads",
)  # fmt: skip
def renew(
    settings: Settings,
    folder: Annotated[
        Path,
        typer.Argument(help="Where the snapshot goes that the new log begins with."),
    ],
) -> None:
    """
    Begin a new log from the state of the old one, and move the group to it.

    Stop all workers first. No verdict is lost or repeated. It prints the settings that all workers
    need from now on, and deletes nothing. After a kill, run the same command again.
    """
    from worker.shell.admin.renew import RenewStep  # noqa: PLC0415
    from worker.shell.admin.renew import renew as shell  # noqa: PLC0415

    done = {
        RenewStep.READ: f"the log {settings.topic_fingerprints} is read to its end",
        RenewStep.BASE: "the new log's base is written",
        RenewStep.TOPIC: "the new log's topic is there",
        RenewStep.BEGIN: "the new log has what the group needs",
        RenewStep.SWITCH: "the group's offsets name the new log",
    }
    renewal = shell(settings, folder, lambda step: typer.echo(done[step], err=True))
    if renewal.was_done:
        typer.echo("it was done before; nothing was changed", err=True)
    typer.echo(
        "Start the workers with these settings in place of the old ones. A variable such as "
        "NEARDUP_STATE_DIR in a systemd unit, a Compose file or an image comes before a file: "
        "change it there. Each worker must find the file of base_snapshot, "
        "also later if it has no snapshot of its own.",
        err=True,
    )
    for line in renewal.switch():
        typer.echo(line)


@log.command()
@with_cluster(*TOPICS, "group", "definition", "base_snapshot")
def retire(
    settings: Settings,
    topic: Annotated[str, typer.Argument(help="The old log's topic.")],
    yes: Annotated[
        bool, typer.Option("--yes", help="Really delete the topic; otherwise it is only checked.")
    ] = False,
) -> None:
    """
    Delete an old log, if the present one goes on from it and the group has moved.

    Without the old log, its verdicts can no longer be compared with it, nor judged anew.
    """
    from worker.shell.admin.renew import retire as shell  # noqa: PLC0415

    found = shell(settings, topic, is_confirmed=yes)
    typer.echo(
        f"{settings.topic_fingerprints} goes on from {found.base}, "
        f"made of {topic} at offset {found.base_offset:,}. {topic} "
        f"has {found.records:,} records, which the group does not need"
    )
    typer.echo(f"{topic} deleted" if yes else f"delete {topic} with --yes")
