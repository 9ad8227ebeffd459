"""`neardup worker`: one member of the group, until SIGTERM."""

from __future__ import annotations

import os
import signal
import threading
from functools import partial
from typing import Annotated

import typer

from worker.cli import app
from worker.cli.options import ALL, with_settings
from worker.cli.signals import stop_on_signals
from worker.settings import Settings


@app.command()
@with_settings(*(name for name in ALL if name not in ("partitions", "replication_factor")))
def worker(
    settings: Settings,
    until_stdin_ends: Annotated[
        bool, typer.Option("--until-stdin-ends", help="End when stdin is closed: nothing outlives a parent that dies.")
    ] = False,
) -> None:
    """
    Judge documents as a member of the group: one verdict for each.

    A verdict and its source offset are published in one transaction. SIGTERM and Ctrl-C end it cleanly. Run one a
    machine; each needs its own --worker-id.
    """
    from worker.shell.pipeline.service import run  # noqa: PLC0415

    if until_stdin_ends:
        threading.Thread(target=_end_with_stdin, name="stdin", daemon=True).start()
    stop = threading.Event()
    run(settings, stop, on_serving=partial(stop_on_signals, stop))


def _end_with_stdin() -> None:
    while os.read(0, 4096):  # not sys.stdin: its lock would be held when the interpreter ends
        pass
    os.kill(os.getpid(), signal.SIGTERM)
