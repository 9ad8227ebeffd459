"""
`make chaos`: the schedule is its seed's alone, the relay holds and cuts, the checker can fail; and
one run of it.
"""

from __future__ import annotations

import itertools
import socket
import socketserver
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from tests.conftest import free_ports
from tests.faults import cluster
from tests.faults.chaos.checker import Topics, judge
from tests.faults.chaos.relay import Relay
from tests.faults.chaos.run import Chaos
from tests.faults.chaos.schedule import EVERYBODY, FAULTS_SPAN_S, NODES, SLOW_MS, Kind, plan
from tests.shell.simulation import without_faults
from worker.devkit.broker import EmbeddedKafka
from worker.shell.admin.published import AnswerMessage
from worker.shell.runtime.fault_hooks import VARIABLE, from_environment

SEEDS = range(400)


@pytest.fixture(scope="module")
def topics() -> Topics:
    """What a group without faults has written."""
    return without_faults(5).topics()


def _counts(topics: Topics) -> tuple[int, int, int]:
    result = judge(topics)
    assert result.clean == (result[:3] == (0, 0, 0))
    return result[:3]


def test_a_schedule_is_its_seeds_alone_and_has_every_kind_of_fault() -> None:
    """
    Planned again it is the same, another seed gives another; a slow disk is slow from its first
    part on.
    """
    plans = [plan(seed) for seed in SEEDS]
    assert plans == [plan(seed) for seed in SEEDS]
    assert len({one.faults for one in plans}) == len(SEEDS)
    faults = [fault for one in plans for fault in one.faults]
    assert {fault.kind for fault in faults} == set(Kind)
    details = {fault.detail for fault in faults if fault.kind is Kind.DISK_SLOW}
    assert details == {f"snapshot:slow-{ms}-ms:1" for ms in SLOW_MS}


def test_faults_come_in_their_order_and_never_take_two_nodes_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    With two of three replicas gone nothing can be written; a worker that is started with a point
    knows it.
    """
    for seed in SEEDS:
        faults = plan(seed).faults
        times = [fault.at_s for fault in faults]
        assert times == sorted(times) and times[-1] <= FAULTS_SPAN_S[1]
        away = [fault for fault in faults if fault.kind in (Kind.BROKER_KILL, Kind.BROKER_FREEZE)]
        assert {fault.target for fault in away} <= set(NODES)
        for before, after in itertools.pairwise(away):
            assert after.at_s > before.at_s + before.for_s + 5
        for fault in faults:
            assert (fault.kind in (Kind.POINT, Kind.DISK_SLOW)) == bool(fault.detail)
            monkeypatch.setenv(VARIABLE, fault.detail)
            from_environment()


def test_the_check_can_fail(topics: Topics) -> None:
    """
    Lost, repeated and wrong are counted, of answers and of new documents; `test_audit` has more.
    """
    answers, new = topics.answers, topics.new
    assert _counts(topics) == (0, 0, 0)
    assert _counts(topics._replace(answers=[*answers, answers[7]])) == (0, 1, 0)
    assert _counts(topics._replace(answers=[*answers[:7], *answers[8:]])) == (1, 0, 0)
    assert _counts(topics._replace(answers=[*answers, AnswerMessage(b"k", b"{}", (), False)])) == (
        0,
        0,
        1,
    )
    assert _counts(topics._replace(new=new[1:])) == (1, 0, 0)
    assert _counts(topics._replace(new=[*new, new[0]])) == (0, 0, 1)
    assert _counts(topics._replace(new=[(new[0][0], new[0][1], (("other", b""),)), *new[1:]])) == (
        0,
        0,
        1,
    )
    first, second, *others = new
    swapped = [(first[0], *second[1:]), (second[0], *first[1:]), *others]
    assert _counts(topics._replace(new=swapped)) == (0, 0, 2)


def test_what_was_fed_and_never_consumed_is_lost(topics: Topics) -> None:
    """Offsets that the group has not committed, and documents that the topic has not."""
    kept = [
        a
        for a in topics.answers
        if a.is_dead_letter or orjson.loads(a.value or b"")["source"]["partition"] != 0
    ]
    gone = len(topics.answers) - len(kept)
    assert gone > 0
    assert (
        _counts(topics._replace(answers=kept, committed={**topics.committed, 0: None}))[0] >= gone
    )
    assert _counts(topics._replace(fed=topics.fed + 3)) == (3, 0, 0)


def _request(who: str) -> bytes:
    body = struct.pack(">hhih", 18, 3, 1, len(who)) + who.encode()
    return struct.pack(">i", len(body)) + body


class _Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while data := self.request.recv(4_096):
            self.request.sendall(data)


@pytest.fixture
def echo() -> Iterator[int]:
    """A server that sends back what it gets; its port."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def _ask(client: socket.socket, data: bytes, wait_s: float) -> bytes:
    client.settimeout(wait_s)
    client.sendall(data)
    try:
        return client.recv(4_096)
    except TimeoutError:
        return b"silence"


def test_a_relay_holds_one_worker_and_lets_the_other_pass(echo: int) -> None:
    """Paused, nothing comes; resumed, what was sent meanwhile comes; cut, the connection ends."""
    [port] = free_ports()
    with (
        Relay([(echo, port)]) as relay,
        socket.create_connection(("127.0.0.1", port)) as one,
        socket.create_connection(("127.0.0.1", port)) as two,
    ):
        for client, who in ((one, "w1"), (two, "w2")):
            request = _request(who)  # which names its client, however few bytes come at once
            assert _ask(client, request[:9], 30) + _ask(client, request[9:], 30) == request
        relay.pause("w1", EVERYBODY)
        assert _ask(one, b"held", 0.3) == b"silence"
        assert _ask(two, b"passes", 30) == b"passes"
        relay.resume("w1", EVERYBODY)
        one.settimeout(30)
        assert one.recv(4_096) == b"held"
        relay.cut("w1", "1")
        assert one.recv(4_096) == b""
        assert _ask(two, b"passes", 30) == b"passes"


@pytest.mark.slow
def test_a_random_run_is_clean(kafka3: EmbeddedKafka, tmp_path: Path) -> None:
    """
    The same schedule each time, so that a failure is a change's; `make chaos` looks for new ones.
    """
    seed = 20
    cluster.until_in_sync(kafka3.bootstrap)
    with Relay(kafka3.extra_ports("RELAYED")) as relay:
        outcome = Chaos(kafka3, relay, plan(seed), tmp_path / f"seed-{seed}").run()
    assert outcome.clean, outcome.line()
    assert not (tmp_path / f"seed-{seed}").exists()
