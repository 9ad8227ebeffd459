"""Whether nodes serve, and why one does not."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass

from worker.devkit.broker.node import Node
from worker.devkit.broker.wire import ask_metadata
from worker.errors import StopError

SERVE_TIMEOUT_S = 300.0  # 3 s for one node and 8 s for three on an idle machine of two cores, minutes on a busy one
POLL_S = 0.1


class PortTakenError(StopError):
    """A port was free when it was chosen and is not any more."""


@dataclass(frozen=True)
class NodeState:
    """A node as `status` shows it: `pid` is None when it does not run; `serves` when it answers with its brokers."""

    node: int
    port: int
    pid: int | None
    serves: bool


def state_of(node: Node) -> NodeState:
    """Return what a node does now.  Cost: a request to it, at most a second."""
    pid = node.pid()
    answer = ask_metadata(node.port) if pid is not None else None
    return NodeState(node.id, node.port, pid, serves=answer is not None and node.id in answer.brokers)


def wait_serving(nodes: Collection[Node], awaited: Collection[Node]) -> None:
    """
    Wait until every node that runs serves and knows every other one at its port.

    Args:
        nodes: of the cluster, running or not.
        awaited: the ones that were just started: it is an error when one of them ends.
    Raises:
        StopError: a node ended by itself or does not serve in time; the text has the reason or the end of its log.
    """
    deadline = time.monotonic() + SERVE_TIMEOUT_S
    while True:
        running = [node for node in nodes if node.pid() is not None and not node.paused]
        for node in awaited:
            if node not in running:
                raise explain_end(node)
        if all(_knows(node, running) for node in running):
            return
        if time.monotonic() > deadline:
            slow = [node for node in running if not _knows(node, running)] or running
            raise StopError(
                f"node {slow[0].id} does not serve after {SERVE_TIMEOUT_S:.0f} s; the end of its log "
                f"{slow[0].log_path}:\n{slow[0].log_tail()}"
            )
        time.sleep(POLL_S)


def explain_end(node: Node) -> StopError:
    """Say why a node ended by itself, by its log."""
    log = node.log_tail()
    if "Address already in use" in log:
        return PortTakenError(f"a port of node {node.id} ({node.port}) is in use: choose another with --port")
    if "No space left on device" in log:
        return StopError(f"no space left for the broker's data in {node.folder}: free some or use another --data")
    if "insufficient memory" in log or "OutOfMemoryError" in log:
        return StopError(f"node {node.id} has not enough memory (it needs 512 MB): see {node.log_path}")
    return StopError(f"node {node.id} ended by itself; the end of its log {node.log_path}:\n{log}")


def _knows(node: Node, running: Collection[Node]) -> bool:
    """Return whether a node serves and lists every running one at its port."""
    answer = ask_metadata(node.port)
    return (
        answer is not None
        and answer.controller >= 0
        and all(answer.brokers.get(other.id) == other.port for other in running)
    )
