"""The programs of deploy/examples do what they say, as a user runs them."""

from __future__ import annotations

import gzip
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import neardup
import pandas
import pytest
from confluent_kafka import Consumer, Producer

from tests.cli.test_dedup import ARTICLE
from tests.conftest import REPOSITORY, Kafka
from tests.shell.test_topics import deployment
from worker.shell.kafka import topics

EXAMPLES = REPOSITORY / "deploy" / "examples"
OTHER = "Nobody in the harbour has seen the ferry since the morning, and the office of the port says that it is late."
LINES_MAX = 40


def run(folder: Path, name: str, *arguments: str) -> str:
    """Run an example to its end; give what it said."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_example_is_short() -> None:
    """Each fits on a page."""
    lengths = {path.name: len(path.read_text().splitlines()) for path in EXAMPLES.glob("*.py")}
    assert len(lengths) == 4
    assert {name for name, length in lengths.items() if length > LINES_MAX} == set()


def test_a_data_frame_keeps_its_columns_and_loses_its_copies(tmp_path: Path) -> None:
    """The copy is named with its original; a row without a text is no document."""
    rows = {
        "url": ["https://a.example/", "https://b.example/", "https://c.example/", "https://d.example/"],
        "fetched_at": ["2026-01-02T03:04:05Z"] * 4,
        "text": [ARTICLE, OTHER, ARTICLE.upper(), None],
        "author": ["Ada", "Bo", "Cy", "Di"],
    }
    pandas.DataFrame(rows).to_csv(tmp_path / "articles.csv")
    said = run(tmp_path, "data_frame.py", "articles.csv")
    assert "https://c.example/ https://a.example/         1.0" in said
    assert list(pandas.read_csv(tmp_path / "kept.csv").author) == ["Ada", "Bo"]
    assert len(neardup.Deduplicator.load(tmp_path / "articles.ndsnap")) == 2


def wet(*texts: str) -> bytes:
    """Return a WET file, each record a member."""
    return b"".join(
        gzip.compress(
            b"WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Record-ID: <urn:uuid:%08d-0000-0000-0000-000000000000>\r\n"
            b"WARC-Date: 2024-05-01T12:00:00Z\r\nWARC-Target-URI: https://example.org/%d\r\n"
            b"Content-Type: text/plain\r\nContent-Length: %d\r\n\r\n%b\r\n\r\n"
            % (number, hash(text) % 1_000, len(text.encode()), text.encode())
        )
        for number, text in enumerate(texts)
    )


def test_common_crawls_texts_are_kept_once_over_two_runs(tmp_path: Path) -> None:
    """The second run knows what the first kept; damage is named."""
    (tmp_path / "one.warc.wet.gz").write_bytes(wet(ARTICLE, OTHER, ARTICLE + " "))
    (tmp_path / "two.warc.wet.gz").write_bytes(wet(OTHER.upper(), "A third text that nobody has read before.") + b"x")
    assert "'new': 2, 'duplicate': 1" in run(tmp_path, "common_crawl.py", "kept.jsonl", "one.warc.wet.gz")
    said = run(tmp_path, "common_crawl.py", "kept.jsonl", "two.warc.wet.gz")
    assert "damaged: two.warc.wet.gz" in said
    assert "3 originals known" in said
    kept = [json.loads(line)["text"] for line in (tmp_path / "kept.jsonl").read_text().splitlines()]
    assert kept == [ARTICLE, OTHER, "A third text that nobody has read before."]


@pytest.mark.kafka
def test_a_subscriber_keeps_what_is_new(kafka: Kafka, tmp_path: Path) -> None:
    """Verdicts in, pages out; what is deleted later goes, a second start adds nothing twice."""
    settings, admin = deployment(kafka, partitions=1)
    topics.create(admin, settings)
    found = neardup.Deduplicator(threads=1)
    given = [ARTICLE, OTHER, ARTICLE.upper(), {"doc_id": "c", "text": "A third text that nobody has read."}]
    verdicts = list(found.add_many([*given, neardup.Deletion("c"), neardup.Deletion("1")]))
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for verdict in verdicts:
        key, value = neardup.encode_verdict(verdict)
        producer.produce(settings.topic_verdicts, value, key)
    assert producer.flush(30) == 0
    arguments = [sys.executable, str(EXAMPLES / "subscriber.py"), kafka.bootstrap, "kept", settings.topic_verdicts]
    with subprocess.Popen(arguments, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            for said in process.stdout:
                if said == "1 pages kept\n":
                    break
        finally:
            process.send_signal(signal.SIGINT)
    with sqlite3.connect(tmp_path / "kept") as kept:
        assert kept.execute("SELECT doc_id, url FROM pages").fetchall() == [("0", "urn:neardup:0")]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    """Two pages on a server of this machine."""
    folder = tmp_path / "site"
    folder.mkdir()
    for number, text in enumerate((ARTICLE, OTHER)):
        (folder / f"{number}.html").write_text(f"<html><body><article><p>{text}</p></article></body></html>")
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


SPIDER = """
import scrapy

class Pages(scrapy.Spider):
    name = "pages"

    def parse(self, response):
        yield {"url": response.url, "html": response.text, "depth": 0}
        yield {"url": response.url}
"""


@pytest.mark.kafka
def test_scrapy_feeds_the_topic_of_documents(kafka: Kafka, tmp_path: Path, site: str) -> None:
    """A real spider with the pipeline: a page is a message that a worker can read; an item without one goes."""
    settings, admin = deployment(kafka, partitions=1)
    topics.create(admin, settings)
    urls = [f"{site}/0.html", f"{site}/1.html"]
    (tmp_path / "spider.py").write_text(f"{SPIDER}\n    start_urls = {urls}\n")
    options = {
        "ITEM_PIPELINES": json.dumps({"scrapy_pipeline.NeardupPipeline": 800}),
        "NEARDUP_BOOTSTRAP": kafka.bootstrap,
        "NEARDUP_TOPIC": settings.topic_documents,
    }
    command = [sys.executable, "-m", "scrapy", "runspider", "spider.py", *(f"-s{n}={v}" for n, v in options.items())]
    environment = os.environ | {"PYTHONPATH": str(EXAMPLES)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "'item_scraped_count': 2" in done.stderr, done.stderr
    assert "no document" in done.stderr
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "t", "auto.offset.reset": "earliest"})
    consumer.subscribe([settings.topic_documents])
    found: dict[str, str | bytes] = {}
    deadline_s = time.monotonic() + 60
    while len(found) < 2 and time.monotonic() < deadline_s:
        for message in consumer.consume(10, timeout=1.0):
            document = neardup.decode_document(message.key(), message.value())
            assert isinstance(document, neardup.Document)
            found[document.url] = document.body
    consumer.close()
    assert sorted(found) == urls
    assert ARTICLE in str(found[urls[0]])
