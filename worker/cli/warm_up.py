"""`neardup warm-up`: the kernels compiled now, so that no worker waits for it later."""

from __future__ import annotations

import time

import typer

from worker.cli import app
from worker.cli.options import ENGINE, with_settings
from worker.settings import Settings


@app.command("warm-up")
@with_settings(*ENGINE)
def warm_up_command(settings: Settings) -> None:
    """
    Compile every kernel, and say where their machine code is kept.

    That is NUMBA_CACHE_DIR, else beside the code, else your cache directory; where none of them may be written, each
    process compiles for itself.
    """
    begun = time.perf_counter()
    from worker.core import warm  # noqa: PLC0415
    from worker.shell.runtime import kernels  # noqa: PLC0415

    kernels.ready(settings, warm.exact_index, warm.pairs)
    kept = warm.kept_in()
    seconds = time.perf_counter() - begun
    if kept is None:
        typer.echo(
            f"kernels ready in {seconds:.1f} s, in memory only: nothing can be written to NUMBA_CACHE_DIR, beside the "
            "code, or to your cache directory, so each process compiles for itself. Set NUMBA_CACHE_DIR."
        )
    else:
        typer.echo(f"kernels ready in {seconds:.1f} s, kept in {kept}")
