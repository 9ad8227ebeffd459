"""Rows 1 to 4 of the fault table: a worker dies at each point of a batch's way."""

from __future__ import annotations

import signal
import uuid

import pytest

from tests.faults.conftest import Deploy
from tests.faults.crawl import crawl
from tests.faults.harness import SETTLE_S

pytestmark = [pytest.mark.kafka, pytest.mark.faults, pytest.mark.slow]

MESSAGES = 200
FAULTS = (
    "before-append:kill:3",  # row 1: a batch is fingerprinted and not in the log: it is processed again
    "after-append:kill:3",  # row 2: it is in the log, without a verdict: the successor finds it, and appends nothing
    "in-transaction:kill:3",  # row 3: verdicts are sent, the offsets not: the transaction is aborted
    "after-offsets:kill:3",
    *(f"after-offsets:kill-in-{milliseconds}-ms:3" for milliseconds in (0, 1, 3, 6)),  # row 4: committed or not
)


def test_rows_01_to_04_killed_at_each_point_of_a_batchs_way(deploy: Deploy) -> None:
    """One of two workers dies at one point after the other, and comes back: nothing is appended or answered twice."""
    deployment = deploy(topic_new=f"new-{uuid.uuid4().hex}")
    deployment.start_all("two")
    for seed, fault in enumerate(FAULTS):
        dying = deployment.start_all("one", fault=fault)[0]
        deployment.until(dying.partitions, f"partitions for {fault}")
        deployment.feed(crawl(seed, MESSAGES))
        assert dying.wait() == -signal.SIGKILL, fault
    deployment.start("one")
    assert deployment.until_all_committed() < SETTLE_S
    report = deployment.check()
    assert (report.log_rows, report.log_rows_repeated) == (len(FAULTS) * MESSAGES, 0)
