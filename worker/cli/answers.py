"""The answers that `report` and `explain` read: lines of a file, or the topics."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from worker.cli.lines import STDIN, opened
from worker.cli.progress import passed
from worker.settings import Settings

if TYPE_CHECKING:
    from worker.report.answers import Answer


def read_answers(verdicts: Path | None, settings: Settings, *, quiet: bool) -> Iterator[Answer]:
    """Return the answers of a file, of stdin, or of the topics (None), and show how many have been read."""
    from worker.report.answers import of_lines, of_topics  # noqa: PLC0415

    if verdicts is None:
        totals: list[int] = []
        found = of_topics(settings, totals.append)
        yield from passed(found, "reading answers", "answers", lambda _: sum(totals), quiet=quiet)
        return
    with opened(verdicts) as stream:
        size = verdicts.stat().st_size if verdicts.is_file() else 0
        yield from passed(
            of_lines(stream, "stdin" if verdicts == STDIN else str(verdicts)),
            "reading answers",
            "answers",
            lambda count: count * size // stream.tell() if size else None,
            quiet=quiet,
        )
