"""
Print each verdict: python subscriber_confluent_kafka.py kafka:9092 [topic], after pip install
confluent-kafka.
"""

import json
import sys

from confluent_kafka import Consumer

if len(sys.argv) < 2:
    sys.exit(__doc__)
settings = {
    "group.id": "confluent",
    "auto.offset.reset": "earliest",
    "isolation.level": "read_committed",
}
consumer = Consumer({"bootstrap.servers": sys.argv[1]} | settings)
consumer.subscribe([*sys.argv[2:], "verdicts"][:1])
while True:
    for message in consumer.consume(1_000, timeout=1.0):
        if message.error():
            sys.exit(str(message.error()))
        verdict = json.loads(message.value())
        print(verdict["verdict"], verdict.get("url", ""), flush=True)
