"""Commands on a group of workers: which part of a topic they print, what they claim, and where there is no cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.cli.program import run
from tests.cli.test_options_used import ON_A_CLUSTER
from tests.conftest import Kafka
from tests.report.made import copy, verdict
from tests.shell.test_topics import deployment
from worker.cli import options as cluster
from worker.cli.group import conclusion
from worker.errors import StopError
from worker.settings import Settings, env_name
from worker.shell.admin.audit import Report
from worker.shell.admin.watch import time_ms
from worker.shell.kafka.admin import Admin, create_topics
from worker.shell.messages import encode_verdict

NOBODY = "127.0.0.1:1"


@pytest.mark.parametrize("command", [*ON_A_CLUSTER, "rebuild", "demo"])
def test_a_command_does_not_wait_long_and_says_so_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Three seconds, here a quarter of one, in which a terminal shows whom it asks."""
    monkeypatch.setattr(cluster, "WAIT_S", 0.25)
    monkeypatch.setenv("NEARDUP_BOOTSTRAP", NOBODY)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "in.jsonl").write_text("{}\n")
    given = {"demo": ["--documents", "10"]}.get(command) or ON_A_CLUSTER.get(command, [])
    files = {"file": tmp_path / "in.jsonl", "page": tmp_path / "page", "topic": "t"}
    result = run(*command.split(), *(argument.format(**files) for argument in given), code=1)
    assert isinstance(result.exception, StopError)
    assert f"no answer from {NOBODY} in 0.25 s (" in str(result.exception)
    assert "refused" in str(result.exception) and "). Start a broker" in str(result.exception)
    assert f"asking {NOBODY}" in result.stderr


@pytest.fixture
def between_ms(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Three verdicts on a topic, and a time after the second and before the third."""
    topic = f"verdicts-{uuid.uuid4().hex}"
    monkeypatch.setenv(env_name("bootstrap"), kafka.bootstrap)
    monkeypatch.setenv(env_name("topic_verdicts"), topic)
    Admin(Settings(bootstrap=kafka.bootstrap), 30).create(topic, 2, 1, {})
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    now_ms = time.time_ns() // 1_000_000
    for at_ms, partition, answer in (
        (now_ms - 7_200_000, 0, verdict(1)),
        (now_ms - 7_100_000, 1, copy(2, 1)),
        (now_ms - 60_000, 0, copy(3, 1)),
    ):
        producer.produce(topic, encode_verdict(answer)[1], partition=partition, timestamp=at_ms)
    assert producer.flush(30) == 0
    yield now_ms - 3_600_000


def printed(*arguments: str) -> set[str]:
    """The doc_ids that are printed."""
    return {line.split('"')[3] for line in run("verdicts", "--format", "jsonl", *arguments).stdout.splitlines()}


def test_a_part_of_the_verdicts_can_be_asked_for(between_ms: int) -> None:
    """One document, by doc_id or URL; what came since; so many."""
    assert printed() == {"d1", "d2", "d3"}
    assert printed("--doc-id", "d2") == {"d2"}
    assert printed("--doc-id", "https://host0.example/3") == {"d3"}
    assert printed("--since", "1h") == {"d3"}
    assert printed("--since", "3h", "--only", "duplicate") == {"d2", "d3"}
    assert printed("--since", "1s") == set()
    assert len(printed("--limit", "2")) == 2


def test_ctrl_c_ends_who_follows_as_any_command(kafka: Kafka) -> None:
    """In a line, with the exit code of what was interrupted."""
    settings, admin = deployment(kafka, partitions=1)
    create_topics(admin, settings)
    names = {env_name(name): value for name, value in settings if name.startswith("topic_") and value}
    with subprocess.Popen(
        [sys.executable, "-m", "worker", "verdicts", "--follow", "--bootstrap", kafka.bootstrap],
        env=os.environ | names, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None and process.stdout.readline()
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1]
    assert (process.returncode, said) == (130, "neardup: interrupted\n"), said


@pytest.mark.parametrize("text", ["yesterday", "2h ago", "", "1w", "-5m"])
def test_what_is_no_time_is_named(text: str) -> None:
    """With both forms that there are."""
    with pytest.raises(StopError, match=r"2026-01-31T12:00:00Z, or 90s, 15m"):
        time_ms(text)


@pytest.mark.parametrize(
    ("unanswered", "lost", "said"),
    [
        (0, 0, "every document is answered once, as the log says"),
        (7, 0, "what is answered is answered once, as the log says; 7 documents wait for a worker"),
        (7, 1, "NOT CLEAN"),
    ],
)
def test_the_last_line_of_verify_claims_no_more_than_there_is(unanswered: int, lost: int, said: str) -> None:
    """What only waits is no defect, and not answered either."""
    assert conclusion(Report(9, 9 - unanswered, {}, unanswered, 0, {"lost": lost}, (), 1, 9, 0)) == said
