"""How long a document waits for its verdict: from the producer's call to a subscriber that reads what is committed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import orjson
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.benchmarks.stream.corpus import Message
from tests.benchmarks.stream.scene import PARTITIONS
from worker.settings import Settings
from worker.shell.kafka.client import feeder_config, reader_config

_WARM_UP_S = 20.0  # a Java broker that has only just met small transactions compiles them for some 15 s
_WAIT_S = 10.0


class Latency(NamedTuple):
    """Of the documents after the first twenty seconds."""

    documents: int
    fed_per_s: float
    p50_ms: float
    p99_ms: float
    max_ms: float


class _Subscriber(threading.Thread):
    """Notes when each verdict is there to read."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(daemon=True)
        self._consumer = Consumer({**reader_config(settings), "enable.partition.eof": False})
        parts = [TopicPartition(settings.topic_verdicts, number) for number in range(PARTITIONS)]
        for part in parts:
            part.offset = self._consumer.get_watermark_offsets(part, timeout=10, cached=False)[1]
        self._consumer.assign(parts)
        self.seen: dict[str, float] = {}
        self.stopping = threading.Event()

    def run(self) -> None:
        while not self.stopping.is_set():
            message = self._consumer.poll(0.05)
            if message is not None and message.error() is None:
                now = time.perf_counter()
                self.seen[str(orjson.loads(message.value() or b"")["doc_id"])] = now
        self._consumer.close()


def measure(settings: Settings, messages: Iterable[Message], rate_per_s: int) -> Latency:
    """Feed at a steady rate and follow the verdicts; the worker runs already."""
    documents = list(messages)
    subscriber = _Subscriber(settings)
    subscriber.start()
    producer = Producer({**feeder_config(settings), "linger.ms": 1})
    sent: dict[str, float] = {}
    started = time.perf_counter()
    for number, message in enumerate(documents):
        due = started + number / rate_per_s
        while (ahead := due - time.perf_counter()) > 0:
            producer.poll(min(ahead, 0.001))
        sent[message.key.decode()] = time.perf_counter()
        producer.produce(settings.topic_documents, value=message.value, key=message.key)
    fed_per_s = len(documents) / (time.perf_counter() - started)
    producer.flush()
    deadline = time.perf_counter() + _WAIT_S
    while len(subscriber.seen) < len(documents) and time.perf_counter() < deadline:
        time.sleep(0.05)
    subscriber.stopping.set()
    subscriber.join()
    missing = sent.keys() - subscriber.seen.keys()
    if missing:
        raise RuntimeError(f"{len(missing)} of {len(sent)} documents had no verdict after {_WAIT_S:g} s")
    waits_ms = 1_000 * np.array(
        [subscriber.seen[doc_id] - at for doc_id, at in sent.items() if at - started > _WARM_UP_S]
    )
    p50, p99 = np.percentile(waits_ms, [50, 99])
    return Latency(len(waits_ms), fed_per_s, float(p50), float(p99), float(waits_ms.max()))
