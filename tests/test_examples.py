"""The programs of deploy/examples do what they say, as a user runs them."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import re
import runpy
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import neardup
import pandas
import pytest
import yaml
from confluent_kafka import Consumer, Producer

from tests.cli import program
from tests.cli.fake_worker import TOKEN, fake_worker
from tests.cli.program import ARTICLE, OTHER
from tests.conftest import REPOSITORY, Kafka, deployed, output_of, served
from tests.faults import cluster
from tests.report.made import copy, verdict
from tests.shell.test_archives import record
from worker.devkit.broker import Runtime
from worker.devkit.broker.runtime import Jar, fetch
from worker.shell.kafka.configuration import publisher_config
from worker.shell.messages import encode_verdict

EXAMPLES = REPOSITORY / "deploy" / "examples"


def run(folder: Path, name: str, *arguments: str) -> str:
    """Run an example to its end; give what it said."""
    return output_of(sys.executable, EXAMPLES / name, *arguments, cwd=folder)


@pytest.mark.parametrize(
    "name",
    [
        "common_crawl",
        "data_frame",
        "subscriber",
        "subscriber_aiokafka",
        "subscriber_confluent_kafka",
    ],
)
def test_a_program_without_its_arguments_says_what_to_give(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the words of its head, with the command to type, and without a traceback."""
    if name == "subscriber_aiokafka":
        pytest.importorskip("aiokafka")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [f"{name}.py"])
    with pytest.raises(SystemExit, match=rf"python {name}\.py "):
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")


def test_a_data_frame_keeps_its_columns_and_loses_its_copies(tmp_path: Path) -> None:
    """
    The copy is named with its original; a row without a text is no document; of rows wholly equal
    one is kept.
    """
    rows = {
        "url": [f"https://{host}.example/" for host in "abcda"],
        "fetched_at": ["2026-01-02T03:04:05Z"] * 5,
        "text": [ARTICLE, OTHER, ARTICLE.upper(), None, ARTICLE],
        "author": ["Ada", "Bo", "Cy", "Di", "Ada"],
        "kind": ["news"] * 5,
    }
    pandas.DataFrame(rows).to_csv(tmp_path / "articles.csv")
    said = run(tmp_path, "data_frame.py", "articles.csv")
    assert "https://c.example/ https://a.example/         1.0" in said
    kept = pandas.read_csv(tmp_path / "kept.csv")
    assert (kept.author.tolist(), kept.kind_given.tolist()) == (["Ada", "Bo"], ["news"] * 2)
    assert len(neardup.Deduplicator.load(tmp_path / "articles.ndsnap")) == 2


@pytest.mark.slow
def test_the_notebook_judges_a_corpus_and_goes_on_from_it(tmp_path: Path) -> None:
    """Each cell, in order."""
    cells = json.loads((EXAMPLES / "archive.ipynb").read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    code.append(
        "print('found', largest['count'].max(), len(known), verdict.outcome.value, flush=True)"
    )
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    (tmp_path / "cells.py").write_text("\n".join(code))
    said = output_of(sys.executable, "cells.py", cwd=tmp_path, env={**os.environ, "PATH": path})
    [told] = re.findall("^found (.+)$", said, re.MULTILINE)
    largest, known, outcome = told.split()
    assert 2 <= int(largest) < int(known) < 300 and outcome == "new"
    assert len(list((tmp_path / "judged" / "kept").iterdir())) == 1


def test_a_job_in_kubernetes_runs_on_the_spark_of_its_cluster(tmp_path: Path) -> None:
    """Its manifest is one; its command works on a Spark by URL, whose folder is the claim."""
    from pysail.spark import SparkConnectServer  # noqa: PLC0415

    job = yaml.safe_load((EXAMPLES / "archive.yaml").read_text())
    kubernetes_validate.validate(job, "1.32", strict=True)
    [container] = job["spec"]["template"]["spec"]["containers"]
    assert container["volumeMounts"] == [{"name": "corpus", "mountPath": "/corpus"}]
    (tmp_path / "crawl").mkdir()
    (tmp_path / "crawl" / "a.jsonl").write_text(
        json.dumps({"text": ARTICLE}) + "\n" + json.dumps({"text": OTHER}) + "\n"
    )
    server = SparkConnectServer()
    server.start()
    url = "sc://{}:{}".format(*server.listening_address)
    places = {"/corpus": str(tmp_path), "sc://spark-connect:15002": url}
    given = [
        re.sub("|".join(places), lambda found: places[found[0]], one) for one in container["args"]
    ]
    said = output_of(
        sys.executable, "-m", "worker", *container["command"][1:], *given, cwd=tmp_path
    )
    server.stop()
    assert json.loads(said)["outcomes"] == {"new": 2}
    assert len(neardup.Deduplicator.load(tmp_path / "known")) == 2


def wet(*texts: str) -> bytes:
    """Return a WET file, each record a member."""
    places = ((text, f"https://example.org/{hash(text) % 1_000}") for text in texts)
    return b"".join(
        gzip.compress(record("conversion", url, "text/plain", text.encode()))
        for text, url in places
    )


def test_common_crawls_texts_are_kept_once_over_two_runs(tmp_path: Path) -> None:
    """The second run knows what the first kept; damage is named."""
    (tmp_path / "one.warc.wet.gz").write_bytes(wet(ARTICLE, OTHER, ARTICLE + " "))
    (tmp_path / "two.warc.wet.gz").write_bytes(
        wet(OTHER.upper(), "A third text that nobody has read before.") + b"x"
    )
    assert "'new': 2, 'duplicate': 1" in run(
        tmp_path, "common_crawl.py", "kept.jsonl", "one.warc.wet.gz"
    )
    said = run(tmp_path, "common_crawl.py", "kept.jsonl", "two.warc.wet.gz")
    assert "damaged: two.warc.wet.gz" in said
    assert "3 originals known" in said
    # again: there is nothing to add.
    run(tmp_path, "common_crawl.py", "kept.jsonl", "one.warc.wet.gz")
    kept = [json.loads(line)["text"] for line in (tmp_path / "kept.jsonl").read_text().splitlines()]
    assert kept == [ARTICLE, OTHER, "A third text that nobody has read before."]


def test_a_run_over_common_crawl_that_is_broken_off_adds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """So the same command adds each text once. A document that cannot be judged ends no run."""
    long = gzip.compress(record("conversion", "https://a.example/" + "a" * 9_000, "", b"A text."))
    (tmp_path / "one.warc.wet.gz").write_bytes(wet(ARTICLE) + long + wet(OTHER))
    main = runpy.run_path(str(EXAMPLES / "common_crawl.py"))["main"]
    given = tmp_path / "kept.jsonl", str(tmp_path / "one.warc.wet.gz")
    real = neardup.Deduplicator.add_many

    def cut_off(found: neardup.Deduplicator, *documents: Any, **named: Any) -> Any:
        yield from itertools.islice(real(found, *documents, **named), 1)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(neardup.Deduplicator, "add_many", cut_off)
        main(*given)
    main(*given)
    assert "url-too-long" in capsys.readouterr().out
    kept = [json.loads(line)["text"] for line in given[0].read_text().splitlines()]
    assert kept == [ARTICLE, OTHER]


@pytest.mark.kafka
def test_a_subscriber_keeps_what_is_new(kafka: Kafka, tmp_path: Path) -> None:
    """Verdicts in, pages out; what is deleted later goes, a second start adds nothing twice."""
    settings = deployed(kafka, partitions=1)
    found = neardup.Deduplicator(threads=1)
    third = "A third text that nobody has read."
    texts = zip("abcd", (ARTICLE, OTHER, third, ARTICLE.upper()), strict=True)
    given = [{"doc_id": name, "text": text} for name, text in texts]
    judged = list(found.add_many([*given, neardup.Deletion("c"), neardup.Deletion("b")]))
    cluster.append(
        kafka.bootstrap, settings.topic_verdicts, [neardup.encode_verdict(one)[1] for one in judged]
    )
    arguments = [
        sys.executable,
        str(EXAMPLES / "subscriber.py"),
        kafka.bootstrap,
        "kept",
        settings.topic_verdicts,
    ]
    with subprocess.Popen(arguments, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            for said in process.stdout:
                if said == "1 pages kept\n":
                    break
        finally:
            process.send_signal(signal.SIGINT)
    with sqlite3.connect(tmp_path / "kept") as kept:
        assert kept.execute("SELECT doc_id, url FROM pages").fetchall() == [("a", "urn:neardup:a")]


ECJ = Jar(  # javac is in no wheel
    "org.eclipse.jdt",
    "ecj",
    "3.46.0",
    "d0d43f8e2d7003e5efed612e2cbb5f01870043397d8f1bbe536fd9128f4fcbf7",
    3_370_586,
)
CLIENT = ("kafka-clients-", "lz4-java-", "slf4j-api-", "jackson-")


@pytest.fixture(params=["confluent_kafka", "aiokafka", "Java"])
def subscriber(request: pytest.FixtureRequest, tmp_path: Path) -> list[str | Path]:
    """The command of each, with nothing but what it names."""
    if request.param != "Java":
        return [sys.executable, EXAMPLES / f"subscriber_{request.param}.py"]
    runtime: Runtime = request.getfixturevalue("broker_runtime")
    path = os.pathsep.join(str(jar) for jar in runtime.jars if jar.name.startswith(CLIENT))
    java: list[str | Path] = [runtime.java]
    [compiler] = fetch(jars=[ECJ])
    output_of(
        *java, "-jar", compiler, "-17", "-cp", path, "-d", tmp_path, EXAMPLES / "Subscriber.java"
    )
    return [*java, "-cp", f"{tmp_path}{os.pathsep}{path}", "Subscriber"]


@pytest.mark.kafka
def test_any_client_reads_the_verdicts(kafka: Kafka, subscriber: list[str | Path]) -> None:
    """
    As a worker's producer writes them: compressed, and nothing of a transaction that was aborted.
    """
    settings = deployed(kafka, partitions=1)
    producer = Producer(publisher_config(settings))
    producer.init_transactions()
    for first, end in ((0, producer.abort_transaction), (100, producer.commit_transaction)):
        producer.begin_transaction()
        for number in range(first, first + 50):
            producer.produce(settings.topic_verdicts, encode_verdict(verdict(number))[1])
        end()
    with subprocess.Popen(
        [*subscriber, kafka.bootstrap, settings.topic_verdicts], stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            said = [process.stdout.readline().decode() for _ in range(50)]
        finally:
            process.kill()
    assert said == [f"new {verdict(number).url}\n" for number in range(100, 150)]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    """Two pages on a server of this machine."""
    folder = tmp_path / "site"
    folder.mkdir()
    for number, text in enumerate((ARTICLE, OTHER)):
        (folder / f"{number}.html").write_text(
            f"<html><body><article><p>{text}</p></article></body></html>"
        )
    with served(folder) as url:
        yield url


SPIDER = """
import scrapy

class Pages(scrapy.Spider):
    name = "pages"

    def parse(self, response):
        yield {"url": response.url, "html": response.text, "depth": 0}
        yield {"url": response.url}
"""


def crawl(folder: Path, urls: list[str], **options: str) -> str:
    """Run a spider over some pages, with a program of the examples; return its log."""
    (folder / "spider.py").write_text(f"{SPIDER}\n    start_urls = {urls}\n")
    command = [
        sys.executable,
        "-m",
        "scrapy",
        "runspider",
        "spider.py",
        *(f"-s{n}={v}" for n, v in options.items()),
    ]
    environment = os.environ | {"PYTHONPATH": str(EXAMPLES)}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    ).stderr


def test_a_crawler_drops_what_a_worker_has_seen(tmp_path: Path, site: str) -> None:
    """
    The copy becomes no item, the other page does; where no worker answers both do, with a warning.
    """
    urls = [f"{site}/0.html", f"{site}/1.html"]
    options = {
        "DOWNLOADER_MIDDLEWARES": json.dumps({"scrapy_seen.SeenMiddleware": 50}),
        "NEARDUP_ASK_TOKEN": TOKEN,
    }
    with fake_worker() as worker:
        worker.known[ARTICLE] = "https://first.example/"
        said = crawl(tmp_path, urls, NEARDUP_WORKER=worker.address, **options)
        assert f"{urls[0]} is a copy of https://first.example/" in said, said
        assert sorted(document["url"] for [document] in worker.requests) == urls
        worker.refusals = [(429, {"Retry-After": "1"})] * 2
        busy = crawl(tmp_path, urls, NEARDUP_WORKER=worker.address, **options)
    # Of each page the spider makes two items.
    assert "'item_scraped_count': 2" in said, said
    assert "'item_scraped_count': 4" in busy, busy
    assert f"no worker could say whether {urls[0]} is a copy: HTTP Error 429" in busy


@pytest.mark.kafka
def test_a_crawler_leaves_mirrors_alone(kafka: Kafka, tmp_path: Path, site: str) -> None:
    """
    A host whose pages are copies of another's; of the other half are copies, too, and it is
    fetched.
    """
    settings = deployed(kafka, partitions=2)
    answers: tuple[list[bytes], list[bytes]] = [], []
    for number in range(60):
        host, other = ("localhost", "127.0.0.1") if number % 2 else ("127.0.0.1", "localhost")
        answer = copy(number, 1_000, url=f"http://{host}/{number}")
        assert answer.duplicate_of is not None
        there = answer.duplicate_of.original._replace(url=f"http://{other}/")
        answer = answer._replace(duplicate_of=answer.duplicate_of._replace(original=there))
        if number % 4 == 1:
            answer = verdict(number, url=answer.url)
        answers[number % 2].append(encode_verdict(answer)[1])
    for partition, values in enumerate(answers):
        cluster.append(kafka.bootstrap, settings.topic_verdicts, values, partition=partition)
    said = crawl(
        tmp_path,
        [site, site.replace("127.0.0.1", "localhost")],
        DOWNLOADER_MIDDLEWARES=json.dumps({"scrapy_mirrors.MirrorMiddleware": 50}),
        NEARDUP_BOOTSTRAP=kafka.bootstrap,
        NEARDUP_TOPIC_VERDICTS=settings.topic_verdicts,
    )
    assert "'downloader/exception_type_count/scrapy.exceptions.IgnoreRequest': 1" in said, said
    assert "'downloader/request_count': 1" in said


@pytest.mark.kafka
def test_scrapy_feeds_the_topic_of_documents(kafka: Kafka, tmp_path: Path, site: str) -> None:
    """
    A real spider with the pipeline: a page is a message that a worker can read; an item without one
    goes.
    """
    settings = deployed(kafka, partitions=1)
    urls = [f"{site}/0.html", f"{site}/1.html"]
    said = crawl(
        tmp_path,
        urls,
        ITEM_PIPELINES=json.dumps({"scrapy_pipeline.NeardupPipeline": 800}),
        NEARDUP_BOOTSTRAP=kafka.bootstrap,
        NEARDUP_TOPIC=settings.topic_documents,
    )
    assert "'item_scraped_count': 2" in said, said
    assert "no document" in said
    consumer = Consumer(
        {"bootstrap.servers": kafka.bootstrap, "group.id": "t", "auto.offset.reset": "earliest"}
    )
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


def test_the_readme_shows_what_its_first_commands_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Line by line, but for the seconds; none is about damage, which the sample has only if asked."""
    block = (REPOSITORY / "README.md").read_text("utf-8").partition("## Try it")[2].split("\n\n")
    lines = [shlex.split(line, comments=True) for line in block[1].splitlines()]
    commands = [words[1:] for words in lines if words[0] == "neardup"]
    shown = [re.sub(r"; [\d.]+ s$", "", line.strip()) for line in block[3].splitlines()]
    monkeypatch.chdir(tmp_path)
    said = []
    for command in commands:
        told = program.run(*command).stderr.splitlines()
        said.append(re.sub(r"; [\d.]+ s$", "", told[-1]))
        assert "damaged:" not in "".join(told)
    assert said[1:] == shown and len(shown) == 3
