"""
`neardup log renew` on Apache Kafka: kills after each step, workers that do not know of it, and the
old log's end.
"""

from __future__ import annotations

import re
import shutil
import signal
import tomllib
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import plain_environment
from tests.faults import cluster
from tests.faults.chaos.checker import judge
from tests.faults.conftest import Deploy
from tests.faults.crawl import crawl
from tests.faults.forked import ran
from tests.faults.harness import Deployment
from worker.errors import StopError
from worker.log.record import FORMAT_VERSION
from worker.settings import Settings, environment
from worker.shell.admin.renew import RenewStep, renew, retire
from worker.shell.admin.verify import verify
from worker.shell.checkpoint import digest_at, first_definition, first_replica, newest
from worker.shell.ports import LogEntry

pytestmark = [pytest.mark.kafka, pytest.mark.faults]

MESSAGES = 120


def _kill_after(step: RenewStep, deployment: Deployment, folder: Path) -> None:
    """Renew the log, and kill that after a step."""
    values = {**deployment.values, "worker_id": "renewer"}
    env = {**plain_environment(), **environment(values)}
    done = ran(folder, step, environment=env, module="tests.faults.killed_renewal")
    assert done.returncode == -signal.SIGKILL, done.stderr


def _printed(deployment: Deployment, folder: Path) -> dict[str, Any]:
    """Renew the log by the command; return the settings that it prints."""
    return _renewed(deployment.values, folder)


def _renewed(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The same, with the settings of some workers."""
    env = {**plain_environment(), **environment({**values, "worker_id": "renewer"})}
    done = ran("log", "renew", folder, environment=env)
    assert done.returncode == 0, done.stderr
    return tomllib.loads(done.stdout)


def _retired(deployment: Deployment, topic: str, *options: str) -> str:
    """Delete an old log by the command; return what it says."""
    env = {**plain_environment(), **environment(deployment.values)}
    done = ran("log", "retire", topic, *options, environment=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _switch(deployment: Deployment, settings: dict[str, Any]) -> None:
    """Give the deployment's next workers the settings of the new log."""
    deployment.values |= settings
    deployment.settings = Settings(
        **deployment.values | {"call_timeout_s": 60}, worker_id="harness"
    )


def _work(deployment: Deployment, seed: int, *workers: str) -> None:
    """Have workers answer a crawl, and end."""
    processes = deployment.start_all(*workers)
    deployment.feed(crawl(seed, MESSAGES))
    deployment.until_all_committed()
    assert [process.stop() for process in processes] == [0] * len(workers)


def _log(deployment: Deployment) -> list[LogEntry]:
    name = deployment.settings.topic_fingerprints
    return [LogEntry(m.offset, m.timestamp_ms, m.value or b"") for m in deployment.read(name)]


def _check(deployment: Deployment, before: Sequence[LogEntry]) -> None:
    """
    Hold all that was answered, with the old log and with the new one, against the plain oracle; and
    have `verify` look at it.
    """
    settings = deployment.settings
    begun = first_definition(settings.rules, settings.base_snapshot)
    result = judge(
        deployment.written()._replace(definition=begun),
        has_new=settings.topic_new is not None,
        replica=first_replica(settings.rules, settings.base_snapshot),
        base=before,
    )
    assert result.clean, result.findings
    report = verify(settings)
    assert report.clean and (report.answered, report.unanswered) == (deployment.fed, 0), report
    assert 0 < report.carried < report.answered


@pytest.mark.slow
def test_a_group_moves_to_a_new_log_through_a_kill_after_each_step(
    deploy: Deploy, tmp_path: Path
) -> None:
    """
    Before the last step workers go on with the old log, and those of the new one are refused; after
    it, the other way round. Nothing is lost, repeated or judged otherwise than by one log.
    """
    deployment = deploy(topic_new=f"new-{uuid.uuid4().hex}", partitions=3)
    folder = tmp_path / "bases"
    _work(deployment, 1, "one", "two")
    for step in (RenewStep.READ, RenewStep.BASE, RenewStep.TOPIC):
        _kill_after(step, deployment, folder)
    old = deployment.settings.topic_fingerprints
    base = renewed_base(folder, old)
    begun: dict[str, Any] = {
        "topic_fingerprints": f"{old}-{digest_at(base)}",
        "base_snapshot": str(base),
    }
    # A kill between the two records that it appends next.
    named = first_definition(deployment.settings.rules, base)
    declaration = named.declaration(f"{deployment.settings.group}/renewer", FORMAT_VERSION)
    bootstrap = deployment.settings.bootstrap
    cluster.append(bootstrap, begun["topic_fingerprints"], [declaration])
    for _ in range(2):
        _kill_after(RenewStep.BEGIN, deployment, folder)
        assert len(deployment.read(begun["topic_fingerprints"])) == 2
    early = deployment.start("early", **begun)
    assert early.wait() == 1 and "were committed with another log" in early.log_tail()
    _work(deployment, 3, "two")

    _kill_after(RenewStep.SWITCH, deployment, folder)
    before = _log(deployment)
    late = deployment.start("late")
    assert late.wait() == 1 and "neardup log renew prints" in late.log_tail()
    switched = _printed(deployment, folder)
    assert switched == _printed(deployment, folder)
    former = dict(deployment.values)
    _switch(deployment, switched)
    deployment.supervise(*deployment.start_all("one", "two"))
    deployment.feed(crawl(2, MESSAGES))
    assert switched == _renewed(former, folder)  # while the group is at work with it
    deployment.feed(crawl(4, MESSAGES))
    deployment.until_all_committed()
    _check(deployment, before)


def test_a_worker_that_was_frozen_while_the_log_was_renewed_publishes_nothing(
    deploy: Deploy, tmp_path: Path
) -> None:
    """
    It wakes with a batch in hand whose documents others have answered since, with the old log: the
    group has expelled it. Until they have, the log is not renewed; and meanwhile by nobody else.
    """
    deployment = deploy(partitions=2)
    [frozen] = deployment.start_all("one", fault="after-append:stop:2")
    deployment.feed(crawl(1, MESSAGES))
    deployment.until(frozen.is_stopped, "it is frozen")
    group = deployment.settings.group
    deployment.until(lambda: not deployment.admin.members(group)[1], "its session has ended")
    with pytest.raises(StopError, match="whose verdicts are not committed: start a worker"):
        renew(deployment.settings, tmp_path)
    _work(deployment, 2, "two")
    before = _log(deployment)
    refused: list[RenewStep] = []

    def refuse_another(step: RenewStep) -> None:
        with pytest.raises(StopError, match="is in use by another process"):
            renew(deployment.settings, tmp_path)
        refused.append(step)

    renewed = renew(deployment.settings, tmp_path, refuse_another)
    assert refused == list(RenewStep)
    _switch(deployment, tomllib.loads("\n".join(renewed.switch())))
    frozen.signal(signal.SIGCONT)
    deployment.start_all("three")
    deployment.feed(crawl(3, MESSAGES))
    assert frozen.wait() == 1
    deployment.until_all_committed()
    _check(deployment, before)


@pytest.mark.slow
def test_a_renewed_log_is_renewed_again_and_old_ones_go(deploy: Deploy, tmp_path: Path) -> None:
    """
    With snapshots, which the old log's workers leave behind; an old log goes only if the bases lead
    to it, and a new worker needs only the present log's.
    """
    state = tmp_path / "state"
    deployment = deploy(partitions=2, state_dir=str(state), static_membership=False)
    settings = deployment.settings
    deployment.until(lambda: deployment.admin.members(settings.group)[0], "its coordinator serves")
    with pytest.raises(StopError, match="has committed nothing yet"):
        renew(settings, tmp_path / "bases")
    _work(deployment, 1, "one")
    [process] = deployment.start_all("one")
    with pytest.raises(StopError, match="a log is renewed only while no worker runs"):
        renew(settings, tmp_path / "bases")
    assert process.stop() == 0
    logs = [settings.topic_fingerprints]
    for seed in (2, 3):
        _switch(deployment, _printed(deployment, tmp_path / "bases"))
        _work(deployment, seed, "one", "two")
        logs.append(deployment.settings.topic_fingerprints)
    present = deployment.settings
    assert present.state_dir is not None and present.state_dir.parent == state
    assert newest(present.state_dir) is not None
    first, second, _ = logs
    assert present.base_snapshot is not None
    alone = tmp_path / "elsewhere" / "alone" / present.base_snapshot.name
    alone.parent.mkdir(parents=True)
    shutil.copy(present.base_snapshot, alone)
    with pytest.raises(StopError, match="does not go on from"):
        retire(present.model_copy(update={"base_snapshot": alone}), first, is_confirmed=True)
    for kept in (present.topic_fingerprints, present.topic_documents):
        with pytest.raises(StopError, match="is a topic of the group's workers"):
            retire(present, kept, is_confirmed=True)
    with pytest.raises(StopError, match="were not committed with the log"):
        back = present.model_copy(
            update={
                "topic_fingerprints": second,
                "base_snapshot": renewed_base(tmp_path / "bases", first),
            }
        )
        retire(back, first, is_confirmed=True)
    assert f"delete {second} with --yes" in _retired(deployment, second)
    assert deployment.read(second)
    assert f"{second} deleted" in _retired(deployment, second, "--yes")
    deployment.until(lambda: second not in deployment.admin.describe([second]), "it is gone")
    assert f"{first} deleted" in _retired(deployment, first, "--yes")
    deployment.values |= {"state_dir": str(tmp_path / "empty")}
    _work(deployment, 1, "new")
    report = verify(deployment.settings)
    assert report.clean and (report.answered, report.unanswered) == (deployment.fed, 0)


def renewed_base(folder: Path, topic: str) -> Path:
    """Return the base that was made of a log."""
    [kept] = (
        kept for kept in folder.iterdir() if re.fullmatch(rf"{re.escape(topic)}-[0-9]+", kept.name)
    )
    base = newest(kept)
    assert base is not None
    return base
