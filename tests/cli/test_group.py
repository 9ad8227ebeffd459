"""Commands on a group of workers: which part of a topic they print, what they claim, and where there is no cluster."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.cli.program import run
from tests.cli.test_options import ON_A_CLUSTER
from tests.faults import cluster
from tests.report.made import copy, verdict
from worker.cli import options
from worker.cli.group import conclusion
from worker.errors import StopError
from worker.settings import Settings
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
    monkeypatch.setattr(options, "WAIT_S", 0.25)
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


def printed(*arguments: str) -> set[str]:
    """The doc_ids that are printed."""
    return {line.split('"')[3] for line in run("verdicts", "--format", "jsonl", *arguments).stdout.splitlines()}


def test_a_part_of_the_verdicts_can_be_asked_for(commands_settings: Settings) -> None:
    """One document, by doc_id or URL; what came since; so many."""
    bootstrap, topic = commands_settings.bootstrap, commands_settings.topic_verdicts
    Admin(commands_settings, 30).create(topic, 2, 1, {})
    now_ms = time.time_ns() // 1_000_000
    for partition, ago_s, answer in ((0, 7_200, verdict(1)), (1, 7_100, copy(2, 1)), (0, 60, copy(3, 1))):
        cluster.append(bootstrap, topic, [encode_verdict(answer)[1]], now_ms - ago_s * 1_000, partition)
    assert printed() == {"d1", "d2", "d3"}
    assert printed("--doc-id", "d2") == {"d2"}
    assert printed("--doc-id", "https://host0.example/3") == {"d3"}
    assert printed("--since", "1h") == {"d3"}
    assert printed("--since", "3h", "--only", "duplicate") == {"d2", "d3"}
    assert printed("--since", "1s") == set()
    assert len(printed("--limit", "2")) == 2


def test_ctrl_c_ends_who_follows_as_any_command(commands_settings: Settings) -> None:
    """In a line, with the exit code of what was interrupted."""
    create_topics(Admin(commands_settings, 30), commands_settings)
    command = [sys.executable, "-m", "worker", "verdicts", "--follow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
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
