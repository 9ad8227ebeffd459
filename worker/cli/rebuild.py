"""`neardup rebuild`: a new log from the documents after a change of parameters, beside the old one."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING

import typer

from worker.cli import app
from worker.cli.lines import QuietOption
from worker.cli.options import ALL, with_cluster
from worker.cli.signals import stop_on_signals
from worker.settings import Settings

if TYPE_CHECKING:
    from worker.shell.admin.rebuild import Plan


@app.command()
@with_cluster(*ALL)
def rebuild(settings: Settings, quiet: QuietOption = False) -> None:
    """
    Judge all documents anew with other parameters, beside the old log.

    Name the deployment's topics as they are and the parameters as they shall be. The new group, log and topics have
    the hash of the parameters behind their names, so the same command goes on where it was ended. Ends when the
    documents that were there at its start are answered, and prints the settings to switch workers and subscribers to.
    """
    from worker.shell.admin import rebuild as shell  # noqa: PLC0415
    from worker.shell.kafka import Admin  # noqa: PLC0415

    plan = shell.plan(settings, Admin(settings))
    _say_what(plan, settings)
    begun: list[tuple[float, int]] = []  # when the first was told, and how much of it had been answered before

    def tell(answered: int, total: int) -> None:
        now_s = time.monotonic()
        if not begun:
            begun.append((now_s, answered))
        since_s, before = begun[0]
        rate = (answered - before) / max(now_s - since_s, 1e-9)
        left = f", {rate:,.0f}/s, {(total - answered) / rate:,.0f} s left" if rate else ""
        typer.echo(f"{answered:,} of {total:,} offsets answered{left}", err=True)

    stop = threading.Event()
    if not shell.rebuild(plan, stop, (lambda *_: None) if quiet else tell, on_serving=partial(stop_on_signals, stop)):
        typer.echo("ended before all documents were answered: the same command goes on from here", err=True)
        raise typer.Exit(1)
    typer.echo("# all documents of the start are answered; now, in this order:", err=True)
    typer.echo("# 1. start workers with these settings; they answer what has come since", err=True)
    typer.echo(
        "# 2. let subscribers go on in the new topic of verdicts, each source offset where they stopped", err=True
    )
    typer.echo("# 3. end the old workers; delete the old log and answers when nobody needs them", err=True)
    for line in plan.switch():
        typer.echo(line)


def _say_what(plan: Plan, settings: Settings) -> None:
    new = plan.settings
    typer.echo(f"from {settings.topic_documents}: {sum(plan.stops.values()):,} offsets", err=True)
    if plan.missing:
        typer.echo(
            f"warning: {plan.missing:,} documents have been deleted by retention; originals among them stay unknown",
            err=True,
        )
    names = (new.topic_fingerprints, new.topic_verdicts, new.topic_dead_letter, new.topic_new)
    typer.echo(
        f"into {', '.join(filter(None, names))} as group {new.group} "
        f"({'created' if plan.created else 'taken up again'}); the old ones are not touched",
        err=True,
    )
