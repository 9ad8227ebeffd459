"""`neardup top`: a group of workers, as Kafka and the workers tell it."""

from __future__ import annotations

import io
import time
from pathlib import Path

import pytest
from rich.console import Console

from tests.cli.program import run
from tests.conftest import Kafka, deployment, free_ports, served
from tests.report.made import copy
from worker.cli.verdicts import frame
from worker.devkit.demo import workers_running
from worker.devkit.sample.crawl import write_sample_crawl
from worker.errors import StopError
from worker.settings import Settings
from worker.shell.admin.watch import GroupWatch, Partition, Sample, WorkerStatus, rate, status_of
from worker.shell.files.crawl import CrawlFiles, feed_documents
from worker.shell.kafka.admin import Admin, Member, create_topics

STATUS = {
    "worker_id": "w1",
    "last_minute": {"documents_per_s": 410.25, "latency_ms": 35.0},
    "stages_ms": {"prepare": 1.0, "append": 2.5, "answer": None, "publish": 8.0},
    "originals": 12_345,
    "log": {"offset": 930, "lag": 0},
}


def sample(at_s: float = 0.0, answered: int = 0, *statuses: WorkerStatus, partitions: int = 2) -> Sample:
    """A group of two workers; the second one owns the first partition, the first one the others."""
    members = [
        Member("m1", "w1", "10.0.0.1", tuple(range(1, partitions))),
        Member("m2", "w2\x1b[31m[/]", "10.0.0.2", (0,)),
    ]
    offsets = {number: Partition(1_000 + number, answered) for number in range(partitions)}
    return Sample(at_s, "stable", members, offsets, 940, list(statuses), [copy(1, 0, 5), copy(2, 0, 0)])


def text(before: Sample, now: Sample, width: int = 160) -> str:
    """A frame as text."""
    out = io.StringIO()
    Console(file=out, width=width, highlight=False).print(frame(before, now, "g", "host:9092"))
    return out.getvalue()


def rows(name: str, shown: str) -> list[list[str]]:
    """The cells of the rows by their first one."""
    return [line.split() for line in shown.splitlines() if line.startswith(name)]


def test_a_frame_shows_workers_lag_rates_and_duplicates() -> None:
    """Of each worker what its offsets say; of one whose address is given its own figures. All of it in 80 columns."""
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
    assert shown.index("https://host2.example/2") < shown.index("https://host1.example/1")  # the latest first
    assert rows("same", shown)[0][-1] == "https://host0.example/0"


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    """Whatever it shows."""
    shown = text(sample(partitions=40), sample(1.0, 3, WorkerStatus("a", STATUS), partitions=40), width)
    assert max(map(len, shown.splitlines())) <= width
    assert "32 others" in shown


def test_what_is_not_known_is_a_dash() -> None:
    """No members, no coordinator, a worker that is no member, one that does not answer, strange answers."""
    nothing = Sample(0.0, "", [], {}, 0, [], [])
    assert "its coordinator does not answer" in text(nothing, nothing)
    strange = {"worker_id": "w9", "last_minute": 3, "log": None, "stages_ms": [], "last_error": "disk \x07 full"}
    now = nothing._replace(statuses=[WorkerStatus("a:1", strange), WorkerStatus("b:2", {}, "refused")])
    shown = text(nothing, now)
    assert rows("w9", shown)[0][1:3] == ["no", "member"] and "disk � full" in shown and "b:2: refused" in shown
    assert rate(nothing, nothing, lambda one: one.lag) is None


@pytest.mark.parametrize(
    ("body", "error"), [("<html>", "not as a worker"), ("[]", "no worker"), ('{"worker_id": 3}', "no worker")]
)
def test_whatever_answers_at_an_address_is_no_error(tmp_path: Path, body: str, error: str) -> None:
    """A proxy, another program; and nobody at all."""
    status = tmp_path / "status"
    with served(tmp_path) as url:
        port = int(url.rpartition(":")[2])
        status.write_text(body)
        assert error in status_of("x", "127.0.0.1", port).error
        status.write_text('{"worker_id": "w1"}')
        assert status_of("x", "127.0.0.1", port) == WorkerStatus("x", {"worker_id": "w1"}, "")
    assert "refused" in status_of("x", "127.0.0.1", port).error.lower()


@pytest.mark.slow
def test_a_running_group_is_seen(commands_settings: Settings, tmp_path: Path) -> None:
    """Its worker by Kafka and by /status, everything answered, the last duplicates; as text."""
    [port] = free_ports()
    settings = commands_settings.model_copy(update={"metrics_port": port, "partitions": 3, "threads": 1})
    create_topics(Admin(settings, 30), settings)
    write_sample_crawl(tmp_path / "crawl.warc.gz", 100, 5)
    feed_documents(settings, CrawlFiles([str(tmp_path / "crawl.warc.gz")]))
    with workers_running(settings, ["w1"], tmp_path), GroupWatch(settings, [f"127.0.0.1:{port}"]) as watch:
        deadline = time.monotonic() + 300
        while (found := watch.sample()).lag or len(found.duplicates) < 10 or not found.members:  # 10 are kept
            assert time.monotonic() < deadline, found
            time.sleep(0.5)
        given = ("--interval", "0.2", "--worker", f"127.0.0.1:{port}", "--worker", "127.0.0.1:1")
        shown = run("top", "--once", *given, COLUMNS="160").output
    assert f"group {settings.group} at {settings.bootstrap}: stable" in shown and "waiting 0" in shown
    kafkas, own = rows("w1", shown)
    assert kafkas[2:4] == ["3", "0"] and int(own[-2]) > 10 and int(own[-1]) > 0
    assert len({one.doc_id for one in found.duplicates}) == len(found.duplicates) > 1
    assert shown.count("http://") == 2 * len(found.duplicates) and "127.0.0.1:1: " in shown


@pytest.mark.kafka
def test_what_cannot_be_watched_is_named(kafka: Kafka) -> None:
    """A topic that is missing, an address without a port."""
    settings, _ = deployment(kafka)
    with pytest.raises(StopError, match=r"does not exist at .*neardup topics create"):
        GroupWatch(settings)
    for address in ("host", ":80", "host:", "host:99999", "host:x"):
        with pytest.raises(StopError, match="host:port"):
            GroupWatch(settings, [address])
