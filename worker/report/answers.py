"""Answers as lines: what `neardup dedup`, `neardup verdicts` and `neardup dead-letters` write as JSON Lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import orjson

from worker.core.verdict import Verdict
from worker.errors import DocumentError, StopError
from worker.settings import Settings
from worker.shell.admin.watch import watch
from worker.shell.messages import DeadLetter, decode_verdict

LINE_BYTES_MAX = 1 << 20  # a verdict has three URLs of at most 8 KiB each


class Answer(NamedTuple):
    """One answer, and the line or message that it came as."""

    value: bytes
    answer: Verdict | DeadLetter


def of_lines(lines: Iterable[bytes], name: str) -> Iterator[Answer]:
    """
    Return the answers of a file's lines; empty lines are passed over.

    Raises:
        StopError: a line is neither a verdict nor a dead letter; names the line.

    Cost: some 25 us a line.
    """
    for number, line in enumerate(lines, start=1):
        if line.isspace():
            continue
        where = f"{name}, line {number:,}"
        if len(line) > LINE_BYTES_MAX:
            raise StopError(f"{where}: a verdict has at most {LINE_BYTES_MAX:,} bytes, got more: {_REMEDY}")
        yield Answer(line, _answer(line, where))


_REMEDY = "name a file that `neardup dedup` or `neardup verdicts --format jsonl` has written"


def _answer(line: bytes, where: str) -> Verdict | DeadLetter:
    if b'"verdict"' in line and b'"dead-letter"' not in line:
        return _verdict(line, where)
    try:
        fields = orjson.loads(line)
        error = fields if "code" in fields else fields["error"]
        source = fields["source"]
        key = fields.get("doc_id")
        return DeadLetter(
            str(source["topic"]), int(source["partition"]), int(source["offset"]), str(error["code"]),
            str(error["text"]), None if key is None else str(key).encode(), None, is_pointer=False,
        )  # fmt: skip
    except (ValueError, LookupError, TypeError, AttributeError):
        return _verdict(line, where)  # a URL may hold the words of a dead letter


def _verdict(line: bytes, where: str) -> Verdict:
    try:
        return decode_verdict(line)
    except DocumentError as error:
        raise StopError(f"{where}: {error.text}: {_REMEDY}") from error


def of_topics(settings: Settings, on_start: Callable[[int], None] = lambda _: None) -> Iterator[Answer]:
    """Return the committed answers of the topics, verdicts and dead letters, up to their present end; see `watch`."""
    names = [settings.topic_verdicts, settings.topic_dead_letter]
    for seen in watch(settings, names, follow=False, on_start=on_start):
        if seen is not None:
            yield Answer(seen.value, seen.answer)
