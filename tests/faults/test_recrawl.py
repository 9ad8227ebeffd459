"""What comes again, on Apache Kafka: re-deliveries, new versions, deletions, and the document after them."""

from __future__ import annotations

import random

import orjson
import pytest

from tests.faults.conftest import Deploy
from tests.faults.crawl import Message, random_words
from tests.oracle import Said

pytestmark = [pytest.mark.kafka, pytest.mark.faults]

STORY, OTHER = (" ".join(random_words(random.Random(seed), 120)) for seed in (1, 2))


def _message(doc_id: str, text: str | None) -> Message:
    if text is None:
        return doc_id.encode(), None
    value = {"doc_id": doc_id, "url": f"https://x.example/{doc_id}", "fetched_at": "2024-05-01T12:00:00Z", "text": text}
    return doc_id.encode(), orjson.dumps(value)


def _told(answer: Said) -> str:
    outcome, original, _, reason, *_ = answer
    return f"duplicate of {original}" if original else f"{outcome}: {reason}" if reason else outcome


def test_what_comes_again(deploy: Deploy) -> None:
    """One message after the other, answered by whichever worker has the partition; the last ones by a successor."""
    history = [
        (_message("a", STORY), "new"),
        (_message("a", STORY), "new: redelivered"),
        (_message("b", STORY), "duplicate of a"),
        (_message("b", STORY), "duplicate of a"),
        (_message("a", None), "deleted: removed"),  # the original of b
        (_message("b", STORY), "new"),
        (_message("a", STORY), "duplicate of b"),
        (_message("b", OTHER), "new"),  # with other content
        (_message("c", STORY), "new"),
        (_message("c", None), "deleted: removed"),
        (_message("c", None), "deleted: not-an-original"),
        (_message("c", OTHER), "duplicate of b"),
        (_message("b", OTHER), "new: redelivered"),
    ]
    deployment = deploy(partitions=1, batch_documents_max=2)
    [worker] = deployment.start_all("one")
    deployment.feed(message for message, _ in history[:7])
    deployment.until_all_committed()
    worker.kill()
    deployment.start("two")
    deployment.feed(message for message, _ in history[7:])
    deployment.finish()
    answers = dict(deployment.answers())
    assert [_told(answers[0, offset]) for offset in range(len(history))] == [expected for _, expected in history]
