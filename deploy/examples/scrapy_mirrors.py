"""
A Scrapy downloader middleware that stops fetching from a mirror. A host counts as a mirror if nine
tenths of its pages are copies of pages of one other host.

DOWNLOADER_MIDDLEWARES = {"scrapy_mirrors.MirrorMiddleware": 50}; NEARDUP_BOOTSTRAP = "kafka:9092";
Scrapy 2.14.
"""

from collections import Counter, defaultdict
from urllib.parse import urlsplit

import neardup
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from scrapy.exceptions import IgnoreRequest


class MirrorMiddleware:
    def __init__(self, settings):
        options = {
            "group.id": "mirrors",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
        self.consumer = Consumer({"bootstrap.servers": settings["NEARDUP_BOOTSTRAP"]} | options)
        # Host -> how many of its pages have their original on which host, itself included.
        self.originals = defaultdict(Counter)
        topic = settings.get("NEARDUP_TOPIC_VERDICTS", "verdicts")
        unread = set(self.consumer.list_topics(topic, timeout=30).topics[topic].partitions)
        self.consumer.assign(
            [TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in unread]
        )
        while unread:  # verdicts so far; later ones are read during the crawl
            unread -= {message.partition() for message in self.read(timeout=1.0) if message.error()}

    from_crawler = classmethod(lambda cls, crawler: cls(crawler.settings))

    def read(self, timeout):
        for message in (messages := self.consumer.consume(1_000, timeout)):
            if not message.error():  # the end of a partition is also an error
                verdict = neardup.decode_verdict(message.value())
                original = (
                    verdict.duplicate_of.original.url if verdict.duplicate_of else verdict.url
                )
                self.originals[urlsplit(verdict.url or "").hostname][
                    urlsplit(original or "").hostname
                ] += 1
        return messages

    def process_request(self, request):
        self.read(timeout=0)
        found = self.originals[host := urlsplit(request.url).hostname]
        if (
            found
            and (most := max(found, key=found.get)) != host
            and found[most] >= max(20, 0.9 * found.total())
        ):
            raise IgnoreRequest(f"{host} is a mirror of {most}")
