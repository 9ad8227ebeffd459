"""
A subscriber that stores the new documents in SQLite: python subscriber.py kafka:9092 kept.sqlite
[topic]

It stores a verdict before it commits the offset, so no verdict is lost in a crash. Storing a
verdict twice changes nothing.
"""

import sqlite3
import sys
from contextlib import closing, suppress

import neardup
from confluent_kafka import Consumer

if len(sys.argv) < 3:
    sys.exit(__doc__)
bootstrap, path, topic = [*sys.argv[1:], "verdicts"][:3]
kept = sqlite3.connect(path)
kept.execute(
    "CREATE TABLE IF NOT EXISTS pages (doc_id TEXT PRIMARY KEY, url TEXT, fetched_at_ms INTEGER)"
)
consumer = Consumer(
    {"bootstrap.servers": bootstrap, "group.id": "keeper", "auto.offset.reset": "earliest"}
    # read_committed, because messages of aborted transactions are no verdicts.
    | {"enable.auto.commit": False, "isolation.level": "read_committed"}
)
consumer.subscribe([topic])
with suppress(KeyboardInterrupt), closing(consumer):
    while True:
        messages = consumer.consume(1_000, timeout=1.0)
        for message in messages:
            if message.error():
                sys.exit(f"{topic}: {message.error()}")
            verdict = neardup.decode_verdict(message.value())
            if verdict.outcome is neardup.Outcome.NEW:
                row = (verdict.doc_id, verdict.url, verdict.fetched_at_ms)
                kept.execute("INSERT OR REPLACE INTO pages VALUES (?, ?, ?)", row)
            else:  # its new version is a duplicate, or it was deleted
                kept.execute("DELETE FROM pages WHERE doc_id = ?", (verdict.doc_id,))
        if messages:
            kept.commit()
            consumer.commit(asynchronous=False)
            print(
                kept.execute("SELECT count(*) FROM pages").fetchone()[0], "pages kept", flush=True
            )
