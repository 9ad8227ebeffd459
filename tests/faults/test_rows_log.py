"""Row 24 of the fault table: what stands in the log and is not of its definition."""

from __future__ import annotations

import pytest

from tests.conftest import definition_file
from tests.faults import cluster
from tests.faults.conftest import Deploy
from tests.faults.crawl import crawl
from tests.faults.harness import Deployment, WorkerProcess
from worker.log.record import Rows, Section, Source, encode

pytestmark = [pytest.mark.kafka, pytest.mark.faults]

MESSAGES = 200


def _strays(deployment: Deployment) -> list[bytes | None]:
    """A null, a console producer's text, rows of another definition, and of a newer format."""
    definition = deployment.settings.rules
    section = Section(Source(bytes(16), 0), 0, MESSAGES, MESSAGES, Rows.of([]))
    [rows] = encode(definition.author("stray"), [section], 10_000)
    [others] = encode(definition.author("stray")._replace(parameters_hash=1), [section], 10_000)
    return [None, b"hello", others, rows[:4] + b"\xff\xff" + rows[6:]]


def _append(deployment: Deployment, records: list[bytes | None]) -> None:
    cluster.append(deployment.settings.bootstrap, deployment.settings.topic_fingerprints, records)


def _ignored(worker: WorkerProcess) -> set[str]:
    return {
        line["reason"]
        for line in worker.events()
        if line["event"] == "a record of the log is ignored"
    }


def test_row_24_records_that_are_not_of_the_log(deploy: Deploy) -> None:
    """
    Before its definition, between its records, and at a restart: ignored by all alike, told, no
    verdict changed. `tests/log/test_acceptance.py` has the log that goes on in a newer format.
    """
    deployment = deploy()
    strays = _strays(deployment)
    _append(deployment, strays[:2])
    first, second = deployment.start_all("one", "two")
    deployment.feed(crawl(seed=24, count=MESSAGES))
    deployment.until_all_committed()
    _append(deployment, strays)
    deployment.feed(crawl(seed=25, count=MESSAGES))
    deployment.finish()
    assert first.stop() == 0
    assert _ignored(first) == _ignored(second) == {"foreign", "definition", "format"}
    deployment.start("one")
    deployment.feed(crawl(seed=26, count=MESSAGES))
    deployment.finish()


def test_row_24_two_definitions_on_an_empty_log(deploy: Deploy) -> None:
    """
    The first to append rules; the other refuses, names the setting with both values and the command
    to run.
    """
    deployment = deploy(partitions=2)
    usual = deployment.settings.max_distance
    workers = [
        deployment.start(str(distance), max_distance=distance) for distance in (usual, usual - 1)
    ]
    for worker in workers:
        deployment.until(lambda worker=worker: worker.said("worker runs"), "both run")  # type: ignore[misc]
    deployment.feed(crawl(seed=24, count=MESSAGES))
    deployment.until(
        lambda: any(worker.exit_code is not None for worker in workers), "one of them refuses"
    )
    refused = next(worker for worker in workers if worker.exit_code is not None)
    own = usual - workers.index(refused)
    assert refused.wait() == 1
    said = refused.log_path.read_text()
    assert f"max_distance is {2 * usual - 1 - own} there, {own} here" in said
    assert "neardup rebuild --bootstrap" in said
    assert f"--definition {definition_file(max_distance=own)}" in said
    deployment.until_all_committed()
