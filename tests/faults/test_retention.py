"""A group whose originals leave: every worker, and each that starts anew, says the same of every document."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.faults.conftest import Deploy
from tests.faults.crawl import crawl
from worker.shell.admin.findings import Report

pytestmark = [pytest.mark.kafka, pytest.mark.faults]

MESSAGES = 400


def test_retention_holds_through_a_kill_and_a_start_from_a_snapshot(deploy: Deploy, tmp_path: Path) -> None:
    """Two seconds after its last sighting, or beyond 60, an original is gone: with one verdict a document, as ever."""
    deployment = deploy(expire_after_s=2, expire_from="last", documents_max=60)
    state: dict[str, Any] = {"state_dir": tmp_path / "state", "snapshot_interval_s": 1, "originals_on_disk_from": 1}
    deployment.start_all("two")
    (dying,) = deployment.start_all("one", fault="after-append:kill:6", **state)
    for seed in (1, 2, 1):  # the third time the first crawl again: some of it has left
        deployment.feed(crawl(seed=seed, count=MESSAGES))
        if dying.exit_code is None and seed == 2:
            deployment.until(lambda: list((tmp_path / "state").glob("snapshot-*")), "a snapshot")
    assert dying.wait() == -signal.SIGKILL
    restarted = deployment.start("one", **state)
    report: Report = deployment.finish()
    assert report.answered == 3 * MESSAGES
    assert restarted.said("snapshot restored") or not list((tmp_path / "state").glob("snapshot-*"))
    horizons = [message.value for message in deployment.read(deployment.settings.topic_verdicts)]
    assert any(b'"horizon"' in value for value in horizons)
