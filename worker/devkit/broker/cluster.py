"""A real Apache Kafka of one or three nodes on loopback: start, break, mend and end it."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import platformdirs

from worker.devkit.broker import jars as jar_files
from worker.devkit.broker.guard import Guard
from worker.devkit.broker.java import Java, find_java
from worker.devkit.broker.layout import NO_EXTRAS, Extras, Layout, lay_out
from worker.devkit.broker.node import Node
from worker.devkit.broker.serving import NodeState, PortTakenError, state_of, wait_serving
from worker.errors import StopError

STOP_GRACE_S = 20.0
STARTS_MAX = 3  # a free port can be taken between its choice and its use


@dataclass(frozen=True)
class Runtime:
    """What a broker needs on this machine: a Java, and the jars of its class path."""

    java: Java
    jars: tuple[Path, ...]


def prepare(*, repository: str | None = None, advance: jar_files.Advance = lambda _: None) -> Runtime:
    """
    Find a Java and fetch the jars that are not there yet.

    Raises:
        StopError: no broker can be had here; the text has the reason and the remedy.
    """
    return Runtime(find_java(), jar_files.fetch(repository=repository, advance=advance))


def default_data() -> Path:
    """Return where `neardup broker start` keeps its data."""
    return platformdirs.user_data_path("neardup") / "kafka"


class EmbeddedKafka:
    """
    A Kafka cluster that belongs to this process, or with `detached` one that stays.

    As a context manager it serves when the block begins and leaves no process, no port and (without `data`) no file
    behind, however the block or the process ends, SIGKILL included.

        with EmbeddedKafka(nodes=3) as kafka:
            use(kafka.bootstrap)
            kafka.kill(2)
            kafka.up(2)

    Args:
        nodes: 1, or 3 for replicated topics that survive the loss of a node.
        port: of the first node, the others follow; 0 takes free ones.
        data: the folder of data and logs, kept; a temporary one when None.
        runtime: from `prepare`; prepared at the start when None.
        relayed: each node listens a second time, for clients behind a relay that a test can pause: see `relayed_ports`.
        extras: further listeners and settings of the nodes, for tests of security.
        detached: the nodes go on when this process ends (`neardup broker start`).
    """

    def __init__(
        self,
        nodes: int = 1,
        port: int = 0,
        data: Path | None = None,
        *,
        runtime: Runtime | None = None,
        relayed: bool = False,
        extras: Extras = NO_EXTRAS,
        detached: bool = False,
    ) -> None:
        if detached and data is None:
            raise ValueError("detached needs data, got None: nobody would remove a temporary folder")
        self.nodes, self._port = nodes, port
        self._kept = data.absolute() if data is not None else None
        self._data: Path | None = self._kept
        self._runtime = runtime
        self._relayed = relayed
        self._extras = extras
        self._detached = detached
        self._layout: Layout | None = None
        self._nodes: dict[int, Node] = {}
        self._guard: Guard | None = None

    @classmethod
    def attach(cls, data: Path) -> Self:
        """
        Take up a cluster that was started detached, running or not.

        Raises:
            StopError: there is none in this folder.
        """
        layout = Layout.load(data / "cluster.json")
        if layout is None:
            raise StopError(f"no broker was started in {data}: `neardup broker start --data {data}` does")
        cluster = cls(len(layout.client_ports), layout.client_ports[0], data, detached=True)
        cluster._take(layout)
        return cluster

    @property
    def bootstrap(self) -> str:
        """The addresses for clients: "127.0.0.1:9092", several joined by a comma."""
        if self._layout is None:
            raise ValueError("the broker was not started: it has no address yet")
        return self._layout.bootstrap

    @property
    def relayed_bootstrap(self) -> str:
        """The addresses for clients behind the relays."""
        return self._layout.relayed_bootstrap if self._layout else ""

    def extra_bootstrap(self, listener: str) -> str:
        """Return the addresses of one of the further listeners."""
        return self._layout.extra_bootstrap(listener) if self._layout else ""

    @property
    def relayed_ports(self) -> tuple[tuple[int, int], ...]:
        """Of each node its second port, and the port where a relay to it must listen."""
        return self._layout.relayed_ports if self._layout else ()

    @property
    def data(self) -> Path:
        """The folder of data and logs."""
        if self._data is None:
            raise ValueError("the broker was not started: it has no folder yet")
        return self._data

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """
        Start every node and wait until all serve.

        Raises:
            StopError: no Java or jars, a port in use, a broker on the same data, or a node that ended; with the remedy.
        """
        self._runtime = self._runtime or prepare()
        self._refuse_foreign_data()
        for starts_left in reversed(range(STARTS_MAX)):
            try:
                self._start_once()
            except PortTakenError:
                if self._port or not starts_left:
                    raise
            else:
                return

    def _start_once(self) -> None:
        """Start on a new layout; a start that fails leaves nothing running."""
        layout = lay_out(self.nodes, self._port, relayed=self._relayed, extras=self._extras)
        try:
            self._make_data()
            self._take(layout)
            self._guard = Guard(self.data, remove=self._kept is None)
            self._launch(self._nodes.values())
            if self._detached:
                self._dismiss_guard()
        except BaseException:
            self.stop(grace_s=0)
            raise

    def stop(self, grace_s: float = STOP_GRACE_S) -> None:
        """End every node: in order when the data is kept, at once when it is not. Safe to call again."""
        if self._kept is not None and grace_s > 0:
            for node in self._nodes.values():
                node.terminate()
            deadline = time.monotonic() + grace_s
            for node in self._nodes.values():
                node.wait_ended(deadline - time.monotonic())
        for node in self._nodes.values():
            node.kill()
        self._dismiss_guard()
        if self._kept is None and self._data is not None:
            shutil.rmtree(self._data, ignore_errors=True)
            self._data = None

    def kill(self, node: int) -> None:
        """End one node as a power cut would (SIGKILL); gone when this returns."""
        self._node(node).kill()

    def up(self, node: int) -> None:
        """Start a node again on its data, and wait until it serves and all that run know it. A running one is left."""
        if self._node(node).pid() is None:
            self._runtime = self._runtime or prepare()
            self._launch([self._node(node)])

    def pause(self, node: int) -> None:
        """Freeze a node (SIGSTOP): connections stay open, nothing answers."""
        self._node(node).pause()

    def resume(self, node: int) -> None:
        """Let a frozen node go on (SIGCONT)."""
        self._node(node).resume()

    def states(self) -> list[NodeState]:
        """Return what each node does now."""
        return [state_of(node) for node in self._nodes.values()]

    def _dismiss_guard(self) -> None:
        if self._guard is not None:
            self._guard.dismiss()
            self._guard = None

    def _node(self, node: int) -> Node:
        if node not in self._nodes:
            raise ValueError(f"node must be one of {', '.join(map(str, self._nodes)) or 'none'}, got {node}")
        return self._nodes[node]

    def _refuse_foreign_data(self) -> None:
        saved = Layout.load(self._kept / "cluster.json") if self._kept else None
        if self._kept is None or saved is None:
            return
        for id_ in saved.nodes:
            pid = Node(id_, saved, self._kept).pid()
            if pid is not None:
                raise StopError(
                    f"a broker runs on {self._kept} already (node {id_}, process {pid}, {saved.bootstrap}): "
                    f"end it with `neardup broker stop --data {self._kept}`, or choose another --data"
                )
        if len(saved.nodes) != self.nodes:
            raise StopError(
                f"{self._kept} holds a cluster with --nodes {len(saved.nodes)}, not {self.nodes}: "
                "choose another --data, or remove that folder with all its topics"
            )

    def _make_data(self) -> None:
        try:
            if self._data is None:
                self._data = Path(tempfile.mkdtemp(prefix="neardup-kafka-"))
            self._data.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StopError(f"cannot keep the broker's data in {self._data}: {error.strerror}. Use --data") from error

    def _take(self, layout: Layout) -> None:
        self._layout = layout
        self._nodes = {id_: Node(id_, layout, self.data) for id_ in layout.nodes}

    def _launch(self, nodes: Collection[Node]) -> None:
        """Start these nodes and wait until they serve; the others that run must know them."""
        assert self._runtime is not None and self._layout is not None
        try:
            self._layout.save(self.data / "cluster.json")
            for node in nodes:
                node.launch(self._runtime.java, self._runtime.jars)
        except OSError as error:
            raise StopError(f"cannot start a broker in {self.data}: {error.strerror}") from error
        for node in nodes:
            node.go()
        wait_serving(self._nodes.values(), nodes)
