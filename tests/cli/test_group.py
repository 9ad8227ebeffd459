"""
Commands on a group of workers: which part of a topic they print, what they claim, no cluster;
`top`.
"""

from __future__ import annotations

import io
import os
import signal
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
import structlog
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text
from structlog.testing import capture_logs

from schemas.fields import parse_timestamp
from tests.cli.program import misused, refused, run
from tests.cli.test_options import ON_A_CLUSTER
from tests.conftest import Kafka, deployed, deployment, eventually, free_ports, served
from tests.faults import cluster
from tests.report.made import copy, verdict
from worker.cli import options
from worker.cli.group import _print, _stop_on_signals, conclusion
from worker.cli.top import frame
from worker.devkit.demo import workers_running
from worker.devkit.sample.crawl import write_sample_crawl
from worker.errors import DocumentError, StopError
from worker.settings import Settings
from worker.shell.admin import watch as watching
from worker.shell.admin.address import WorkerAddress
from worker.shell.admin.audit import Report
from worker.shell.admin.verify import verify
from worker.shell.admin.watch import (
    GroupWatch,
    PartitionSample,
    Sample,
    WorkerStatus,
    rate,
    status_of,
    watch,
)
from worker.shell.files.archives import Record
from worker.shell.files.crawl import CrawlFiles
from worker.shell.kafka.admin import Admin, Member
from worker.shell.kafka.feeding import feed_documents
from worker.shell.kafka.topics import create_topics
from worker.shell.messages import encode_dead_letter, encode_verdict
from worker.shell.ports import InputMessage
from worker.shell.times import time_ms

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


class _AnotherServer(socketserver.BaseRequestHandler):
    """Answers as a web server does."""

    def handle(self) -> None:
        self.request.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def test_a_port_of_another_server_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Kafka client's own advice is to raise a limit."""
    monkeypatch.setattr(options, "WAIT_S", 1.0)
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _AnotherServer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{server.server_address[1]}"
        said = str(run("topics", "check", "--bootstrap", address, code=1).exception)
        server.shutdown()
    assert f"({address}/bootstrap does not speak Kafka's protocol: check the port, and " in said


def printed(*arguments: str) -> set[str]:
    return {
        line.split('"')[3] for line in run("verdicts", "--json", *arguments).stdout.splitlines()
    }


def test_a_wrong_time_is_told_with_its_option() -> None:
    """Before a broker is asked for."""
    said = misused("verdicts", "--since", "soon", "--bootstrap", "127.0.0.1:1")
    assert "Invalid value for '--since': a time is like 2026-01-31T12:00:00Z" in said


def test_a_part_of_the_verdicts_can_be_asked_for(commands_settings: Settings) -> None:
    """By doc_id or URL, by time, by outcome, or the first few."""
    bootstrap, topic = commands_settings.bootstrap, commands_settings.topic_verdicts
    missing = run("verdicts", code=1)
    assert "does not exist" in str(missing.exception) and missing.stdout == ""
    Admin(commands_settings, 30).create(topic, 2, 1, {})
    now_ms = time.time_ns() // 1_000_000
    for partition, ago_s, answer in (
        (0, 7_200, verdict(1)),
        (1, 7_100, copy(2, 1)),
        (0, 60, copy(3, 1)),
    ):
        cluster.append(
            bootstrap, topic, [encode_verdict(answer)[1]], now_ms - ago_s * 1_000, partition
        )
    assert printed() == {"d1", "d2", "d3"}
    assert printed("--doc-id", "d2") == {"d2"}
    assert printed("--doc-id", "https://host0.example/3") == {"d3"}
    assert printed("--since", "1h") == {"d3"}
    assert printed("--since", "3h", "--only", "duplicate") == {"d2", "d3"}
    assert printed("--since", "1s") == set()
    said = run("verdicts", "--json", "--doc-id", "d9")
    assert (said.stdout, said.stderr) == ("", f"there is no such verdict in {topic}\n")
    assert len(printed("--limit", "2")) == 2


@pytest.mark.parametrize("quiet", [(), ("--quiet",)])
def test_that_nothing_was_fed_is_said(
    commands_settings: Settings, tmp_path: Path, quiet: tuple[str, ...]
) -> None:
    """Also with --quiet: exit code 1 has a reason."""
    Admin(commands_settings, 30).create(commands_settings.topic_documents, 2, 1, {})
    (tmp_path / "empty.jsonl").touch()
    assert "nothing was fed" in refused("feed", tmp_path / "empty.jsonl", *quiet)


def test_documents_without_a_body_are_told_when_they_are_fed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are sent, since each has its dead letter; another name for the text is said once."""

    def count(_: Settings, records: Iterable[Record], __: float) -> SimpleNamespace:
        return SimpleNamespace(delivered=len(list(records)), failures=0, failed=())

    monkeypatch.setattr("worker.shell.kafka.feeding.feed_documents", count)
    monkeypatch.setattr(
        "worker.shell.kafka.admin.Admin", lambda *_: SimpleNamespace(cluster_id=str)
    )
    path = tmp_path / "a.jsonl"
    path.write_text('{"content": "a text"}\n{"text": "a text"}\n{"text": ""}\n{"content": "b"}\n')
    result = run("feed", path, "--bootstrap", NOBODY)
    said = " ".join(result.stderr.split())
    assert "4 delivered" in said
    assert "without text, html or body_base64, so that they become dead letters: 2, first" in said
    assert "a.jsonl, line 1. --text-column names" in said


@pytest.mark.parametrize("columns", [80, 120])
def test_a_doc_id_can_be_copied_from_the_verdicts(
    commands_settings: Settings, columns: int
) -> None:
    """In a narrow terminal its beginning is shown, and `explain` takes that. No row is too wide."""
    create_topics(Admin(commands_settings, 30), commands_settings)
    answers = [verdict(n, doc_id=f"{n}6a36544a52545e9492899893fb3937{n}") for n in (1, 2)]
    cluster.append(
        commands_settings.bootstrap,
        commands_settings.topic_verdicts,
        [encode_verdict(answer)[1] for answer in answers],
    )
    head, *rows = run("verdicts", COLUMNS=str(columns)).stdout.splitlines()
    assert head.split()[:3] == ["verdict", "bits", "doc_id"]
    assert all(cell_len(row) <= columns for row in rows)
    shown = sorted(row.split()[1] for row in rows)
    is_whole = columns == 120
    assert shown[0] == (answers[0].doc_id if is_whole else "16a36544a52…")
    assert answers[0].doc_id in run("explain", shown[0]).stdout


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_a_signal_ends_who_follows_as_any_command(
    commands_settings: Settings, number: signal.Signals, code: int, word: str
) -> None:
    """In a line, with the exit code of the signal."""
    create_topics(Admin(commands_settings, 30), commands_settings)
    command = [sys.executable, "-m", "worker", "verdicts", "--follow"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline()
        process.send_signal(number)
        said = process.communicate(timeout=60)[1]
    assert (process.returncode, said) == (code, f"neardup: {word}\n"), said


@pytest.mark.parametrize("text", ["yesterday", "2h ago", "", "1y", "-5m", "1M"])
def test_what_is_no_time_is_named(text: str) -> None:
    """With both forms that there are."""
    with pytest.raises(StopError, match=r"2026-01-31T12:00:00Z, or 90s, 15m"):
        time_ms(text)


@pytest.mark.parametrize(
    ("unanswered", "lost", "said"),
    [
        (0, 0, "every document is answered once, as the log says"),
        (7, 0, "every answer is there once, as the log says; 7 documents wait for a worker"),
        (7, 1, "NOT CLEAN"),
    ],
)
def test_the_last_line_of_verify_claims_no_more_than_there_is(
    unanswered: int, lost: int, said: str
) -> None:
    """What only waits is no defect, and not answered either."""
    assert (
        conclusion(Report(9, 9 - unanswered, {}, unanswered, 0, {"lost": lost}, (), 1, 9, 0))
        == said
    )


def test_offsets_that_no_worker_has_committed_are_never_clean() -> None:
    """Workers refuse them, so no document waits for a worker, and none is known to be answered."""
    report = Report(9, 2, {}, 7, 0, {"lost": 0}, (), 1, 9, 0, foreign_offsets={1: 4})
    assert conclusion(report).startswith("NOT CLEAN: offsets that no worker has committed")
    assert not report.clean and not report.to_dict()["clean"]


STATUS = {
    "worker_id": "w1",
    "last_minute": {"documents_per_s": 410.25, "latency_ms": 35.0},
    "stages_ms": {"prepare": 1.0, "append": 2.5, "answer": None, "publish": 8.0},
    "originals": 12_345,
    "log": {"offset": 930, "lag": 0},
}


def sample(
    at_s: float = 0.0, answered: int = 0, *statuses: WorkerStatus, partitions: int = 2
) -> Sample:
    """A group of two workers; the second one owns the first partition, the first one the others."""
    members = [
        Member("m1", "w1", "10.0.0.1", tuple(range(1, partitions))),
        Member("m2", "w2\x1b[31m[/]", "10.0.0.2", (0,)),
    ]
    offsets = {number: PartitionSample(1_000 + number, answered) for number in range(partitions)}
    return Sample(
        at_s, "stable", members, offsets, 940, list(statuses), [copy(1, 0, 5), copy(2, 0, 0)]
    )


def text(before: Sample, now: Sample, width: int = 160) -> str:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False).print(
        frame(before, now, "g", "host:9092", width)
    )
    return out.getvalue()


def rows(name: str, shown: str) -> list[list[str]]:
    """The cells of the rows by their first one."""
    return [line.split() for line in shown.splitlines() if line.startswith(name)]


def test_a_frame_shows_workers_lag_rates_and_duplicates() -> None:
    """
    Of each worker what its offsets say; of one whose address is given its own figures. All of it in
    80 columns.
    """
    shown = text(sample(), sample(2.0, 500, WorkerStatus("10.0.0.1:9100", STATUS)), 80)
    assert "group g at host:9092: stable" in shown
    assert "waiting 1,001   fed 0/s   answered 500/s   log 940 records" in shown
    assert rows("w1", shown) == [
        ["w1", "10.0.0.1", "1", "501", "250"],
        ["w1", "410", "35.0", "1.0", "2.5", "–", "8.0", "12,345", "930"],
    ]
    assert [cells[1:] for cells in rows("w2", shown)] == [["10.0.0.2", "1", "500", "250"]]
    assert "--worker" not in shown and "--worker HOST:PORT" in text(sample(), sample(2.0))
    assert "\x1b" not in shown
    # The latest first.
    assert shown.index("https://host2.example/2") < shown.index("https://host1.example/1")
    assert rows("same", shown)[0][-1] == "https://host0.example/0"


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    """Whatever it shows."""
    shown = text(
        sample(partitions=40), sample(1.0, 3, WorkerStatus("a", STATUS), partitions=40), width
    )
    assert max(map(len, shown.splitlines())) <= width
    assert "32 others" in shown


def test_a_member_that_is_no_worker_is_named() -> None:
    """By its client id, host and member id, with what it has of the documents and of others."""
    now = sample()
    thief = Member("rdkafka-77", "rdkafka", "10.0.0.9", (7,), ("verdicts[0]",), is_static=False)
    shown = text(now, now._replace(members=[*now.members, thief]))
    assert (
        "rdkafka at 10.0.0.9 (rdkafka-77) is no worker, and has partitions 7 of the documents: give "
        "it another group.id (it reads verdicts[0])"
    ) in " ".join(shown.split())
    assert "no worker" not in text(now, now)


def test_what_is_not_known_is_a_dash() -> None:
    """
    No members, no coordinator, a worker that is no member, one that does not answer, strange
    answers.
    """
    nothing = Sample(0.0, "", [], {}, 0, [], [])
    assert "partition 3 at offset 20:" in text(nothing, nothing._replace(held_up={3: 20}))
    foreign = text(nothing, nothing._replace(foreign_offsets={1: 2_000}))
    assert "no worker has committed the group's offsets 2,000 of partition 1 with" in foreign
    assert "its coordinator does not answer" in text(nothing, nothing)
    strange = {
        "worker_id": "w9",
        "last_minute": 3,
        "log": None,
        "stages_ms": [],
        "last_error": "disk \x07 full",
    }
    now = nothing._replace(
        statuses=[WorkerStatus("a:1", strange), WorkerStatus("b:2", {}, "refused")]
    )
    shown = text(nothing, now)
    assert (
        rows("w9", shown)[0][1:3] == ["no", "member"]
        and "disk � full" in shown
        and "b:2: refused" in shown
    )
    assert rate(nothing, nothing, lambda sample: sample.lag) is None


def test_the_last_problem_is_a_sentence_with_its_age() -> None:
    """
    The event, why, the details, the remedy; red for a minute, then dim: the worker may be well
    again.
    """
    line = {
        "event": "dead letter",
        "code": "invalid-json",
        "offset": 7,
        "fatal": False,
        "remedy": "see `neardup verdicts --only dead`",
        "level": "warning",
        "timestamp": "2026-01-31T12:00:00.000Z",
    }
    status = WorkerStatus("a:1", {"worker_id": "w1", "last_error": line})
    noon_ms = parse_timestamp("2026-01-31T12:00:00Z")
    sentence = "dead letter (code=invalid-json, offset=7). see `neardup verdicts --only dead`"
    for age_s, said in ((-5, "0 s ago"), (59, "59 s ago"), (200, "3 min ago")):
        now = sample(1.0, 0, status)._replace(unix_ms=noon_ms + age_s * 1_000)
        assert f"w1, {said}: {sentence}\n" in text(sample(), now)
        [part] = [
            part
            for part in frame(sample(), now, "g", "host:9092", 160).renderables
            if isinstance(part, Text) and sentence in part.plain
        ]
        assert part.style == ("dim" if age_s > 60 else "red")


def test_at_80_columns_two_urls_show_where_they_differ() -> None:
    """
    Pages of one site that begin alike for longer than the column is wide, in a script of wide
    characters too.
    """
    begin = "https://news.example.org/2026/01/31/politics/the-whole-story-of"
    names = [("-one?page=1", "-one?page=2"), ("/七/八", "/七/九"), ("", "-two"), ("", "")]
    for end, other in names:
        match = copy(1, 0, 5)
        assert match.duplicate_of is not None
        original = match.duplicate_of.original._replace(url=begin + other)
        of = match.duplicate_of._replace(original=original)
        pair = match._replace(url=begin + end, duplicate_of=of)
        shown = text(sample(), sample(1.0)._replace(duplicates=[pair]), 80)
        _, url, original_url = rows("   5", shown)[0]
        assert url != original_url or end == other
        assert max(map(cell_len, shown.splitlines())) <= 80


@pytest.mark.parametrize(
    ("body", "error"),
    [("<html>", "not as a worker"), ("[]", "no worker"), ('{"worker_id": 3}', "no worker")],
)
def test_whatever_answers_at_an_address_is_no_error(tmp_path: Path, body: str, error: str) -> None:
    """A proxy, another program; and nobody at all."""
    status = tmp_path / "status"
    with served(tmp_path) as url:
        address = WorkerAddress.of(url)
        status.write_text(body)
        assert error in status_of(address).error
        status.write_text('{"worker_id": "w1"}')
        assert status_of(address) == WorkerStatus(url, {"worker_id": "w1"}, "")
    assert "refused" in status_of(address).error.lower()
    assert "as a worker does" not in status_of(WorkerAddress.of("a..b:1")).error


def test_an_address_with_a_password_is_not_shown() -> None:
    """Whatever else is wrong with it."""
    for given in ("https://me:s3cret@w.example", "https://me:s3cret@w.example:94x"):
        with pytest.raises(StopError, match="without user") as refusal:
            WorkerAddress.of(given)
        assert "s3cret" not in str(refusal.value)


@pytest.mark.slow
def test_a_running_group_is_seen(commands_settings: Settings, tmp_path: Path) -> None:
    """Its worker by Kafka and by /status, everything answered, the last duplicates; as text."""
    [port] = free_ports()
    settings = commands_settings.model_copy(
        update={"metrics_port": port, "partitions": 3, "threads": 1}
    )
    create_topics(Admin(settings, 30), settings)
    write_sample_crawl(tmp_path / "crawl.warc.gz", 100, 5)
    feed_documents(settings, CrawlFiles([str(tmp_path / "crawl.warc.gz")]))
    with (
        workers_running(settings, ["w1"], tmp_path),
        GroupWatch(settings, [f"127.0.0.1:{port}"]) as watch,
    ):
        deadline = time.monotonic() + 300
        while (
            (found := watch.sample()).lag or len(found.duplicates) < 10 or not found.members
        ):  # 10 are kept
            assert time.monotonic() < deadline, found
            time.sleep(0.5)
        given = ("--interval", "0.2", "--worker", f"127.0.0.1:{port}", "--worker", "127.0.0.1:1")
        shown = run("top", "--once", *given, COLUMNS="160").output
    assert (
        f"group {settings.group} at {settings.bootstrap}: stable" in shown and "waiting 0" in shown
    )
    kafkas, own = rows("w1", shown)
    assert kafkas[2:4] == ["3", "0"] and int(own[-2]) > 10 and int(own[-1]) > 0
    assert not found.foreign_offsets and "no worker" not in shown
    assert len({one.doc_id for one in found.duplicates}) == len(found.duplicates) > 1
    assert shown.count("http://") == 2 * len(found.duplicates) and "127.0.0.1:1: " in shown


@pytest.mark.kafka
def test_a_dry_run_without_mend_is_refused(commands_settings: Settings) -> None:
    """Whoever forgets --mend is told so: `verify` alone never writes."""
    assert "goes with --mend" in run("verify", "--dry-run", code=2).output


@pytest.mark.kafka
@pytest.mark.parametrize("is_dead", [False, True])
def test_messages_that_are_no_answers_are_passed_over(kafka: Kafka, is_dead: bool) -> None:
    """Any program may write to the topic; what it has written hides no answer behind it."""
    settings = deployed(kafka)
    name = settings.topic_dead_letter if is_dead else settings.topic_verdicts
    headers: list[tuple[str, str | bytes | None]] = []
    key: bytes | None
    value: bytes | None
    key, value = encode_verdict(verdict(1))
    if is_dead:
        error = DocumentError("code", "text")
        key, value, fields = encode_dead_letter("d", InputMessage(0, 3, b"k", b"v"), error)
        headers += fields
    producer = Producer({"bootstrap.servers": settings.bootstrap})
    for wrong in (None, b"a line", b"{}"):
        producer.produce(name, key=key, value=wrong, partition=0)
        producer.produce(name, key=key, value=value, headers=headers, partition=0)
    assert not producer.flush(60)
    with capture_logs() as said:
        found = [one for one in watch(settings, [name], follow=False) if one is not None]
    assert [one.value for one in found] == [value] * 3
    first, last = said  # one line at once, and how many there were at the end
    assert (first["topic"], first["offset"]) == (name, 0)
    assert (last["topic"], last["messages"]) == (name, 3)
    assert "have it write elsewhere" in first["remedy"] and first["remedy"] == last["remedy"]


@pytest.mark.kafka
def test_a_follower_reads_partitions_that_have_come_since(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From their beginning: answers whose key leads there would be missing without a word."""
    monkeypatch.setattr(watching, "_LOOK_S", 0.2)
    settings = deployed(kafka)
    name = settings.topic_verdicts
    answers = watch(settings, [name], follow=True)
    assert next(answers) is None
    first = Admin(settings).existing([name])[name].partitions
    client = AdminClient({"bootstrap.servers": settings.bootstrap})
    client.create_partitions([NewPartitions(name, first + 1)])[name].result(60)
    key, value = encode_verdict(verdict(1))
    producer = Producer({"bootstrap.servers": settings.bootstrap})

    def produced() -> bool:
        producer.produce(name, key=key, value=value, partition=first)
        return not producer.flush(5)

    eventually(produced)
    found = next(one for one in answers if one is not None)
    assert found.value == value


@pytest.mark.kafka
def test_a_running_watch_sees_partitions_that_have_come_since(kafka: Kafka) -> None:
    """The documents that wait there count, and the duplicates that are found there are shown."""
    settings = deployed(kafka)
    names = settings.topic_documents, settings.topic_verdicts
    client = AdminClient({"bootstrap.servers": settings.bootstrap})
    producer = Producer({"bootstrap.servers": settings.bootstrap})
    with GroupWatch(settings) as watch:
        first = len(watch.sample().partitions)
        for made in client.create_partitions([NewPartitions(name, 9) for name in names]).values():
            made.result(60)
        eventually(lambda: len(watch.sample().partitions) == 9 > first)
        assert watch.sample().lag == 0
        _, answer = encode_verdict(copy(2, 1))
        for name, value in zip(names, (b"{}", answer), strict=True):
            producer.produce(name, value=value, partition=8)
        assert not producer.flush(60)
        eventually(lambda: watch.sample().lag == 1)
        eventually(lambda: len(watch.sample().duplicates) == 1)


@pytest.mark.kafka
def test_a_topic_that_is_created_again_is_not_followed_from_its_middle(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader stands at an offset of the old one, and would leave out what comes before."""
    monkeypatch.setattr(watching, "_LOOK_S", 0.0)
    settings = deployed(kafka, partitions=1)
    admin = Admin(settings, 30)

    def publish(count: int) -> None:
        producer = Producer({"bootstrap.servers": settings.bootstrap})
        for number in range(count):
            value = encode_verdict(copy(number, 1))[1]
            producer.produce(settings.topic_verdicts, value=value, partition=0)
        assert not producer.flush(60)

    publish(3)
    answers = watch(settings, [settings.topic_verdicts], follow=True)
    while next(answers) is not None:
        pass
    admin.delete(settings.topic_verdicts)
    eventually(lambda: not admin.describe([settings.topic_verdicts]))
    create_topics(admin, settings)
    publish(9)
    with pytest.raises(StopError, match="was deleted and created again while it was read"):
        list(answers)


@pytest.mark.kafka
def test_documents_of_a_topic_that_is_created_again_are_not_said_to_be_fed(kafka: Kafka) -> None:
    """Those that were delivered before are gone with the former topic."""
    settings = deployed(kafka, partitions=1)
    admin = Admin(settings, 30)
    name = settings.topic_documents

    def records() -> Iterator[Record]:
        for number in range(2):
            yield Record("", number, None, b"{}")
            if number == 0:
                eventually(lambda: admin.ends({name: 1})[name, 0][1] == 1)
                admin.delete(name)
                eventually(lambda: not admin.describe([name]))
                create_topics(admin, settings)

    with pytest.raises(StopError, match=f"topic {name} was deleted while documents were fed"):
        feed_documents(settings, records())


@pytest.mark.kafka
def test_offsets_that_no_worker_has_committed_are_told(
    kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing seems to wait then, or all to be lost; and no worker goes on there."""
    settings = deployed(kafka, partitions=2)
    producer = Producer({"bootstrap.servers": settings.bootstrap})
    producer.produce(settings.topic_documents, value=b"{}", partition=1)
    assert not producer.flush(60)
    tool = Consumer({"bootstrap.servers": settings.bootstrap, "group.id": settings.group})
    with GroupWatch(settings) as group, closing(tool):
        eventually(lambda: group.sample().lag == 1)
        assert group.sample().foreign_offsets == {}
        tool.commit(offsets=[TopicPartition(settings.topic_documents, 1, 1)], asynchronous=False)
        eventually(lambda: group.sample().foreign_offsets == {1: 1})
    report = verify(settings)
    assert report.foreign_offsets == {1: 1} and report.to_dict()["foreign_offsets"] == {"1": 1}
    _print(report)
    assert "no worker has committed the group's offsets 1 of partition 1" in capsys.readouterr().out


@pytest.mark.kafka
def test_the_newest_duplicates_are_shown_of_more_than_a_sample_can_take(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those before them are stepped over, and none that was read before is shown twice."""
    monkeypatch.setattr(watching, "_NEWEST_S", -1.0)
    settings = deployed(kafka, partitions=1)
    producer = Producer({"bootstrap.servers": settings.bootstrap})

    def publish(numbers: range) -> None:
        for number in numbers:
            _, value = encode_verdict(copy(number, 1)._replace(log_offset=number))
            producer.produce(settings.topic_verdicts, value=value, partition=0)
        assert not producer.flush(60)

    def shown() -> list[int]:
        return [one.log_offset for one in group.sample().duplicates]

    with GroupWatch(settings) as group:
        publish(range(2, 4_000))
        eventually(shown)  # the first of them have arrived
        assert shown() == list(range(3_990, 4_000))
        publish(range(4_000, 4_003))
        eventually(lambda: shown() == list(range(3_993, 4_003)))


@pytest.mark.kafka
def test_what_cannot_be_watched_is_named(kafka: Kafka) -> None:
    """A topic that is missing, an address without a port."""
    settings, _ = deployment(kafka)
    with pytest.raises(StopError, match=r"does not exist at .*neardup topics create"):
        GroupWatch(settings)
    for address in ("host", ":80", "host:", "host:99999", "host:x"):
        with pytest.raises(StopError, match="HOST:PORT"):
            GroupWatch(settings, [address])


def test_a_signal_waits_for_no_line_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line that it interrupts may hold the stream's lock, and would wait for the signal's."""
    lines: list[bool] = []
    end = threading.Event()
    monkeypatch.setattr(
        structlog,
        "get_logger",
        lambda _: SimpleNamespace(info=lambda *_, **__: lines.append(end.wait(30))),
    )
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    stop = threading.Event()
    try:
        _stop_on_signals(stop)
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wait(10) and not lines
    finally:
        end.set()
        for number, handler in before.items():
            signal.signal(number, handler)
    eventually(lambda: lines)


def test_a_stop_that_no_signal_caused_names_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """`rebuild` ends its own worker: its thread that tells of signals ends without an error."""
    lines: list[str] = []
    errors: list[object] = []
    monkeypatch.setattr(
        structlog,
        "get_logger",
        lambda _: SimpleNamespace(info=lambda event, **_: lines.append(event)),
    )
    monkeypatch.setattr(threading, "excepthook", errors.append)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    stop = threading.Event()
    try:
        _stop_on_signals(stop)
        (teller,) = [thread for thread in threading.enumerate() if thread.name == "stopping"]
        stop.set()
        teller.join(30)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert not teller.is_alive() and not lines and not errors
