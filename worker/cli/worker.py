"""`neardup worker`: one member of the group, until SIGTERM."""

from __future__ import annotations

from worker.cli import app
from worker.cli.options import with_settings
from worker.settings import Settings


@app.command()
@with_settings()
def worker(settings: Settings) -> None:
    """
    Judge documents as a member of the consumer group: one verdict for each, published with its source offset.

    SIGTERM and Ctrl-C end it cleanly. Run one a machine; each needs its own --worker-id.
    """
    from worker.shell import logging  # noqa: PLC0415
    from worker.shell.worker import run  # noqa: PLC0415

    logging.configure(settings.log_level, settings.log_format)
    run(settings)
