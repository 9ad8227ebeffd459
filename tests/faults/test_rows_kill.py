"""Rows 1 to 4 of the fault table: a worker dies at each point of a batch's way."""

from __future__ import annotations

import signal

import pytest

from tests.faults.conftest import Deploy
from tests.faults.crawl import crawl
from tests.faults.harness import SETTLE_S, Deployment

pytestmark = [pytest.mark.kafka, pytest.mark.faults]

MESSAGES = 400


def _die(deployment: Deployment, fault: str) -> float:
    """Let the first of two workers die as `fault` says, and start it again; give the seconds until all is committed."""
    dying, _ = deployment.start_all("one", fault=fault) + deployment.start_all("two")
    deployment.feed(crawl(seed=1, count=MESSAGES))
    assert dying.wait() == -signal.SIGKILL
    deployment.start("one")
    return deployment.until_all_committed()


def test_row_01_kill_before_the_append(deploy: Deploy) -> None:
    """Killed with a batch that is fingerprinted and not in the log: it is processed again."""
    deployment = deploy()
    _die(deployment, "before-append:kill:4")
    report = deployment.check()
    assert report.log_rows_repeated == 0


def test_row_02_kill_between_append_and_verdict(deploy: Deploy) -> None:
    """Killed with a batch in the log and no verdict of it: the successor finds it there and appends nothing again."""
    deployment = deploy()
    _die(deployment, "after-append:kill:4")
    report = deployment.check()
    assert report.log_rows == MESSAGES
    assert report.log_rows_repeated == 0


@pytest.mark.parametrize("point", ["in-transaction", "after-offsets"])
def test_row_03_kill_inside_the_transaction(deploy: Deploy, point: str) -> None:
    """Killed with verdicts sent, before or after the offsets: the transaction is aborted, the stall is bounded."""
    deployment = deploy()
    assert _die(deployment, f"{point}:kill:4") < SETTLE_S
    assert deployment.check().log_rows_repeated == 0


@pytest.mark.parametrize("milliseconds", [0, 1, 3, 6])
def test_row_04_kill_during_the_commit_call(deploy: Deploy, milliseconds: int) -> None:
    """Killed while the commit is on its way: committed or not, each document is answered once."""
    deployment = deploy()
    _die(deployment, f"after-offsets:kill-in-{milliseconds}-ms:4")
    deployment.check()
