"""Rows 10, 11, 21 and 25 to 27 of the fault table: messages that do harm."""

from __future__ import annotations

import base64
import hashlib
import itertools
import random
import signal
import uuid
from collections.abc import Iterator

import orjson
import pytest
from confluent_kafka import Producer
from rich.cells import cell_len

from schemas.dead_letter import DeadLetterPointer
from tests.cli.program import run
from tests.conftest import EVENTUALLY_S, Kafka
from tests.faults.conftest import Deploy
from tests.faults.crawl import Message, crawl, message, random_words
from tests.faults.harness import Deployment
from tests.floods import doc_ids_of_one_xxh64
from worker.settings import MESSAGE_BYTES_MAX, env_name
from worker.shell.kafka.configuration import feeder_config
from worker.shell.messages import DeadLetter, decode_dead_letter, decode_verdict

pytestmark = [pytest.mark.kafka, pytest.mark.faults]

POISON = (
    b"p",
    b'{"url": "http://poison.example/", "fetched_at": "2024-05-01T12:00:00Z", "text": 5}',
)


@pytest.fixture(scope="module")
def lone(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """
    One worker with one partition and large batches, which publishes new documents, too, for harm of
    many kinds.
    """
    folder, new = tmp_path_factory.mktemp("lone"), f"new-{uuid.uuid4().hex}"
    with Deployment(
        kafka.bootstrap, folder, partitions=1, batch_documents_max=500, topic_new=new
    ) as deployment:
        deployment.start_all("one")
        yield deployment


def _dead_letters(deployment: Deployment) -> list[DeadLetter]:
    messages = deployment.read(deployment.settings.topic_dead_letter)
    return [decode_dead_letter(message.key, message.value, message.headers) for message in messages]


def _page(number: int, body: str, kind: str = "html") -> Message:
    return message(f"{number}", f"https://pages.example/{number}", **{kind: body})


def _good(count: int) -> Iterator[Message]:
    return (
        _page(number, f"<p>a page about the thing with the number {number} of them</p>")
        for number in range(count)
    )


def test_row_10_poison_message(deploy: Deploy) -> None:
    """
    Messages that nobody can read, one of them for a time that is none, and workers that die while
    answering them: a dead letter each, with its offset. A message without a time is no poison:
    whoever takes over, and whoever replays the log, reads the time that was stored with it.
    """
    deployment = deploy(partitions=1)
    without = [
        (b"k%d" % number, orjson.dumps({"url": f"https://times.example/{number}", "text": text}))
        for number, text in enumerate(("the first of these pages", "another one, about trains"))
    ]
    wrong = orjson.dumps({"url": "https://times.example/w", "fetched_at": "soon", "text": "x y z"})
    poison = [POISON, (b"w", wrong)]
    deployment.feed([*crawl(seed=10, count=5), *poison, *without, *crawl(seed=11, count=5)])
    for point in ("in-transaction", "after-offsets"):
        assert deployment.start("one", fault=f"{point}:kill:1").wait() == -signal.SIGKILL
    deployment.start("one")
    deployment.finish()
    values = {value for _, value in poison}
    letters = [letter for letter in _dead_letters(deployment) if letter.value in values]
    assert [(letter.key, letter.code, letter.is_pointer) for letter in letters] == [
        (b"p", "invalid-field", False),
        (b"w", "invalid-date", False),
    ]
    stamps = {
        message.offset: message.timestamp_ms
        for message in deployment.read(deployment.settings.topic_documents)
    }
    verdicts = [
        decode_verdict(message.value or b"")
        for message in deployment.read(deployment.settings.topic_verdicts)
    ]
    timed = [one for one in verdicts if (one.url or "").startswith("https://times.example/")]
    assert len(timed) == 2
    assert all(one.fetched_at_ms == stamps[one.source_offset] > 0 for one in timed)


def _policy(deployment: Deployment) -> str:
    """Return the cleanup.policy of the dead letters that the brokers go by."""
    topic = deployment.settings.topic_dead_letter
    return deployment.admin.describe([topic])[topic].config["cleanup.policy"]


def test_row_10_a_compacted_topic_of_dead_letters(deploy: Deploy) -> None:
    """
    A compacted topic takes no message without a key. A worker that meets it ends and names the
    remedy, and so does one that starts; after it everything is answered.
    """
    deployment = deploy(partitions=1)
    letters = deployment.settings.topic_dead_letter
    [worker] = deployment.start_all("one")
    deployment.admin.alter(letters, {"cleanup.policy": "compact"})
    deployment.until(lambda: _policy(deployment) == "compact", "the brokers know it")
    deployment.feed([(None, b"no JSON"), *_good(3)])
    assert worker.wait() == 1
    told = str(worker.events()[-1])
    assert "the brokers refuse a message" in told and letters in told
    alters = f"topics alter --bootstrap {deployment.settings.bootstrap}"
    remedy = f"{alters} {letters} cleanup.policy=delete"
    assert f"neardup {remedy}" in told
    worker = deployment.start("one")
    assert worker.wait() == 1
    assert remedy in str(worker.events()[-1])
    run(*remedy.split())
    deployment.until(lambda: _policy(deployment) == "delete", "the brokers know it")
    deployment.start("one")
    assert deployment.finish().outcomes == {"dead-letter": 1, "new": 3}


def test_row_10_headers_that_the_topic_of_new_documents_does_not_take(deploy: Deploy) -> None:
    """
    A document of some words whose headers fit into its topic, because its writer compresses better
    than a worker: it is forwarded without them, and no worker ends.
    """
    deployment = deploy(partitions=1, topic_new=f"new-{uuid.uuid4().hex}")
    settings = deployment.settings
    letters = base64.b64encode(random.Random(10).randbytes(MESSAGE_BYTES_MAX * 7 // 8))
    larger = feeder_config(settings) | {"message.max.bytes": 4 * MESSAGE_BYTES_MAX}
    [(key, value)] = _good(1)
    feeder = Producer(larger)
    feeder.produce(settings.topic_documents, key=key, value=value, headers=[("h", letters)])
    assert feeder.flush(EVENTUALLY_S) == 0
    deployment.fed += 1
    worker = deployment.start("one")
    deployment.until_all_committed()
    deployment.until(  # it is logged after the commit
        lambda: any("forwarded without them" in line["event"] for line in worker.events()),
        "the worker says so",
    )
    [new] = deployment.read(str(settings.topic_new))
    assert (new.value, new.headers) == (value, ())


def test_row_10_nothing_but_poison(deploy: Deploy) -> None:
    """Batches of dead letters alone go the same way, and come again when delivered again."""
    deployment = deploy()
    workers = deployment.start_all("one", "two")
    deployment.feed([*itertools.repeat(POISON, 60), *_good(1)])
    report = deployment.finish()
    assert report.outcomes == {"dead-letter": 60, "new": 1}
    told = [
        line["code"]
        for worker in workers
        for line in worker.events()
        if line["event"] == "dead letter"
    ]
    assert told == ["invalid-field"]  # the first, not sixty: equal keys go to one worker
    _see_answers(deployment)


def _see_answers(deployment: Deployment) -> None:
    """
    Verdicts and dead letters are printed, as JSON Lines and as tables for a terminal of 100 columns.
    """
    names = ("bootstrap", "group", "topic_verdicts", "topic_dead_letter")
    environment = {env_name(name): getattr(deployment.settings, name) for name in names}

    def told(*arguments: str) -> list[str]:
        return run(*arguments, COLUMNS="100", **environment).stdout.splitlines()

    letters = [orjson.loads(line) for line in told("verdicts", "--only", "dead", "--json")]
    places = {(letter["source"]["partition"], letter["source"]["offset"]) for letter in letters}
    assert len(places) == 60 and {letter["source"]["topic"] for letter in letters} == {
        deployment.settings.topic_documents
    }
    assert {(letter["code"], letter["doc_id"]) for letter in letters} == {("invalid-field", "p")}
    assert {letter["text"].partition(",")[0] for letter in letters} == {"text must be a string"}
    (verdict,) = told("verdicts", "--json")
    assert orjson.loads(verdict)["verdict"] == "new"
    assert told("verdicts", "--only", "dead", "--doc-id", "q", "--json") == []
    for arguments, rows in ((("--only", "dead"), 61), ((), 2)):
        table = told("verdicts", *arguments)
        assert len(table) == rows and max(map(cell_len, table)) <= 100


def test_row_11_oversize_message(deploy: Deploy) -> None:
    """
    Too large to be judged, or to be copied: the dead letter points to the message, with its size
    and digest.
    """
    deployment = deploy(document_bytes_max=1_000_000)
    deployment.start_all("one")
    large, unreadable = _page(1, "x" * 1_500_000, "text"), (b"u", b"{" * 950_000)
    deployment.feed([*crawl(seed=11, count=20), large, unreadable, *crawl(seed=12, count=20)])
    deployment.finish()
    pointers = {letter.code: letter for letter in _dead_letters(deployment) if letter.is_pointer}
    assert set(pointers) == {"oversize", "invalid-json"}
    for code, (_, value) in (("oversize", large), ("invalid-json", unreadable)):
        pointer = orjson.loads(pointers[code].value or b"")
        assert pointer["value_bytes"] == len(value or b"")
        assert pointer["value_sha256"] == hashlib.sha256(value or b"").hexdigest()


def test_row_11_message_of_the_largest_size(lone: Deployment) -> None:
    """
    What the topic takes at most is judged like everything else, and published as it came where it
    is new.
    """
    room = 8 * 2**20 - 2_000
    # lz4 makes it no smaller.
    words = base64.b64encode(random.Random(11).randbytes(room // 4 * 3), b"  ").decode()
    producer = Producer(feeder_config(lone.settings))
    producer.produce(
        lone.settings.topic_documents,
        _page(1, words, "text")[1],
        headers=[("a", b"\0"), ("a", None)],
    )
    assert producer.flush(EVENTUALLY_S) == 0
    lone.fed += 1
    lone.feed(
        [_page(2, "the largest page of all " * (room // 24), "text"), *_good(10), (b"1", None)]
    )
    assert "dead-letter" not in lone.finish().outcomes


def test_row_21_hostile_pages(lone: Deployment) -> None:
    """
    Pages made to be slow to read, up to the largest size: answered like their neighbours, by a
    worker that lives.
    """
    hostile = ("<b>" * 1_000_000, "<div><p>x" * 500_000, "<" * 5_000_000, "&amp;" * 800_000, "<p a" + " a" * 2_000_000,
               "".join(f"<b a={n}>" for n in range(3_600)) + "<div>" * 500 + "</b>" * 3_600)  # fmt: skip
    lone.feed([*_good(30), *(_page(100 + i, page) for i, page in enumerate(hostile)), *_good(30)])
    assert "dead-letter" not in lone.finish().outcomes
    assert lone.processes[0].exit_code is None


# A smaller bomb than the client's 100 MB.
UNREADABLE = {"kafka": {"receive.message.max.bytes": "17000000"}}


def _bomb(deployment: Deployment, topic: str, messages: int) -> None:
    """
    Write one batch that has a few hundred bytes on the wire, and decompresses to more than the
    client takes.
    """
    producer = Producer(
        {"bootstrap.servers": deployment.settings.bootstrap, "compression.type": "zstd", "linger.ms": 200,
         "message.max.bytes": 100_000_000, "batch.size": 100_000_000}
    )  # fmt: skip
    for _ in range(messages):
        producer.produce(topic, bytes(20_000_000 // messages), partition=0)
    assert producer.flush(60) == 0


def test_row_26_documents_that_cannot_be_decompressed(deploy: Deploy) -> None:
    """
    Each offset of the batch is a pointer dead letter with the client's words, its neighbours are
    answered.
    """
    deployment = deploy(partitions=1, **UNREADABLE)
    deployment.feed(crawl(seed=26, count=30))
    _bomb(deployment, deployment.settings.topic_documents, 45)  # more than two batches of a worker
    deployment.fed += 45
    deployment.feed(crawl(seed=27, count=30))
    [worker] = deployment.start_all("one")
    deployment.finish()
    letters = [letter for letter in _dead_letters(deployment) if letter.code == "unreadable"]
    assert [letter.source_offset for letter in letters] == list(range(30, 75))
    for letter in letters:
        assert letter.is_pointer and letter.key is None and "_BAD_COMPRESSION" in letter.text
        DeadLetterPointer.model_validate_json(letter.value or b"")
    assert any(
        event.get("offset") == 30 for event in worker.events() if event["event"] == "kafka client"
    )


def test_row_26_log_that_cannot_be_decompressed(deploy: Deploy) -> None:
    """Nobody can follow the log past it: the worker ends with topic, offset and reason."""
    deployment = deploy(**UNREADABLE)
    _bomb(deployment, deployment.settings.topic_fingerprints, 1)
    worker = deployment.start("one")
    assert worker.wait() == 1
    log = worker.log_path.read_text()
    assert f"the log {deployment.settings.topic_fingerprints}[0] cannot be read at offset 0" in log
    assert "_BAD_COMPRESSION" in log


def test_row_27_documents_that_are_slow_to_judge(lone: Deployment) -> None:
    """
    A batch after batch of the slowest documents known: each is judged once, nothing is given up or
    read again.
    """
    slow = orjson.dumps({"url": "https://slow.example/", "fetched_at": "2024-05-01T12:00:00Z",
                         "content_type": "text/html", "charset": "windows-874",
                         "body_base64": base64.b64encode(b"\xff" * 5_000_000).decode()})  # fmt: skip
    lone.feed(itertools.chain.from_iterable(((b"slow", slow), page) for page in _good(6)))
    assert lone.finish().log_rows_repeated == 0
    assert lone.processes[0].exit_code is None
    assert not lone.processes[0].said("reading again")


def test_row_25_doc_ids_chosen_for_one_hash(lone: Deployment) -> None:
    """
    Thousands of them are judged as any others are: none is lost, given up or read again. (That each
    has a hash of its own is shown in `tests/log/test_texts.py`. The last: no oracle judges so many.)
    """
    lone.feed(_named(doc_ids_of_one_xxh64(5_000)))
    lone.until_all_committed()
    assert lone.processes[0].exit_code is None
    assert not lone.processes[0].said("reading again")


def _named(doc_ids: list[str]) -> Iterator[Message]:
    words = random.Random(25)
    for doc_id in doc_ids:
        yield message(doc_id, "http://flood.example/", text=" ".join(random_words(words, 40)))
