"""
Rows 1 to 7, 9, 12, 20 and 22 of the fault table: a worker dies, stops, ends; its place in the
group.
"""

from __future__ import annotations

import signal
import time
import uuid

import pytest

from tests.faults.conftest import Deploy
from tests.faults.crawl import crawl
from tests.faults.harness import SETTLE_S, WorkerProcess
from worker.devkit.broker.cluster import lay_out
from worker.shell.admin.verify import verify

pytestmark = [pytest.mark.kafka, pytest.mark.faults]

MESSAGES = 240
APPEND_S = 'neardup_stage_seconds_sum{stage="append"}'
LONG_SESSION_MS = 45_000  # only its leaving can move a member's partitions sooner
FAULTS = (
    # Row 1: a batch is fingerprinted and not in the log: it is processed again.
    "before-append:kill:3",
    # Row 2: it is in the log, without a verdict: the successor finds it, and appends nothing.
    "after-append:kill:3",
    # Row 3: verdicts are sent, the offsets not: the transaction is aborted.
    "in-transaction:kill:3",
    "after-offsets:kill:3",
    *(
        f"after-offsets:kill-in-{milliseconds}-ms:3" for milliseconds in (0, 1, 3, 6)
    ),  # row 4: committed or not
)


@pytest.mark.slow
def test_rows_01_to_04_killed_at_each_point_of_a_batchs_way(deploy: Deploy) -> None:
    """
    One of two workers dies at one point after the other, and comes back: nothing is appended or
    answered twice.
    """
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


@pytest.mark.slow
def test_row_05_stop_past_the_session(deploy: Deploy) -> None:
    """
    Frozen with a batch in hand its late append is ignored, and it works on; in a transaction, it is
    fenced.
    """
    deployment = deploy()
    deployment.start_all("two")
    for seed, point in enumerate(("before-append", "in-transaction", "after-offsets")):
        frozen = deployment.start_all("one", fault=f"{point}:stop:4")[0]
        deployment.until(frozen.partitions, "partitions")
        deployment.feed(crawl(2 * seed, MESSAGES))
        deployment.until(frozen.is_stopped, "the fault point is reached")
        assert deployment.until_all_committed() < SETTLE_S
        frozen.signal(signal.SIGCONT)
        if point == "before-append":
            repeated = lambda: verify(deployment.settings).log_rows_repeated > 0  # noqa: E731
            deployment.until(repeated, "the late append stands in the log")
            assert frozen.exit_code is None
        deployment.feed(crawl(2 * seed + 1, MESSAGES))
        deployment.until_all_committed()
        if point != "before-append":
            noticed = lambda: frozen.exit_code is not None or frozen.said("reading again")  # noqa: B023, E731
            deployment.until(noticed, "it has noticed")
        frozen.kill()
    deployment.finish()


@pytest.mark.parametrize("static", [True, False])
def test_row_06_two_processes_with_one_transactional_id(deploy: Deploy, static: bool) -> None:
    """The older one ends, with the reason, and the younger one goes on where it was."""
    deployment = deploy(static_membership=static)
    [older] = deployment.start_all("one")
    deployment.feed(crawl(seed=7, count=MESSAGES // 2))
    deployment.until_committed(20)
    younger = deployment.start("one")
    deployment.until(lambda: younger.said("worker runs"), "the second process runs")
    deployment.feed(crawl(seed=8, count=MESSAGES // 2))
    assert older.wait() == 1
    assert "another process has taken over this worker's id" in older.log_tail()
    deployment.finish()
    assert younger.exit_code is None


@pytest.mark.slow
def test_row_07_rebalance_storm(deploy: Deploy) -> None:
    """
    Members that join and leave all the time: everything is answered once, and soon after the storm.
    """
    deployment = deploy(partitions=6, static_membership=False)
    deployment.start_all("steady")
    gusts: list[WorkerProcess] = []
    for portion in range(6):
        deployment.feed(crawl(seed=portion, count=150))
        gusts.append(deployment.start(f"gust-{portion}"))
        time.sleep(1.5)
        if portion % 2:
            gusts.pop(0).signal(signal.SIGTERM)
        elif portion > 2:
            gusts.pop(0).kill()
    assert deployment.until_all_committed() < SETTLE_S
    deployment.check()


def test_row_09_duplicate_delivery_and_second_append(deploy: Deploy) -> None:
    """
    A record that stands in the log twice, and a message that was fed twice: the first appearance
    wins.
    """
    deployment = deploy()
    deployment.start_all("one", "two")
    messages = list(crawl(seed=9, count=MESSAGES // 2))
    deployment.feed(messages)
    deployment.until_all_committed()
    deployment.append_again()
    deployment.feed(messages)
    report = deployment.finish()
    assert report.log_rows_repeated > 0
    assert report.documents == 2 * len(messages)


@pytest.mark.slow
def test_row_12_longer_than_the_poll_interval(deploy: Deploy) -> None:
    """
    A member whose ordered part takes longer polls and stays; one that does not poll loses all, and
    rejoins.
    """
    deployment, ports = (
        deploy(kafka={"max.poll.interval.ms": 10_000}, call_timeout_s=9.9),
        lay_out(3, 0).client_ports,
    )
    slow = deployment.start("slow", fault="before-append:sleep-13000-ms:3", metrics_port=ports[1])
    silent = deployment.start("silent", fault="read:sleep-13000-ms:3", metrics_port=ports[0])
    deployment.start_all("other")
    deployment.until_shared()
    deployment.until(lambda: silent.metrics(ports[0]), "ready, as a member")
    deployment.feed(crawl(seed=12, count=MESSAGES))
    deployment.until(lambda: not silent.metrics(ports[0]), "not ready, as expelled")
    deployment.until(lambda: silent.said("partitions lost"), "the group has gone on without it")
    deployment.until(lambda: silent.metrics(ports[0]), "ready again")
    deployment.feed(crawl(seed=13, count=MESSAGES))
    deployment.until(
        lambda: slow.metrics(ports[1]).get(APPEND_S, 0) > 13, "the ordered part was slow"
    )
    deployment.finish()
    assert slow.exit_code is None and silent.exit_code is None
    assert not slow.said("partitions lost")


@pytest.mark.parametrize("static", [True, False])
def test_row_20_sigterm(deploy: Deploy, static: bool) -> None:
    """
    In the middle of work: what was begun ends or is aborted, the worker leaves, its exit code is 0.
    """
    deployment = deploy(
        static_membership=static, kafka={} if static else {"session.timeout.ms": LONG_SESSION_MS}
    )
    [leaving], [other] = (
        deployment.start_all("one", is_forked=not static),
        deployment.start_all("two"),
    )
    # Who leaves while the group shares anew may be missed until its session ends.
    deployment.until_shared()
    deployment.feed(crawl(seed=20, count=MESSAGES))
    deployment.until_committed(30)
    before = assignments(other)
    assert leaving.stop() == 0
    assert leaving.said("worker has left the group")
    moved_s = deployment.until(
        lambda: assignments(other) > before, "its partitions are the other's"
    )
    # A static member keeps its place for a session.
    assert moved_s < (SETTLE_S if static else LONG_SESSION_MS / 1_000)
    deployment.finish()


def assignments(process: WorkerProcess) -> int:
    """How often a worker was given partitions."""
    return sum(line.get("event") == "partitions assigned" for line in process.events())


def test_row_20_sigterm_and_restart_of_a_static_member(deploy: Deploy) -> None:
    """Back within the session it has its partitions again, and nobody else has noticed."""
    deployment = deploy(kafka={"session.timeout.ms": LONG_SESSION_MS})
    leaving, other = deployment.start_all("one", "two")
    deployment.feed(crawl(seed=21, count=MESSAGES // 2))
    deployment.until_all_committed()
    moved = [line for line in other.events() if str(line["event"]).startswith("partitions")]
    assert leaving.stop() == 0
    deployment.start_all("one")
    deployment.feed(crawl(seed=22, count=MESSAGES // 2))
    deployment.finish()
    assert moved == [line for line in other.events() if str(line["event"]).startswith("partitions")]


@pytest.mark.slow
def test_row_22_rebalance_while_a_transaction_is_pending(deploy: Deploy) -> None:
    """
    A member dies with offsets pending and partitions move: committed offsets are kept, the others
    work on.
    """
    deployment = deploy(kafka={"transaction.timeout.ms": 10_000}, static_membership=False)
    dying = deployment.start_all("one", fault="after-offsets:kill:6")[0]
    deployment.start_all("two")
    deployment.feed(crawl(seed=22, count=MESSAGES))
    dying.wait()
    deployment.start_all("three")
    deployment.feed(crawl(seed=23, count=MESSAGES))
    assert deployment.finish().log_rows_repeated == 0
