"""`neardup explain`: why a document got its verdict, from files and from the topics."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from tests.cli.test_dedup import lines
from tests.conftest import Kafka
from tests.report.made import copy, dead, former, verdict
from worker.cli import app
from worker.core.fingerprint import Fingerprinter
from worker.core.verdict import Changed, Outcome, Verdict
from worker.errors import StopError
from worker.report.answers import Answer, explain
from worker.settings import Settings, env_name
from worker.shell.admin.watch import message_at
from worker.shell.kafka import Admin
from worker.shell.messages import DeadLetter, encode_verdict

TEXT = (
    "The old bridge over the river was built by two brothers in the spring of that year, and nobody in the town has "
    "forgotten how they carried the stones of it from the hills when the water had risen above the road to the mill."
)
EDITED = TEXT.replace("two brothers", "three sisters")
OTHER = "The ferry of the harbour is late again because the wind has turned, and the master of it says so to all of us."
TEXTS = {"a": TEXT, "b": EDITED, "c": OTHER}


def documents() -> list[dict[str, str]]:
    """An original, its edited copy, and something else."""
    return [
        {"doc_id": name, "url": f"https://{name}.example/", "fetched_at": "2026-01-02T03:04:05Z", "text": text}
        for name, text in TEXTS.items()
    ]


@pytest.fixture
def judged(tmp_path: Path) -> list[str]:
    """The verdicts' file and, as an option, the documents'."""
    crawl, verdicts = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    crawl.write_text(lines(*documents()))
    assert CliRunner().invoke(app, ["dedup", str(crawl), "--output", str(verdicts)]).exit_code == 0
    return [str(verdicts), "--documents", str(crawl)]


def test_a_duplicate_is_explained_with_its_original(judged: list[str]) -> None:
    """Bars, bits, doubts, look-ups, shingles and the diff; without the documents what the verdicts know."""
    result = CliRunner().invoke(app, ["explain", "b", *judged])
    assert result.exit_code == 0, result.output
    distance = (Fingerprinter().one(TEXT) ^ Fingerprinter().one(EDITED)).bit_count()
    assert f"{distance} of 64 bits differ (at most 15). Similarity 0." in result.output
    assert sum(line.count("x") for line in result.output.splitlines() if line.startswith("differ")) == distance
    assert "lead from B to A: block" in result.output and result.output.count("\ndoubts ") >= 2
    assert "[-two brothers-] {+three sisters+}" in result.output
    assert "original  a, captured 2026-01-02T03:04:05.000Z" in " ".join(result.output.split(" ")).replace(
        "        ", "  "
    )
    without = CliRunner().invoke(app, ["explain", "https://b.example/", judged[0]])
    assert "differ " in without.output and "--documents shows doubts" in without.output


def test_a_new_document_is_explained_with_its_nearest(judged: list[str]) -> None:
    """And the first of all has none before it."""
    found = json.loads(CliRunner().invoke(app, ["explain", "c", *judged, "--json"]).stdout)
    assert found["other"]["doc_id"] == "a" and found["originals"] == 1
    assert found["why"].startswith("Nothing before it is near enough (directed, distance 15")
    assert found["comparison"]["distance"] == (Fingerprinter().one(OTHER) ^ Fingerprinter().one(TEXT)).bit_count()
    assert "No original was before it." in CliRunner().invoke(app, ["explain", "a", *judged]).output


def test_what_is_not_there_is_said(judged: list[str], tmp_path: Path) -> None:
    """No such document; stdin, which cannot be read twice; texts that are not those of the verdicts."""
    result = CliRunner().invoke(app, ["explain", "z", *judged])
    assert isinstance(result.exception, StopError) and "no verdict on 'z'" in str(result.exception)
    assert CliRunner().invoke(app, ["explain", "z", "-"]).exit_code == 2
    changed = tmp_path / "changed.jsonl"
    changed.write_text(lines(*({**one, "text": one["text"] + " And that is all."} for one in documents())))
    result = CliRunner().invoke(app, ["explain", "b", judged[0], "--documents", str(changed)])
    assert "other fingerprints" in result.output


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            verdict(1, outcome=Outcome.SKIPPED, reason="empty-text", fingerprint=None),
            "nothing in it to compare: empty-text",
        ),
        (verdict(1, outcome=Outcome.DELETED, reason="removed", fingerprint=None, url=None), "A null value came"),
        (verdict(1, reason="redelivered"), "the original that it was"),
        (dead("no-body", "needs a \x1b[31mbody", b"d1"), "could not be judged: needs a �[31mbody"),
        (copy(1, 0, 0, 1.0), "the same tokens in the same order"),
        (verdict(1, former_version=former(0, Changed.MUCH)), "changed: much"),
    ],
)
def test_every_answer_has_its_reason(tmp_path: Path, answer: Verdict | DeadLetter, said: str) -> None:
    """In a sentence; control characters do not reach the terminal."""
    file = tmp_path / "v.jsonl"
    file.write_bytes(answer.line() if isinstance(answer, DeadLetter) else encode_verdict(answer)[1])
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["explain", "d1", str(file)])
    assert result.exit_code == 0, result.output
    assert said in result.output and "\x1b" not in result.output


def test_only_what_was_before_counts() -> None:
    """A later original, one of other parameters and a former version of the document are not its nearest."""
    made = [
        verdict(1, fingerprint=0b1111, log_offset=5),
        verdict(2, fingerprint=0, log_offset=9),
        verdict(3, fingerprint=0, log_offset=4, parameters="1" * 16),
        verdict(4, fingerprint=0, log_offset=3, doc_id="d7"),
        verdict(6, fingerprint=0b11111, log_offset=6, source_offset=6),
        verdict(5, fingerprint=0b11, log_offset=6, source_offset=8),
        verdict(7, fingerprint=0, log_offset=6, source_offset=7),
    ]
    found = explain(lambda: [Answer(b"", one) for one in made], "d7")
    assert (len(found.answers), found.other, found.originals) == (2, made[0], 2)


@pytest.mark.kafka
def test_a_document_of_the_topics_is_explained(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """Verdicts and texts come from Kafka; what retention has taken is not waited for."""
    names: dict[str, Any] = {
        name: f"{name}-{uuid.uuid4().hex}" for name in ("topic_documents", "topic_verdicts", "topic_dead_letter")
    }
    for name, value in {**names, "bootstrap": kafka.bootstrap}.items():
        monkeypatch.setenv(env_name(name), value)
    settings = Settings(bootstrap=kafka.bootstrap, **names)
    admin = Admin(settings, 30)
    for topic in names.values():
        admin.create(topic, 1, 1, {})
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for document in documents():
        producer.produce(names["topic_documents"], json.dumps(document))
    prints = {name: Fingerprinter().one(text) for name, text in TEXTS.items()}
    parameters = Settings().parameters.hash
    here: dict[str, Any] = {"source_topic": names["topic_documents"], "parameters": parameters}
    answers = [
        verdict(0, doc_id="a", fingerprint=prints["a"], **here),
        copy(1, 0, 3, doc_id="b", original_id="a", fingerprint=prints["b"], **here),
    ]
    for answer in answers:
        producer.produce(names["topic_verdicts"], encode_verdict(answer)[1], partition=0)
    assert producer.flush(30) == 0
    result = CliRunner().invoke(app, ["explain", "b"])
    assert result.exit_code == 0, (result.output, result.exception)
    assert "[-two brothers-] {+three sisters+}" in result.output
    message = message_at(settings, names["topic_documents"], 0, 1)
    assert message is not None and message.offset == 1
    assert message_at(settings, names["topic_documents"], 0, 7) is None
