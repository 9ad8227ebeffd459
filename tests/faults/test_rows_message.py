"""Rows 10, 11 and 21 of the fault table: messages that do harm."""

from __future__ import annotations

import hashlib
import itertools
import signal
from collections.abc import Iterator

import orjson
import pytest

from tests.faults.conftest import Deploy
from tests.faults.crawl import Message, crawl
from tests.faults.harness import Deployment
from worker.shell.messages import DeadLetter, decode_dead_letter

pytestmark = [pytest.mark.kafka, pytest.mark.faults]

POISON = (b"p", b'{"url": "http://poison.example/", "fetched_at": "2024-05-01T12:00:00Z", "text": 5}')


def _dead_letters(deployment: Deployment) -> list[DeadLetter]:
    messages = deployment.read(deployment.settings.topic_dead_letter)
    return [decode_dead_letter(message.key, message.value, message.headers) for message in messages]


def _page(number: int, body: str, kind: str = "html") -> Message:
    url = f"https://pages.example/{number}"
    return b"%d" % number, orjson.dumps({"url": url, "fetched_at": "2024-05-01T12:00:00Z", kind: body})


def _good(count: int) -> Iterator[Message]:
    return (_page(number, f"<p>a page about the thing with the number {number} of them</p>") for number in range(count))


@pytest.mark.parametrize("point", ["in-transaction", "after-offsets"])
def test_row_10_poison_message(deploy: Deploy, point: str) -> None:
    """A message that nobody can read, and a worker that dies while answering it: one dead letter, with its offset."""
    deployment = deploy(partitions=1)
    [dying] = deployment.start_all("one", fault=f"{point}:kill:1")
    deployment.feed([*crawl(seed=10, count=5), POISON, *crawl(seed=11, count=5)])
    assert dying.wait() == -signal.SIGKILL
    deployment.start("one")
    deployment.finish()
    letters = [letter for letter in _dead_letters(deployment) if letter.value == POISON[1]]
    assert [(letter.key, letter.code, letter.is_pointer) for letter in letters] == [(b"p", "invalid-field", False)]


def test_row_10_nothing_but_poison(deploy: Deploy) -> None:
    """Batches of dead letters alone go the same way, and come again when delivered again."""
    deployment = deploy()
    deployment.start_all("one", "two")
    deployment.feed(itertools.repeat(POISON, 60))
    report = deployment.finish()
    assert report.outcomes == {"dead-letter": 60}


def test_row_11_oversize_message(deploy: Deploy) -> None:
    """Too large to be judged, or to be copied: the dead letter points to the message, with its size and digest."""
    deployment = deploy(document_bytes_max=100_000, dead_letter_bytes_max=50_000, batch_bytes_max=200_000)
    deployment.start_all("one")
    large, unreadable = _page(1, "x" * 150_000, "text"), (b"u", b"{" * 60_000)
    deployment.feed([*crawl(seed=11, count=20), large, unreadable, *crawl(seed=12, count=20)])
    deployment.finish()
    pointers = {letter.code: letter for letter in _dead_letters(deployment) if letter.is_pointer}
    assert set(pointers) == {"oversize", "invalid-json"}
    for code, message in (("oversize", large), ("invalid-json", unreadable)):
        pointer = orjson.loads(pointers[code].value or b"")
        assert pointer["value_bytes"] == len(message[1] or b"")
        assert pointer["value_sha256"] == hashlib.sha256(message[1] or b"").hexdigest()


def test_row_11_message_of_the_largest_size(deploy: Deploy) -> None:
    """What the topic takes at most is judged like everything else."""
    deployment = deploy()
    deployment.start_all("one")
    room = 8 * 2**20 - 2_000
    deployment.feed([_page(1, "the largest page of all " * (room // 24), "text"), *_good(10)])
    assert deployment.finish().outcomes.get("dead-letter") is None


@pytest.mark.slow
def test_row_21_hostile_pages(deploy: Deploy) -> None:
    """Pages that crash the extractor, keep it busy or eat the memory: dead letters each, their neighbours answered."""
    deployment = deploy(processes=1, page_timeout_s=2, page_memory_mb=256, batch_documents_max=200)
    hostile = {"crash": "extractor-crashed", "exit": "extractor-crashed", "spin": "extractor-timeout",
               "eat at once": "extractor-memory"}  # fmt: skip
    worker = deployment.start("one", module="tests.faults.hostile_pages")
    deployment.feed([*_good(30), *(_page(100 + i, order) for i, order in enumerate(hostile)), *_good(30)])
    report = deployment.finish(120)
    assert report.outcomes["dead-letter"] == len(hostile)
    assert sorted(letter.code for letter in _dead_letters(deployment)) == sorted(hostile.values())
    assert worker.exit_code is None


@pytest.mark.slow
def test_row_21_hostile_page_delivered_again_and_again(deploy: Deploy) -> None:
    """Each delivery costs a process, none of them the worker."""
    deployment = deploy(processes=1, page_timeout_s=2)
    worker = deployment.start("one", module="tests.faults.hostile_pages")
    crash = _page(1, "crash")
    deployment.feed(itertools.chain.from_iterable((crash, page) for page in _good(4)))
    report = deployment.finish(120)
    assert report.outcomes["dead-letter"] == 4
    assert worker.exit_code is None
