"""What goes wrong in a run, and when: a pure function of the seed."""

from __future__ import annotations

import random
from enum import StrEnum
from typing import NamedTuple

from worker.shell.runtime.fault_hooks import Point

WORKERS = ("w1", "w2", "w3")
NODES = ("1", "2", "3")
EVERYBODY = "*"

FAULTS_SPAN_S = (2.0, 16.0)
FEED_S = 18.0
BROKER_REST_S = 9.0  # a killed node may register again when its session (5 s) has run out


class Kind(StrEnum):
    """What happens to a worker, to a node, or between them."""

    KILL = "kill"  # SIGKILL, started again after `for_s`
    FREEZE = "freeze"  # SIGSTOP, SIGCONT after `for_s`: sometimes past the session
    LEAVE = "leave"  # SIGTERM, started again after `for_s`
    JOIN = "join"  # a guest, who leaves after `for_s`
    POINT = "point"  # killed, and started again with `detail` as its fault point
    DISK_FULL = "disk-full"  # no snapshot can be written for `for_s`
    # Killed, and started again on a disk that takes `detail` for each part of a snapshot.
    DISK_SLOW = "disk-slow"
    # Nothing passes between the worker (or all) and the node (or all)
    NETWORK_PAUSE = "network-pause"
    NETWORK_CUT = "network-cut"  # its connections to the node are closed, once
    BROKER_KILL = "broker-kill"  # SIGKILL, started again after `for_s`
    BROKER_FREEZE = "broker-freeze"  # SIGSTOP, SIGCONT after `for_s`


_KINDS = {  # how often each is drawn, and for how many seconds
    Kind.KILL: (4, 0.0, 8.0),
    Kind.FREEZE: (3, 1.0, 11.0),
    Kind.LEAVE: (2, 0.0, 7.0),
    Kind.JOIN: (2, 3.0, 10.0),
    Kind.POINT: (4, 0.0, 2.0),
    Kind.DISK_FULL: (1, 2.0, 6.0),
    Kind.DISK_SLOW: (1, 0.0, 2.0),
    Kind.NETWORK_PAUSE: (3, 0.5, 9.0),
    Kind.NETWORK_CUT: (1, 0.0, 0.0),
    Kind.BROKER_KILL: (4, 0.5, 6.0),
    Kind.BROKER_FREEZE: (2, 1.0, 8.0),
}
SLOW_MS = (20, 100, 300)  # a snapshot has some fifty parts
_ACTIONS = ("kill", "kill", "kill-in-{}-ms", "sleep-{}-ms")


class Fault(NamedTuple):
    """
    One fault: when it begins, what it does to whom, for how long. `node` is for the network alone.
    """

    at_s: float
    kind: Kind
    target: str
    for_s: float
    node: str = ""
    detail: str = ""

    def __str__(self) -> str:
        return " ".join(
            part
            for part in (f"{self.at_s:.1f}s", self.kind.value, self.target, self.node, self.detail)
            if part
        ) + (f" for {self.for_s:.1f}s" if self.for_s else "")


class Schedule(NamedTuple):
    """A run: the deployment, the crawl and the faults, in the order of their beginnings."""

    seed: int
    partitions: int
    static_membership: bool
    batch_documents_max: int
    snapshot_interval_s: int
    documents: int
    faults: tuple[Fault, ...]


def plan(seed: int) -> Schedule:
    """
    Return the run of this seed.

    A worker or node has one fault at a time, and no two nodes are away at once: with two of three
    gone nothing can be written, and there is nothing to prove.

    >>> plan(1) == plan(1)
    True
    """
    rng = random.Random(f"neardup chaos {seed}")
    return Schedule(
        seed,
        partitions=rng.randint(2, 8),
        static_membership=rng.random() < 0.6,
        batch_documents_max=rng.choice((5, 20, 50, 200)),
        snapshot_interval_s=rng.randint(1, 4),
        documents=rng.randint(800, 2_400),
        faults=tuple(_faults(rng)),
    )


def _faults(rng: random.Random) -> list[Fault]:
    free_at = dict.fromkeys((*WORKERS, "brokers"), 0.0)
    faults: list[Fault] = []
    at_s, stop_s = FAULTS_SPAN_S
    guests = 0
    while at_s < stop_s:
        [kind] = rng.choices(list(_KINDS), [weight for weight, *_ in _KINDS.values()])
        for_s = round(rng.uniform(*_KINDS[kind][1:]), 1)
        node = detail = ""
        if kind is Kind.JOIN:
            guests += 1
            target = busy = f"guest-{guests}"
        elif kind in (Kind.BROKER_KILL, Kind.BROKER_FREEZE):
            target, busy = rng.choice(NODES), "brokers"
        else:
            target = busy = rng.choice(WORKERS)
            if kind is Kind.POINT:
                detail = _point(rng)
            elif kind is Kind.DISK_SLOW:
                detail = f"{Point.SNAPSHOT}:slow-{rng.choice(SLOW_MS)}-ms:1"
            elif kind in (Kind.NETWORK_PAUSE, Kind.NETWORK_CUT):
                node = rng.choice((*NODES, EVERYBODY))
        if free_at.get(busy, 0.0) <= at_s:
            faults.append(Fault(round(at_s, 1), kind, target, for_s, node, detail))
            free_at[busy] = at_s + for_s + (BROKER_REST_S if busy == "brokers" else 1.0)
        at_s += rng.uniform(0.3, 2.2)
    return faults


def _point(rng: random.Random) -> str:
    action = rng.choice(_ACTIONS)
    delay_ms = (
        rng.choice((0, 1, 2, 5, 9))
        if action.startswith("kill")
        else rng.choice((500, 5_000, 7_000))
    )
    return f"{rng.choice(list(Point))}:{action.format(delay_ms)}:{rng.randint(1, 6)}"
