"""
The limit: consume, decode, append one record per batch, produce one message per document, commit in
a transaction.

The same clients with the same configuration and the same batch as a worker, on one thread; no
fingerprint, no index, no log to follow. What a worker adds to this is its own cost.

The messages are the worker's: fed from a WARC file they carry the page as base64, already unpacked.
The loop parses the JSON around it and leaves the base64 as it is. What it appends and answers
compresses to nothing, where a worker's record of 184 bytes for a document compresses to half. Both
make it faster than any worker can be.

    python bare_loop.py BOOTSTRAP GROUP DOCUMENTS LOG VERDICTS
"""

from __future__ import annotations

import sys

import orjson
from confluent_kafka import Consumer, KafkaError, Message, Producer

from worker.settings import Settings
from worker.shell.kafka.configuration import appender_config, group_config, publisher_config

_RECORD = bytes(184)  # of the log, for one document


def main() -> None:
    bootstrap, group, documents, log, verdicts = sys.argv[1:6]
    settings = Settings(
        bootstrap=bootstrap, group=group, worker_id="bare", topic_documents=documents
    )
    config = group_config(settings)
    consumer = Consumer({**config, "auto.offset.reset": "earliest"})
    consumer.subscribe([documents])
    appender = Producer(appender_config(settings))
    publisher = Producer(publisher_config(settings))
    publisher.init_transactions()
    bytes_mean = 1.0
    while True:
        by_bytes = max(1, int(settings.batch_bytes_max / bytes_mean))
        messages = consumer.consume(
            min(settings.batch_documents_max, by_bytes), settings.batch_wait_ms / 1_000
        )
        messages = [message for message in messages if message.error() is None]
        if messages:
            bytes_mean = sum(len(message) for message in messages) / len(messages)
            decoded = [orjson.loads(message.value() or b"") for message in messages]
            _append(appender, log, len(decoded))
            publisher.begin_transaction()
            for message, fields in zip(messages, decoded, strict=True):
                key = message.key() or b""
                answer = {
                    "doc_id": key.decode(),
                    "url": fields["url"],
                    "verdict": "new",
                    "padding": "x" * 350,
                }
                publisher.produce(verdicts, value=orjson.dumps(answer), key=key)
            publisher.poll(0)
            publisher.send_offsets_to_transaction(
                consumer.position(consumer.assignment()), consumer.consumer_group_metadata()
            )
            publisher.commit_transaction()


def _append(appender: Producer, log: str, rows: int) -> None:
    """Append one record and wait for its acknowledgement."""
    delivered: list[KafkaError | None] = []

    def on_delivery(error: KafkaError | None, _message: Message) -> None:
        delivered.append(error)

    appender.produce(log, value=_RECORD * rows, partition=0, on_delivery=on_delivery)
    while not delivered:
        appender.poll(1.0)


if __name__ == "__main__":
    main()
