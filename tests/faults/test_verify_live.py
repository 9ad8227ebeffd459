"""`neardup verify` against a cluster whose broker restarts before and while it reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.crawl import crawl
from tests.faults.harness import Deployment
from worker.devkit.broker import EmbeddedKafka, Runtime
from worker.shell.admin.verify import Progress, verify

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

MESSAGES = 300


def test_a_broker_that_restarts_changes_nothing(broker_runtime: Runtime, tmp_path: Path) -> None:
    """Its coordinator is still loading when the offsets are asked for, and it is gone again between two topics."""
    with EmbeddedKafka(runtime=broker_runtime) as kafka, Deployment(kafka.bootstrap, tmp_path) as deployment:
        (worker,) = deployment.start_all("one")
        deployment.feed(crawl(seed=1, count=MESSAGES))
        deployment.until_all_committed()
        assert worker.stop() == 0
        restarts = 0

        def restart(_: Progress | None = None) -> None:
            nonlocal restarts
            if restarts < 2:
                restarts += 1
                kafka.kill(1)
                kafka.up(1)

        restart()
        report = verify(deployment.settings, on_progress=restart)
        assert restarts == 2
        assert report.clean and (report.answered, report.unanswered) == (MESSAGES, 0)
