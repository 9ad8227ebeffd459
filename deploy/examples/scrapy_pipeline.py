"""
A Scrapy item pipeline that sends each page to the topic `documents`, where the workers read it.
Scrapy 2.14 or newer.

ITEM_PIPELINES = {"scrapy_pipeline.NeardupPipeline": 800}; NEARDUP_BOOTSTRAP = "kafka:9092"; items
have url and html.
"""

import logging
from datetime import UTC, datetime

import neardup
from confluent_kafka import Producer
from itemadapter import ItemAdapter
from scrapy.exceptions import DropItem


class NeardupPipeline:
    def __init__(self, settings):
        self.producer = Producer(
            {"bootstrap.servers": settings["NEARDUP_BOOTSTRAP"], "enable.idempotence": True}
        )
        self.topic = settings.get("NEARDUP_TOPIC", "documents")

    @classmethod
    def from_crawler(cls, crawler):
        return cls(crawler.settings)

    def process_item(self, item):
        fields = {name: ItemAdapter(item).get(name) for name in ("doc_id", "url", "html")}
        try:
            page = neardup.DocumentMessage(**fields, fetched_at=datetime.now(UTC).isoformat())
        except ValueError as error:
            raise DropItem(f"no document: {error}") from error
        self.producer.produce(
            self.topic, page.model_dump_json(exclude_none=True), on_delivery=self.delivered
        )
        self.producer.poll(0)  # calls `delivered`
        return item

    def close_spider(self):
        self.producer.flush()  # waits until each is delivered, five minutes at most

    def delivered(self, error, message):
        if error:
            logging.error("not fed to %s: %s", message.topic(), error)
