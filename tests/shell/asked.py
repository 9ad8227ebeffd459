"""A worker without Kafka that can be fed and asked: log, replica, questions, and their server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import orjson

from tests.conftest import free_ports
from tests.log.test_snapshot import LOG
from tests.shell.memory_log import MemoryLog, MemoryReader
from worker.core.fingerprint import Fingerprinter
from worker.log.record import Section, Source
from worker.log.replica import Replica
from worker.log.snapshot import capture
from worker.settings import Settings
from worker.shell.ask.questions import Questions
from worker.shell.http.server import HttpServer
from worker.shell.messages import encode_answers
from worker.shell.pipeline.prepare import JobReader
from worker.shell.pipeline.replicated_log import ReplicatedLog
from worker.shell.ports import InputMessage

SOURCE = Source(b"t" * 16, 0)
TOKEN = "correct-horse-battery-staple"
PAGE = {"url": "https://example.org/1", "fetched_at": "2024-05-01T12:00:00Z"}


def document(number: int = 1, **fields: Any) -> bytes:
    """A document whose text is like no other number's."""
    words = " ".join(f"word{number}x{place}" for place in range(60))
    text = f"the river rose by two metres and {words} in a single night"
    return orjson.dumps(
        {**PAGE, "doc_id": f"d{number}", "url": f"https://example.org/{number}", "text": text}
        | fields
    )


class AskedWorker:
    """A replica of a log in memory, fed a message a record."""

    def __init__(self, settings: Settings, log: MemoryLog | None = None) -> None:
        self.settings = settings
        self.log = log or MemoryLog(lambda: 1_000)
        self.replica = Replica(settings.rules)
        self.replicated = ReplicatedLog(
            self.replica,
            MemoryReader(self.log),
            self.log,
            self.replica.definition.author("w"),
        )
        self.replicated.restore()
        self.rows = JobReader(settings, Fingerprinter(settings.parameters)).rows
        self.questions = Questions(settings)
        self.questions.follow(self.replicated)
        self.questions.open(self.rows)
        self._offset = 0

    def feed(self, value: bytes | None, key: bytes | None = None) -> dict[str, Any]:
        """Append a message; return its verdict, or the code and text of its dead letter."""
        offset = self._offset
        self._offset += 1
        rows = self.rows([InputMessage(0, offset, key, value)])
        self.replicated.append([Section(SOURCE, offset, offset + 1, -1, rows)])
        [answer] = self.replica.answers(SOURCE, [offset], "documents", encode_answers)
        if isinstance(answer, Exception):
            return {"code": answer.code, "detail": answer.text}
        verdict: dict[str, Any] = orjson.loads(answer.value)
        return verdict

    def ask(self, *documents: bytes) -> list[dict[str, Any]]:
        """Ask for documents, as lines."""
        lines = self.questions.answer(b"\n".join(documents), is_lines=True).splitlines()
        return [orjson.loads(line) for line in lines]

    def ask_array(self, *documents: bytes) -> list[dict[str, Any]]:
        """Ask for documents that are JSON, as an array."""
        body = b"[" + b",".join(documents) + b"]"
        answers: list[dict[str, Any]] = orjson.loads(self.questions.answer(body, is_lines=False))
        return answers

    def snapshot(self) -> bytes:
        return b"".join(capture(self.replica, LOG).parts())


def comparable(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer or a verdict without what only one of the two has."""
    if "verdict" not in answer:
        return {name: answer[name] for name in ("code", "detail")}
    index = {name: value for name, value in answer["index"].items() if name != "log_offset"}
    parts = {name: answer[name] for name in answer.keys() - {"source", "decided_at"}}
    return {**parts, "index": index, "as_of": None, "binding": None}


@contextmanager
def served(worker: AskedWorker, **settings: Any) -> Iterator[int]:
    """Serve a worker's answers; yield the port."""
    [port] = free_ports()
    values = {"metrics_port": port, "ask_token": TOKEN, **settings}
    with HttpServer(worker.settings.model_validate(values), worker.questions, {}):
        yield port


def split_messages(
    messages: Sequence[tuple[bytes | None, bytes | None]], size: int
) -> Iterator[Sequence[tuple[bytes | None, bytes | None]]]:
    for first in range(0, len(messages), size):
        yield messages[first : first + size]
