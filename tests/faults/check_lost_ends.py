"""
Row 8 with one broker, and a loss that no worker can prevent: a broker that is killed within 2.5 ms
after a commit has returned may lose the end of that transaction (KAFKA-20734). `verify --mend` then
publishes the verdicts that are missing.

    NEARDUP_KILLS=20 .venv/bin/python -m pytest -s tests/faults/check_lost_ends.py

makes twenty kills, some 25 s each, and prints what each of them has cost. pytest does not collect
this file by itself: whether a kill costs anything is chance, and one that loses the group's offset
may stop a worker for good.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import eventually
from tests.faults.crawl import crawl
from tests.faults.harness import Deployment
from worker.devkit.broker import EmbeddedKafka
from worker.shell.admin.audit import Defect
from worker.shell.admin.mend import mend
from worker.shell.admin.verify import verify

pytestmark = [pytest.mark.kafka, pytest.mark.faults, pytest.mark.slow]

KILLS = int(os.environ.get("NEARDUP_KILLS", "1"))
KILL_AFTER_MS_MAX = 2.0  # and what the signal takes: below 2.5
# Each commit has many ends to be written, which makes the time in which some are missing longer.
PARTITIONS = 16
DOCUMENTS = 400
BATCH = 50


def test_what_a_killed_broker_lost_is_mended(kafka_to_break: EmbeddedKafka, tmp_path: Path) -> None:
    """
    After each kill a successor of the worker answers the rest. A dry run changes nothing, and after
    `--mend` no answer is missing: none lost, wrong or mutual.

    A second answer on a document, which cannot be taken back, is the only defect that may stay.
    """
    chance = random.Random()
    costs: Counter[str] = Counter()
    for number in range(KILLS):
        after_ms = chance.random() * KILL_AFTER_MS_MAX
        cost = _one_kill(kafka_to_break, tmp_path, chance.randint(2, 6), after_ms)
        print(f"kill {number + 1}, {after_ms:.1f} ms after a commit: {dict(cost) or 'nothing'}")
        costs.update(name for name, count in cost.items() if count)
    print(f"of {KILLS} kills, so many had cost something before --mend: {dict(costs)}")


def _one_kill(
    kafka: EmbeddedKafka, folder: Path, at_commit: int, after_ms: float
) -> dict[str, int]:
    """Kill the broker once, under a running worker; return the defects that `mend` has met."""
    sizes = {"partitions": PARTITIONS, "batch_documents_max": BATCH}
    with Deployment(kafka.bootstrap, folder, **sizes) as deployment:
        deployment.feed(crawl(seed=at_commit, count=DOCUMENTS))
        [pid] = kafka.pids().values()
        killer = {
            "BROKER_PID": str(pid),
            "KILL_AT_COMMIT": str(at_commit),
            "KILL_AFTER_MS": str(after_ms),
        }
        worker = deployment.start("one", module="tests.faults.broker_killer", environment=killer)
        eventually(lambda: kafka.pids() == {1: None}, "the broker is killed")
        worker.kill()  # its machine is gone as well, and a successor waits for the broker
        deployment.supervise(deployment.start("one"))
        kafka.up(1)
        deployment.until_all_committed()
        for process in deployment.processes:  # a clean end leaves the group at once
            if process.exit_code is None:
                process.stop()
        deployment.end()
        settings, admin = deployment.settings, deployment.admin
        eventually(lambda: admin.members(settings.group)[0] == "empty", "it has ended")
        before = verify(settings).defects
        shown = mend(settings, dry_run=True, on_found=lambda *_: None)
        assert verify(settings).defects == before and not shown.is_published
        done = mend(settings, dry_run=False, on_found=lambda *_: None)
        assert done.missing == shown.missing and len(done.missing) == before[Defect.LOST]
        report = verify(settings)
        left = {str(name): count for name, count in report.defects.items() if count}
        assert left.keys() <= {Defect.REPEATED.value}, left
        assert report.answered == report.documents == deployment.fed
        return {str(name): count for name, count in before.items() if count}
