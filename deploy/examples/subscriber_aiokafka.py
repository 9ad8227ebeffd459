"""
Print each verdict: python subscriber_aiokafka.py kafka:9092 [topic], after pip install
'aiokafka[lz4]'.
"""

import asyncio
import json
import sys

from aiokafka import AIOKafkaConsumer


async def main(bootstrap, topic="verdicts"):
    settings = {
        "group_id": "aiokafka",
        "auto_offset_reset": "earliest",
        "isolation_level": "read_committed",
    }
    async with AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, **settings) as consumer:
        async for message in consumer:
            verdict = json.loads(message.value)
            print(verdict["verdict"], verdict.get("url", ""), flush=True)


if len(sys.argv) < 2:
    sys.exit(__doc__)
asyncio.run(main(*sys.argv[1:]))
