"""What every command on a cluster does first: wait for it, not for long, and say so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from worker.settings import Settings

WAIT_S = 3.0  # a person waits; a worker waits `call_timeout_s`


def await_cluster(settings: Settings) -> None:
    """
    Wait for the cluster's first answer; a terminal shows at once whom it is asked of.

    Raises:
        StopError: nobody answers.

    Cost: one request, some 20 ms.
    """
    from worker.shell.kafka import Admin  # noqa: PLC0415

    with Console(stderr=True).status(f"asking {settings.bootstrap}"):
        Admin(settings, WAIT_S).cluster_id()
