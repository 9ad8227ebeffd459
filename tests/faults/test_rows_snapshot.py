"""
Rows 13 to 15 and 23 of the fault table: snapshots that cannot be written or used, and those that
are.
"""

from __future__ import annotations

import re
import resource
import signal
import struct
from pathlib import Path

import pytest
import xxhash

from tests.faults.conftest import Deploy
from tests.faults.crawl import crawl
from tests.faults.harness import WorkerProcess
from worker.devkit.broker.cluster import lay_out

pytestmark = [pytest.mark.kafka, pytest.mark.faults]

MESSAGES = 240
FAILURES = "neardup_snapshot_failures_total"


def _restored(process: WorkerProcess) -> list[int]:
    """The offsets at which a worker's snapshots were restored."""
    return [
        int(line["next_offset"])
        for line in process.events()
        if line.get("event") == "snapshot restored"
    ]


def _snapshots(folder: Path) -> list[Path]:
    return sorted(folder.glob("snapshot-*.ndsnap"))


def test_row_13_the_disk_is_full(deploy: Deploy, tmp_path: Path) -> None:
    """
    The snapshot before stays, a metric says so, documents are answered, and a start from that
    snapshot is right.
    """
    deployment, state, port = deploy(), tmp_path / "state", lay_out(1, 0).client_ports[0]
    (worker,) = deployment.start_all(
        "one", state_dir=state, snapshot_interval_s=1, metrics_port=port
    )
    deployment.feed(crawl(seed=1, count=MESSAGES))
    deployment.until(lambda: _snapshots(state), "a snapshot")
    deployment.until_all_committed()
    room = _snapshots(state)[0].stat().st_size
    resource.prlimit(
        worker.pid, resource.RLIMIT_FSIZE, (max(room // 2, 16_384), resource.RLIM_INFINITY)
    )
    before, failures = _snapshots(state)[-1], worker.metrics(port).get(FAILURES, 0)
    deployment.feed(crawl(seed=2, count=MESSAGES))
    deployment.until(
        lambda: worker.said("snapshot not written, the ones before it stay"), "a warning"
    )
    deployment.until(lambda: worker.metrics(port).get(FAILURES, 0) > failures, "the metric has it")
    deployment.until_all_committed()
    assert before in _snapshots(state) and len(_snapshots(state)) <= 2
    worker.kill()
    successor = deployment.start("one", state_dir=state)
    deployment.feed(crawl(seed=3, count=MESSAGES))
    deployment.finish()
    assert _restored(successor)


def test_row_14_snapshots_are_damaged(deploy: Deploy, tmp_path: Path) -> None:
    """
    One byte in the newest: the older one and the log's tail. In both: the log. The answers are the
    same.
    """
    deployment, state = deploy(), tmp_path / "state"
    (worker,) = deployment.start_all("one", state_dir=state, snapshot_interval_s=1)
    for damaged in (1, 2):
        for seed in (1, 2):
            deployment.feed(crawl(seed=seed, count=MESSAGES // 2))
            deployment.until(lambda wanted=seed: len(_snapshots(state)) >= wanted, "a snapshot")  # type: ignore[misc]
            deployment.until_all_committed()
        assert worker.stop() == 0
        for path in _snapshots(state)[-damaged:]:
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 1
            path.unlink()
            path.write_bytes(data)
        (worker,) = deployment.start_all("one", state_dir=state, snapshot_interval_s=1)
        assert worker.said("snapshot cannot be used, trying an older source")
        assert len(_restored(worker)) == (1 if damaged == 1 else 0)
    deployment.feed(crawl(seed=3, count=MESSAGES))
    deployment.finish()


def test_row_15_snapshots_of_a_log_that_was_recreated(deploy: Deploy, tmp_path: Path) -> None:
    """
    A snapshot of the former log is not taken for one of the new: the worker refuses and names the
    file.
    """
    deployment, state = deploy(), tmp_path / "state"
    (worker,) = deployment.start_all("one", state_dir=state)
    deployment.feed(crawl(seed=1, count=MESSAGES))
    deployment.until_all_committed()
    assert worker.stop() == 0
    assert len(_snapshots(state)) == 1
    deployment.recreate(deployment.settings.topic_fingerprints)
    refusing = deployment.start("one", state_dir=state)
    assert refusing.wait() == 1
    assert "snapshot-" in refusing.log_tail() and "recreated" in refusing.log_tail()


def test_row_15_a_snapshot_of_records_that_the_log_has_lost(deploy: Deploy, tmp_path: Path) -> None:
    """Another record stands where its last one was: the worker puts it aside and reads the log."""
    deployment, state = deploy(), tmp_path / "state"
    (worker,) = deployment.start_all("one", state_dir=state)
    deployment.feed(crawl(seed=1, count=MESSAGES))
    deployment.until_all_committed()
    assert worker.stop() == 0
    [path] = _snapshots(state)
    other = bytearray(
        re.sub(rb'("last_digest": ")[0-9a-f]{16}', rb"\g<1>" + b"7" * 16, path.read_bytes())
    )
    struct.pack_into("<Q", other, 24, xxhash.xxh3_64_intdigest(other[:24] + other[32:]))
    assert other != path.read_bytes()
    path.write_bytes(other)
    (worker,) = deployment.start_all("one", state_dir=state)
    assert worker.said(
        "the log has lost its end since this snapshot, and has grown again: trying an older source"
    )
    assert not _restored(worker)
    assert path.with_suffix(".lost").read_bytes() == other
    deployment.feed(crawl(seed=2, count=MESSAGES))
    deployment.finish()


def test_row_23_restores_at_any_moment(deploy: Deploy, tmp_path: Path) -> None:
    """
    While originals leave and are seen again, who restores again and again and who never stops say
    the log's word.
    """
    deployment, state = (
        deploy(expire_after_s=2, expire_from="last", documents_max=60),
        tmp_path / "state",
    )
    deployment.start_all("two")
    own = {"state_dir": state, "snapshot_interval_s": 1}
    for seed, fault in ((1, ""), (2, "after-append:kill:4"), (1, "")):
        (worker,) = deployment.start_all("one", **own, fault=fault)
        deployment.feed(crawl(seed=seed, count=MESSAGES))
        if fault:
            assert worker.wait() == -signal.SIGKILL
        deployment.until_all_committed()
        deployment.until(lambda: _snapshots(state), "a snapshot")
        deployment.feed(crawl(seed=seed + 10, count=MESSAGES))
        worker.kill()
    successor = deployment.start("one", state_dir=state)
    deployment.finish()
    deployment.until(lambda: _restored(successor), "it has begun from a snapshot")
    verdicts = deployment.read(deployment.settings.topic_verdicts)
    assert any(b'"horizon"' in message.value for message in verdicts)
