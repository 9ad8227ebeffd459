"""Reads what `explain` and `report` tell of: answers of a file or of the topics, and texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from worker.cli.progress import passed
from worker.cli.reading import Reading
from worker.cli.shared import STDIN, notice, tracked
from worker.errors import StopError
from worker.settings import Settings
from worker.shell.files.formats import JSON, JSON_LINES, START_BYTES, format_of_start
from worker.shell.files.places import files_of, shown_input, tell_nobody
from worker.shell.files.unpacked import UnpackedInput, opened_unpacked

if TYPE_CHECKING:
    from worker.report.answers import AnswerLine, WantedTexts


def read_answers(
    verdicts: Path | None,
    settings: Settings,
    tell: Callable[[str], None] = notice,
    *,
    quiet: bool,
) -> Iterator[AnswerLine]:
    """
    Yield the answers in a file, in a folder, on stdin, or in the topics (None). Shows how many have
    been read.

    Args:
        tell: gets a sentence about files in a folder that are left out, unless `quiet`.
    Raises:
        StopError: there is no verdict.
    """
    answers = _answers_from(verdicts, settings, tell_nobody if quiet else tell, quiet=quiet)
    first = next(answers, None)
    if first is None and verdicts is not None:
        raise StopError(f"{shown_input(verdicts)} has no verdict yet")
    if first is None:
        raise StopError(
            f"topic {settings.topic_verdicts} has no verdict yet: `neardup top --once` shows "
            "whether workers run. For verdicts in a file, name the file"
        )
    yield first
    yield from answers


def _answers_from(
    verdicts: Path | None, settings: Settings, tell: Callable[[str], None], *, quiet: bool
) -> Iterator[AnswerLine]:
    """Yield the answers as `read_answers` does, or none."""
    from worker.report.answers import AnswerLine  # noqa: PLC0415
    from worker.shell.admin.watch import watch  # noqa: PLC0415

    if verdicts is None:
        totals: list[int] = []
        names = [settings.topic_verdicts, settings.topic_dead_letter]
        seen = watch(settings, names, follow=False, on_start=totals.append)
        published = (AnswerLine(one.answer, one.value) for one in seen if one is not None)
        yield from passed(
            published, "reading answers", "answers", lambda _: sum(totals), quiet=quiet
        )
        return
    if verdicts.is_dir():
        parts = map(_answers_in, _files_in(verdicts, tell))
        yield from passed(
            chain.from_iterable(parts), "reading answers", "answers", lambda _: None, quiet=quiet
        )
        return
    with opened_unpacked(str(verdicts)) as stream:
        size = verdicts.stat().st_size if verdicts.is_file() else None
        done = None if size is None else lambda: stream.bytes_read
        found = _answers_of(stream, verdicts)
        yield from passed(
            found, "reading answers", "answers", lambda _: size, done=done, quiet=quiet
        )


def is_folder_of_verdicts(path: Path) -> bool:
    """Return whether all files of a folder are read: in that of `archive`, some are others."""
    return path.is_dir() and not (path / "run.json").is_file()


def _files_in(folder: Path, tell: Callable[[str], None]) -> list[Path]:
    """
    Return the files of verdicts in a folder, without those that are no inputs elsewhere, such as
    unfinished outputs; in that of `archive`, those of its `verdicts`.

    Raises:
        StopError: there are none yet, or not all, or it is a folder of something else.
    """
    if not is_folder_of_verdicts(folder):
        from worker.shell.archive.run import Run  # noqa: PLC0415

        return Run.load(folder).verdict_files()
    files = sorted(folder.iterdir())
    inner = next((path for path in files if path.is_dir()), None)
    if inner is not None:
        raise StopError(
            f"{folder} has the folder {inner.name} in it, so it is not one of verdicts: name the "
            "--output of `archive`, or files that `dedup` has written"
        )
    return [*map(Path, files_of([str(folder)], tell))] if files else []


def _answers_in(path: Path) -> Iterator[AnswerLine]:
    """Yield the answers of a file in a folder."""
    with opened_unpacked(str(path)) as stream:
        yield from _answers_of(stream, path)


def _answers_of(stream: UnpackedInput, path: Path) -> Iterator[AnswerLine]:
    """Yield the answers of an open file. Raises StopError for a file of another format."""
    from worker.report.answers import of_lines  # noqa: PLC0415

    stream.skip_mark()
    kind = format_of_start(str(path), stream.peek(START_BYTES))
    if kind is not None and kind not in (JSON_LINES, JSON):
        raise StopError(
            f"{path} is {kind.name}, and verdicts are read only as {JSON_LINES.name}: write them "
            f"so, with `dedup --output verdicts{JSON_LINES.suffixes[0]}` or `archive --format "
            f"jsonl.zst`"
        )
    yield from of_lines(stream, "stdin" if path == STDIN else str(path))


def texts_of_files(
    documents: list[str],
    wanted: set[str],
    settings: Settings,
    reading: Reading,
    quiet: bool,
    sample_of: int | None = None,
    *,
    from_topics: bool,
) -> WantedTexts:
    """
    Return the wanted texts of files (of `Reading.files`), as `read_texts` does. Shows how many
    have been read, and says which are missing.
    """
    from worker.report.answers import read_texts  # noqa: PLC0415

    records = tracked(reading.open(documents), "reading texts", quiet=quiet)
    found = read_texts(records, wanted, settings, sample_of, from_topics=from_topics)
    missing = wanted - found.texts.keys()
    if missing and not quiet:
        text = (
            f"--documents has no text of {len(missing):,} of the {len(wanted):,} documents to be "
            f"shown, such as {min(missing)!r}. If its fields have other names, name them: "
            "--id-column, --text-column, --url-column. Documents that cannot be read are not found"
        )
        notice(text)
    return found
