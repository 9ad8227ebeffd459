"""A group on Apache Kafka that is asked while it works: its answers, and its verdicts."""

from __future__ import annotations

import http.client
import json
import threading
from typing import Any

import pytest

from tests.conftest import free_ports
from tests.faults.conftest import Deploy
from tests.faults.crawl import Message, crawl

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

DOCUMENTS = 300
TOKEN = "correct-horse-battery-staple"


def ask(port: int, documents: list[bytes]) -> list[dict[str, Any]]:
    """Ask a worker for documents, as lines; nothing while it is not there, or replays."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/x-ndjson"}
    try:
        connection.request("POST", "/v1/seen", b"\n".join(documents), headers)
        response = connection.getresponse()
        body = response.read()
    except OSError:
        return []
    finally:
        connection.close()
    return [json.loads(line) for line in body.splitlines()] if response.status == 200 else []


def test_a_group_that_is_asked_answers_alike_and_publishes_as_if_nobody_asked(
    deploy: Deploy,
) -> None:
    """
    Askers keep on at three workers while one of them is killed: nothing is lost, repeated or wrong.

    At rest all say the same of every document as of the same offset, and of each that is then
    fed, what its verdict says.
    """
    group = deploy(partitions=4, batch_documents_max=20)
    ports = free_ports(3)
    workers = [
        group.start(name, metrics_port=port, ask_token=TOKEN)
        for name, port in zip("abc", ports, strict=True)
    ]
    group.until(
        lambda: all(worker.said("partitions assigned") for worker in workers), "partitions assigned"
    )
    messages: list[Message] = list(crawl(5, DOCUMENTS))
    values = [value for _, value in messages if value is not None]
    is_done = threading.Event()
    answered = [0] * len(ports)

    def keep_asking(number: int) -> None:
        at = 0
        while not is_done.is_set():
            answered[number] += len(ask(ports[number], values[at : at + 10]))
            at = (at + 10) % len(values)

    def all_say(answers: list[dict[str, Any]], documents: list[bytes]) -> bool:
        return all(ask(port, documents) == answers for port in ports)

    askers = [threading.Thread(target=keep_asking, args=(number,)) for number in range(len(ports))]
    for asker in askers:
        asker.start()
    group.feed(messages[:150])
    group.until_committed(50)
    workers[1].kill()
    workers[1] = group.start("b", metrics_port=ports[1], ask_token=TOKEN)
    group.feed(messages[150:])
    group.until_all_committed()
    is_done.set()
    for asker in askers:
        asker.join()
    assert min(answered) > 0
    group.until(
        lambda: (answer := ask(ports[0], values[:1])) and all_say(answer, values[:1]),
        "all stand at the end of the log",
    )
    for first in range(0, len(values), 100):
        part = values[first : first + 100]
        assert all_say(ask(ports[0], part), part)
    later = [message for message in crawl(6, 60) if b'"doc_id"' in (message[1] or b"")][:5]
    for key, value in later:
        [foreseen] = ask(ports[0], [value or b""])
        group.feed([(key, value)])
        group.until_all_committed()
        verdicts = [
            json.loads(message.value) for message in group.read(group.settings.topic_verdicts)
        ]
        verdict = max(verdicts, key=lambda each: each["index"]["log_offset"])
        for name in ("doc_id", "verdict", "reason", "duplicate_of", "former_version"):
            assert foreseen.get(name) == verdict.get(name), name
    report = group.finish()
    assert report.documents == DOCUMENTS + 5
