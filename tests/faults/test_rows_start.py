"""Rows 15 to 19 of the fault table: what a worker refuses, and what it does not care about."""

from __future__ import annotations

import json
import signal
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import definition_file, eventually, free_ports
from tests.faults import cluster
from tests.faults.conftest import Deploy
from tests.faults.crawl import crawl
from tests.faults.harness import Deployment, WorkerProcess
from worker.devkit.broker import EmbeddedKafka
from worker.shell.admin.offsets import Restoration, restore

pytestmark = [pytest.mark.kafka, pytest.mark.faults]

MESSAGES = 200


def _refuses(process: WorkerProcess, *said: str) -> None:
    assert process.wait() == 1
    log = process.log_path.read_text()
    assert "Traceback" not in log
    for text in said:
        assert text in log, log


def _worked(deployment: Deployment) -> None:
    """Let a worker answer a few messages and end."""
    [worker] = deployment.start_all("one")
    deployment.feed(crawl(seed=15, count=MESSAGES))
    deployment.finish()
    assert worker.stop() == 0


def test_row_15_log_of_another_group_cut_or_recreated(deploy: Deploy) -> None:
    """
    It would drop verdicts of the other group, lack records, or forget what the group has seen: a
    start refuses.
    """
    deployment = deploy()
    _worked(deployment)
    other = f"{deployment.settings.group}.other"
    _refuses(
        deployment.start("one", is_forked=False, group=other),
        f"begun by group {deployment.settings.group}",
        other,
    )
    cluster.delete_records(
        deployment.settings.bootstrap, deployment.settings.topic_fingerprints, {0: 3}
    )
    _refuses(deployment.start("one"), "the log starts at offset 3", "retention")
    deployment.recreate(deployment.settings.topic_fingerprints)
    _refuses(deployment.start("one"), "another log", "group")


def test_row_15_source_that_is_recreated_under_a_running_worker(deploy: Deploy) -> None:
    """
    Its documents have offsets that the log knows of the old topic: the worker ends, and the next
    one judges them.
    """
    deployment = deploy(partitions=1)
    [worker] = deployment.start_all("one")
    deployment.feed(crawl(seed=15, count=MESSAGES))
    deployment.until_all_committed()
    deployment.recreate(deployment.settings.topic_documents)
    deployment.feed(crawl(seed=16, count=MESSAGES))
    assert worker.wait() == 1
    log = worker.log_path.read_text()
    assert "deleted and created again" in log or "the topic does not exist" in log, log
    assert all(place[1] < MESSAGES for place, _ in deployment.answers())
    assert len(deployment.answers()) == MESSAGES
    deployment.feed(crawl(seed=17, count=50))
    deployment.start("one")
    deployment.until_committed(MESSAGES + 50)
    assert len(deployment.answers()) == 2 * MESSAGES + 50


def test_row_15_verdicts_that_are_recreated_under_a_running_worker(deploy: Deploy) -> None:
    """Its answers are gone, so the worker ends and says so; the next one goes on."""
    deployment = deploy(partitions=1)
    [worker] = deployment.start_all("one")
    deployment.feed(crawl(seed=15, count=MESSAGES))
    deployment.until_all_committed()
    deployment.recreate(deployment.settings.topic_verdicts)
    _refuses(worker, "deleted and created again", "neardup verify tells which ones are gone")
    deployment.feed(crawl(seed=16, count=50))
    deployment.start("one")
    deployment.until_committed(MESSAGES + 50)
    # Dead letters of before have a topic of their own, and stay.
    assert sum(place[1] >= MESSAGES for place, _ in deployment.answers()) == 50


@pytest.mark.slow
def test_row_15_log_that_has_lost_its_end_and_grown_again(
    kafka_to_break: EmbeddedKafka, tmp_path: Path
) -> None:
    """
    A leader that lacks acknowledged records was elected: other records stand where verdicts were
    decided.
    """
    kafka = kafka_to_break
    with Deployment(kafka.bootstrap, tmp_path) as deployment:
        _worked(deployment)
        records = deployment.log()
        kafka.kill(1)
        _cut(
            kafka.data / "node-1/data" / f"{deployment.settings.topic_fingerprints}-0",
            len(records) - 2,
        )
        kafka.up(1)
        assert len(deployment.log()) == len(records) - 2
        cluster.append(
            deployment.settings.bootstrap, deployment.settings.topic_fingerprints, records[:4]
        )
        _refuses(
            deployment.start("one"),
            f"record {len(records) - 1} of the log",
            "has lost records",
            "--group",
        )


def _cut(partition: Path, batches: int) -> None:
    """Cut a partition's only segment after so many batches."""
    [segment] = partition.glob("*.log")
    data, at = segment.read_bytes(), 0
    for _ in range(batches):
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")  # offset, length
    segment.write_bytes(data[:at])


def test_row_16_documents_deleted_before_the_group_began(deploy: Deploy) -> None:
    """
    A new group on an old topic: what retention has left is answered, and what it has deleted is
    told.
    """
    deployment = deploy(partitions=1)
    deployment.feed(crawl(seed=16, count=MESSAGES))
    cluster.delete_records(
        deployment.settings.bootstrap, deployment.settings.topic_documents, {0: 50}
    )
    [worker] = deployment.start_all("one")
    deployment.until_committed(MESSAGES)
    [told] = [
        line
        for line in worker.events()
        if "deleted before this group has read them" in line["event"]
    ]
    assert (told["partitions"], told["offsets"]) == ([0], 50)


def test_row_16_source_offset_deleted_by_retention(deploy: Deploy) -> None:
    """
    Documents that the group has not answered are gone: it stops with an error, and skips nothing
    silently. The command that it names counts them, and all goes on behind them.
    """
    deployment = deploy(partitions=1, static_membership=False)  # it leaves at once
    _worked(deployment)
    deployment.feed(crawl(seed=16, count=MESSAGES))
    cluster.delete_records(
        deployment.settings.bootstrap, deployment.settings.topic_documents, {0: MESSAGES + 50}
    )
    _refuses(
        deployment.start("one"),
        "deleted by the topic's retention",
        "documents are lost",
        "neardup offsets restore",
    )
    assert deployment.committed() == MESSAGES
    group = deployment.settings.group
    eventually(lambda: deployment.admin.members(group)[0] == "empty", "the group is empty")
    [found] = restore(deployment.settings, is_confirmed=True, on_found=lambda _: None)
    assert found == Restoration(0, MESSAGES, MESSAGES + 50, is_set=True, deleted=50)
    deployment.start("one")
    deployment.until_committed(2 * MESSAGES)


def test_row_17_clocks_that_differ(deploy: Deploy) -> None:
    """
    Workers whose clocks are days apart, and documents of any date: the same verdicts as a replay
    gives. The log's own times go back and forth in `tests/log/test_replica.py`.
    """
    deployment = deploy()
    deployment.start_all(
        "slow", module="tests.faults.wrong_clock", environment={"CLOCK_OFFSET_S": "-400000"}
    )
    deployment.start_all(
        "fast", module="tests.faults.wrong_clock", environment={"CLOCK_OFFSET_S": "4000000"}
    )
    deployment.feed(crawl(seed=17, count=MESSAGES))
    deployment.finish()
    for process in deployment.processes:
        assert process.stop() == 0


def test_row_17_log_of_its_writers_times_with_retention(deploy: Deploy) -> None:
    """
    Originals expire by the records' times: those of writers are refused, in the topic's settings
    and in a record.
    """
    deployment = deploy()
    log = deployment.settings.topic_fingerprints
    deployment.recreate(log, {"message.timestamp.type": "CreateTime"})
    _refuses(
        deployment.start("one", expire_after_s=60),
        "message.timestamp.type is CreateTime",
        "neardup topics alter",
    )
    cluster.append(deployment.settings.bootstrap, log, [b"any"])
    cluster.alter(deployment.settings.bootstrap, log, {"message.timestamp.type": "LogAppendTime"})
    _refuses(
        deployment.start("one", expire_after_s=60),
        "record 0 of the log",
        "its writer's time",
        "neardup topics create",
        "Start over",
    )


def test_row_18_topics_missing(deploy: Deploy) -> None:
    """
    The error names the topic and the command that makes it; `test_kafka.py` has each topic, and
    `test_durability.py` the logs that are compacted or have more than one partition.
    """
    deployment = deploy()
    missing = f"{deployment.settings.topic_verdicts}.missing"
    process = deployment.start("one", topic_verdicts=missing)
    _refuses(process, f"{missing}: the topic does not exist", "neardup topics create")


def test_row_18_log_with_state_and_a_second_partition(deploy: Deploy) -> None:
    """The first partition is the state: a worker goes on with it, and is not told to delete it."""
    deployment = deploy()
    _worked(deployment)
    deployment.admin.add_partitions(deployment.settings.topic_fingerprints, 2)
    [worker] = deployment.start_all("one")
    deployment.feed(crawl(seed=18, count=MESSAGES))
    assert deployment.finish().clean
    assert "Leave it as it is" in worker.log_path.read_text()


def test_row_19_changed_parameters(deploy: Deploy) -> None:
    """
    The error names what differs and the remedy; with the old ones it goes on. Where there is a port,
    definition and reason are served until SIGTERM, and so long that a scrape a minute sees them.
    """
    deployment = deploy()
    _worked(deployment)
    [port] = free_ports()
    seen = deployment.start("one", max_distance=4, metrics_port=port)
    deployment.until(lambda: seen.said("refused, ends after some scrapes"), "a refusal")
    _see_refusal(seen, port)
    seen.signal(signal.SIGTERM)
    changed: dict[str, Any] = {"shingle_widths": (3,), "max_distance": 4}
    alone = deployment.start("two", shingle_widths=(3,))
    for process, name in ((alone, "shingle_widths"), (seen, "max_distance")):
        file = definition_file(**{name: changed[name]})
        _refuses(
            process,
            f"has another definition: {name} is",
            f"Start it with the log's definition (its own is {file})",
            f"neardup rebuild --bootstrap {deployment.settings.bootstrap} --group",
            f"--definition {file}",
        )
    deployment.feed(crawl(seed=19, count=20))
    deployment.start("one")
    deployment.finish()


def _see_refusal(process: WorkerProcess, port: int) -> None:
    """Look at what a worker serves that has been refused."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=60) as answer:
        status = json.load(answer)
    assert "max_distance is 16 there, 4 here" in status["last_error"]["reason"]
    assert status["missing"] == ["log replayed"]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        served = answer.read().decode()
    assert f'neardup_build_info{{definition="{status["definition"]}"' in served
    assert process.exit_code is None
    [refusal] = [line for line in process.events() if line["event"].startswith("refused, ends")]
    assert refusal["wait_s"] > 60
