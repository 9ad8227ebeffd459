"""
A real Apache Kafka of one or three nodes on loopback: start, break, repair and stop it.

    layout      which ports each node has, and the settings that it starts with
    node        a Java process with its folder, its lock and its log
    guard       kills the nodes when their owner is gone, however it went
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Self

import platformdirs

from worker.devkit.broker.runtime import Runtime, prepare
from worker.errors import StopError
from worker.shell.kafka.admin import known_brokers

LOOPBACK = "127.0.0.1"
CONTROLLER_PORT_STEP = 100  # node i: clients on port + i - 1, controllers on port + 100 + i
# Free ports are taken from below the range that systems give to outgoing connections. From inside
# it a client that keeps trying a killed node could be given that very port as its own, connect to
# itself, and block the node's return.
FREE_PORT_MIN = 20_000
FREE_PORT_MAX = 32_000
FREE_PORT_TRIES = 1_000

# 3 s for one node and 8 s for three on an idle machine of two cores, minutes on a busy one.
SERVE_TIMEOUT_S = 300.0
SERVE_POLL_S = 0.1
# That a node has to say which brokers it knows: a port that is open does not say who serves.
ANSWER_S = 1.0
POLL_S = 0.05
# A killed process is gone in milliseconds; more means that the machine is stuck.
END_TIMEOUT_S = 10.0
LOCK_TRIES_S = 1.0  # somebody who asks for the state holds the lock for an instant
STOP_GRACE_S = 20.0
STARTS_MAX = 3  # a free port can be taken between its choice and its use
LOG_LINES_SHOWN = 12

CLUSTER_ID = "bmVhcmR1cC1sb29wYmFjaw"  # any 16 bytes, base64url without padding
HEAP = ("-Xms128m", "-Xmx512m")
# Not G1, Java's default: until Java 25.0.3 it may move arrays that native code holds, and with them
# corrupt what zstd writes (JDK-8377811). And for such a heap the serial collector is the smaller
# one.
COLLECTOR = "-XX:+UseSerialGC"

# The node waits for a line before it does anything, so that its number is on disk and its guard
# stands before it runs; when the starter is gone first, it ends. `exec` makes this process the Java
# process: one number from first to last.
LAUNCH = """
read -r go || exit 1
exec < /dev/null
meta=$1 java=$2
shift 2
[ -f "$meta" ] || "$java" "$@" $FOR_SHORT kafka.tools.StorageTool format \\
    -t "$CLUSTER_ID" -c server.properties || exit 1
exec "$java" "$@" kafka.Kafka server.properties
"""
# Kills the nodes of a folder when their owner is gone without a word, and removes the folder if it
# is named twice. The read ends when the owner's end of the pipe is closed, by SIGKILL too. A
# parent-death signal would be simpler, but exists on Linux only, and fires already when the thread
# ends that started the child. A number in a file is never another process's: a dead node keeps its
# number until the owner reaps it, and the owner empties the file when it does.
GUARD = """
read -r word && exit 0
for file in "$1"/node-*/node.pid; do
    read -r pid < "$file" && kill -9 "-$pid"
done
[ -z "$2" ] || { sleep 1; rm -rf "$2"; }
"""


@dataclass(frozen=True)
class Extras:
    """
    Settings and listeners that tests add to every node of a cluster.

    Args:
        listeners: name -> protocol of further ones for clients.
        settings: of the node; they win.
        relayed: each further listener names clients another port than its own: a relay must listen
            there.
    """

    listeners: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    relayed: bool = False


NO_EXTRAS = Extras()
Ports = tuple[tuple[int, int], ...]  # per node: where it listens, and what it tells clients


@dataclass(frozen=True)
class ClusterLayout:
    """The ports of each node; node ids are 1, 2, 3."""

    client_ports: tuple[int, ...]
    controller_ports: tuple[int, ...]
    extra_ports: Mapping[str, Ports] = field(default_factory=dict)  # of the listeners in `extras`
    extras: Extras = NO_EXTRAS

    @property
    def nodes(self) -> range:
        return range(1, len(self.client_ports) + 1)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{LOOPBACK}:{port}" for port in self.client_ports)

    def save(self, path: Path) -> None:
        ports = {"client_ports": self.client_ports, "controller_ports": self.controller_ports}
        # A process that reads it meanwhile finds the old file or the new one.
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps(ports) + "\n", encoding="utf-8")
        temporary.replace(path)

    @classmethod
    def load(cls, path: Path) -> ClusterLayout | None:
        """Return the saved layout, or None where there is none that can be read."""
        try:
            ports = json.loads(path.read_text(encoding="utf-8"))
            return cls(
                tuple(map(int, ports["client_ports"])), tuple(map(int, ports["controller_ports"]))
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None


def lay_out(nodes: int, port: int, extras: Extras = NO_EXTRAS) -> ClusterLayout:
    """
    Choose the ports of `nodes` nodes: from `port` up, or free ones when it is 0.

    >>> layout = lay_out(3, 0)
    >>> len({*layout.client_ports, *layout.controller_ports})
    6
    """
    if nodes not in {1, 3}:
        raise ValueError(f"nodes must be 1 or 3, got {nodes}: a quorum of 2 survives no failure")
    free = _free_ports()
    extra_ports: dict[str, Ports] = {}
    for name in extras.listeners:
        own = tuple(islice(free, nodes))
        extra_ports[name] = tuple(
            zip(own, islice(free, nodes) if extras.relayed else own, strict=True)
        )
    if port == 0:
        return ClusterLayout(
            tuple(islice(free, nodes)), tuple(islice(free, nodes)), extra_ports, extras
        )
    highest = port + CONTROLLER_PORT_STEP + nodes
    if not 0 < port < highest <= 65_535:
        raise ValueError(
            f"port must be 0 or leave room for {highest - port} more below 65536, got {port}"
        )
    clients = tuple(range(port, port + nodes))
    controllers = tuple(one + CONTROLLER_PORT_STEP + 1 for one in clients)
    for each in (*clients, *controllers):
        if not is_free(each):
            raise StopError(
                f"port {each} on {LOOPBACK} is in use: end what listens there, "
                f"or choose another with --port (0 takes free ones)"
            )
    return ClusterLayout(clients, controllers, extra_ports, extras)


def is_free(port: int) -> bool:
    """
    Return whether a server could listen on this loopback port now.

    Connections of an earlier server that are still closing do not count.
    """
    try:
        socket.create_server((LOOPBACK, port)).close()
    except OSError:
        return False
    return True


def _free_ports() -> Iterator[int]:
    yield from filter(is_free, random.sample(range(FREE_PORT_MIN, FREE_PORT_MAX), FREE_PORT_TRIES))
    raise StopError(f"no free ports on {LOOPBACK} between {FREE_PORT_MIN} and {FREE_PORT_MAX}")


def server_properties(layout: ClusterLayout, node: int, log_directory: Path) -> str:
    """Return the settings of one node: those of node.properties, its places, and what tests add."""
    if "," in str(log_directory):
        raise StopError(
            f"Kafka cannot keep data in a directory with a comma in its path: {log_directory}"
        )
    nodes = len(layout.client_ports)
    replicas, in_sync = (3, 2) if nodes == 3 else (1, 1)
    client = layout.client_ports[node - 1]
    controller = layout.controller_ports[node - 1]
    voters = ",".join(
        f"{id_}@{LOOPBACK}:{port}"
        for id_, port in zip(layout.nodes, layout.controller_ports, strict=True)
    )
    listeners = {"PLAINTEXT": (client, client)}
    listeners |= {name: ports[node - 1] for name, ports in layout.extra_ports.items()}
    protocols = dict.fromkeys(("CONTROLLER", "PLAINTEXT"), "PLAINTEXT") | dict(
        layout.extras.listeners
    )
    settings = {
        "node.id": node,
        "controller.quorum.voters": voters,
        "listeners": ",".join(
            [f"{name}://{LOOPBACK}:{own}" for name, (own, _) in listeners.items()]
            + [f"CONTROLLER://{LOOPBACK}:{controller}"]
        ),
        "advertised.listeners": ",".join(
            f"{name}://{LOOPBACK}:{told}" for name, (_, told) in listeners.items()
        ),
        "listener.security.protocol.map": ",".join(
            f"{name}:{protocol}" for name, protocol in protocols.items()
        ),
        "log.dirs": log_directory,
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        **layout.extras.settings,
    }
    # Java reads Latin-1 with \uXXXX escapes, and JSON has the same.
    own = "".join(f"{name}={json.dumps(str(value))[1:-1]}\n" for name, value in settings.items())
    # The last one counts.
    return Path(__file__).with_name("node.properties").read_text(encoding="ascii") + own


class Node:
    """
    One node in its folder: `server.properties`, `node.log`, `node.pid` and Kafka's own `data`.

    The running process holds a lock on `node.pid`. So if the file is locked, the process that it
    names is the node.
    """

    def __init__(self, node: int, layout: ClusterLayout, data: Path) -> None:
        self.id = node
        self.port = layout.client_ports[node - 1]
        self._layout = layout
        self.folder = data / f"node-{node}"
        self.log_path = self.folder / "node.log"
        self._pid_path = self.folder / "node.pid"
        self._process: subprocess.Popen[bytes] | None = None
        self.paused = False

    def pid(self) -> int | None:
        """Return the number of the running process, None when the node does not run."""
        if self._process is not None:
            if self._process.poll() is None:
                return self._process.pid  # whether or not an interrupted launch has noted it
            self._process = None  # reaped: its number may become another process's
            self._forget_pid()
        try:
            with self._pid_path.open("r") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return int(file.read().strip() or 0) or None
        except FileNotFoundError:
            pass
        return None

    def launch(self, runtime: Runtime) -> None:
        """
        Start the node's process, which must not be running.

        A new node's storage is formatted first.
        """
        data = self.folder / "data"
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "server.properties").write_text(
            server_properties(self._layout, self.id, data), encoding="ascii"
        )
        shutil.copyfile(
            Path(__file__).with_name("log4j2.properties"), self.folder / "log4j2.properties"
        )
        options = (
            *HEAP,
            COLLECTOR,
            "-Djava.awt.headless=true",
            "-Dlog4j2.configurationFile=log4j2.properties",
        )
        environment = {
            **os.environ,
            "CLASSPATH": os.pathsep.join(map(str, runtime.jars)),
            "CLUSTER_ID": CLUSTER_ID,
            "FOR_SHORT": "-XX:TieredStopAtLevel=1",  # formats in 1.7 s instead of 2.6
            "LC_ALL": "C.UTF-8",  # Java reads paths by the locale
        }
        with self._pid_path.open("a+") as pid_file, self.log_path.open("ab") as log:
            self._lock(pid_file.fileno())
            self._process = subprocess.Popen(  # noqa: S603  # our own script
                [
                    "/bin/sh",
                    "-c",
                    LAUNCH,
                    "node",
                    data / "meta.properties",
                    runtime.java,
                    *options,
                ],
                cwd=self.folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=[pid_file.fileno()],  # the lock lives as long as the process
                # Ctrl-C is for its starter, who decides in which order things end.
                start_new_session=True,
            )
            pid_file.truncate(0)
            pid_file.write(f"{self._process.pid}\n")
        self.paused = False

    def go(self) -> None:
        """Let the launched process begin."""
        assert self._process is not None and self._process.stdin is not None, "launch comes first"
        # If the process has ended by itself, the caller notices while it waits for the node.
        with suppress(BrokenPipeError):
            self._process.stdin.write(b"go\n")
            self._process.stdin.close()

    def _lock(self, pid_file: int) -> None:
        deadline = time.monotonic() + LOCK_TRIES_S
        while True:
            try:
                return fcntl.flock(pid_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise self.runs_already() from None
                time.sleep(POLL_S)

    def runs_already(self) -> StopError:
        """Return the refusal of a second broker on this data."""
        data = self.folder.parent
        return StopError(
            f"a broker runs on {data} already (node {self.id}, process {self.pid()}, "
            f"{self._layout.bootstrap}): use it, "
            f"end it with `neardup broker stop --data {data}`, or choose another --data"
        )

    def _forget_pid(self) -> None:
        with suppress(FileNotFoundError):
            os.truncate(self._pid_path, 0)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the node's process group, if it runs."""
        pid = self.pid()
        if pid is not None:
            with suppress(ProcessLookupError):
                os.killpg(pid, number)

    def pause(self) -> None:
        """Freeze the process: its connections stay open and nothing answers."""
        self.signal(signal.SIGSTOP)
        self.paused = True

    def resume(self) -> None:
        self.signal(signal.SIGCONT)
        self.paused = False

    def kill(self) -> None:
        """End the process at once, as a power cut would, and wait until it is gone."""
        self.signal(signal.SIGKILL)
        self.wait_ended(END_TIMEOUT_S)

    def terminate(self) -> None:
        """Ask the process to end in order; it goes on to do so."""
        self.signal(signal.SIGTERM)
        self.resume()  # a frozen process would not hear it

    def wait_ended(self, timeout_s: float) -> None:
        """Wait until the process and its ports are gone, but no longer than this."""
        deadline = time.monotonic() + timeout_s
        while self.pid() is not None or not is_free(self.port):
            if time.monotonic() > deadline:
                return
            time.sleep(POLL_S)
        self._forget_pid()
        self.paused = False

    def knows(self, nodes: Collection[Node]) -> bool:
        """Return whether it serves and lists each of these at its port."""
        brokers = known_brokers(f"{LOOPBACK}:{self.port}", ANSWER_S)
        return all(brokers.get(node.id) == node.port for node in nodes)

    def log_tail(self) -> str:
        """Return the last lines of the log."""
        try:
            lines = self.log_path.read_text("utf-8", "replace").splitlines()
        except FileNotFoundError:
            return ""
        return "\n".join(lines[-LOG_LINES_SHOWN:])


class PortTakenError(StopError):
    """A port was free when it was chosen and is not any more."""


def wait_serving(nodes: Collection[Node], awaited: Collection[Node]) -> None:
    """
    Wait until every running node serves and knows the others.

    Raises:
        StopError: it took too long; the error has the end of a node's log.
    """
    deadline = time.monotonic() + SERVE_TIMEOUT_S
    while True:
        running = [node for node in nodes if node.pid() is not None and not node.paused]
        for node in awaited:
            if node not in running:
                raise explain_end(node)
        slow = [node for node in running if not node.knows(running)]
        if not slow:
            return
        if time.monotonic() > deadline:
            raise StopError(
                f"node {slow[0].id} does not serve after {SERVE_TIMEOUT_S:.0f} s; "
                f"the end of its log {slow[0].log_path}:\n{slow[0].log_tail()}"
            )
        time.sleep(SERVE_POLL_S)


def explain_end(node: Node) -> StopError:
    """Say why a node ended by itself, by its log."""
    log = node.log_tail()
    if "Address already in use" in log:
        return PortTakenError(
            f"a port of node {node.id} ({node.port}) is in use: choose another with --port"
        )
    if "No space left on device" in log:
        return StopError(
            f"no space left for the broker's data in {node.folder}: free some or use another --data"
        )
    if "insufficient memory" in log or "OutOfMemoryError" in log:
        return StopError(
            f"node {node.id} does not have enough memory (it needs 512 MB): see {node.log_path}"
        )
    return StopError(f"node {node.id} ended by itself; the end of its log {node.log_path}:\n{log}")


def default_data() -> Path:
    """Return where `neardup broker start` keeps its data."""
    return platformdirs.user_data_path("neardup") / "kafka"


class EmbeddedKafka:
    """
    A Kafka cluster that belongs to this process, or with `detached` one that stays.

    As a context manager it serves when the block begins and leaves no process, no port and (without
    `data`) no file behind, however the block or the process ends, SIGKILL included.

        with EmbeddedKafka(nodes=3) as kafka:
            use(kafka.bootstrap)
            kafka.kill(2)
            kafka.up(2)

    Args:
        nodes: 1, or 3 for replicated topics that survive the loss of a node.
        port: the port of the first node; the others follow. 0 takes free ports.
        data: the folder of data and logs, kept; a temporary one when None.
        runtime: from `prepare`; prepared at the start when None.
        extras: further listeners and settings of the nodes, for tests.
        detached: the nodes go on when this process ends (`neardup broker start`).
    """

    def __init__(
        self,
        nodes: int = 1,
        port: int = 0,
        data: Path | None = None,
        *,
        runtime: Runtime | None = None,
        extras: Extras = NO_EXTRAS,
        detached: bool = False,
    ) -> None:
        if detached and data is None:
            raise ValueError(
                "detached needs data, got None: nobody would remove a temporary folder"
            )
        self.nodes = nodes
        self._port = port
        self._kept = data.absolute() if data is not None else None
        self._data: Path | None = self._kept
        self._runtime = runtime
        self._extras = extras
        self._detached = detached
        self._layout: ClusterLayout | None = None
        self._nodes: dict[int, Node] = {}
        self._guard: subprocess.Popen[bytes] | None = None

    @classmethod
    def attach(cls, data: Path) -> Self:
        """
        Return a cluster that was started detached, whether it runs or not.

        Raises:
            StopError: there is none.
        """
        layout = ClusterLayout.load(data / "cluster.json")
        if layout is None:
            raise StopError(
                f"no broker was started in {data}: `neardup broker start --data {data}` does"
            )
        cluster = cls(len(layout.client_ports), layout.client_ports[0], data, detached=True)
        cluster._take(layout)
        return cluster

    @classmethod
    def revive(cls, data: Path, runtime: Runtime) -> Self | None:
        """
        Start the nodes of a detached cluster that do not run, on their data, while others run.

        Returns the cluster once all serve, or None if there is no such cluster.
        """
        if ClusterLayout.load(data / "cluster.json") is None:
            return None
        cluster = cls.attach(data)
        cluster._runtime = runtime
        missing = [number for number, node in cluster._nodes.items() if node.pid() is None]
        if not missing or len(missing) == cluster.nodes:
            return None
        for number in missing:
            cluster.up(number)
        return cluster

    @property
    def bootstrap(self) -> str:
        """The addresses for clients: "127.0.0.1:9092", several joined by a comma."""
        return self._started.bootstrap

    def extra_ports(self, listener: str) -> Ports:
        """
        Return the ports of an additional listener, by node: the one that it binds, and the one that
        it tells clients.
        """
        return self._started.extra_ports[listener]

    def extra_bootstrap(self, listener: str) -> str:
        """Return the bootstrap servers of an additional listener, as clients see them."""
        return ",".join(f"{LOOPBACK}:{told}" for _, told in self.extra_ports(listener))

    @property
    def _started(self) -> ClusterLayout:
        if self._layout is None:
            raise ValueError("the broker was not started: it has no address yet")
        return self._layout

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
        """Start every node and wait until all serve. Raises StopError with the remedy."""
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
        layout = lay_out(self.nodes, self._port, self._extras)
        try:
            self._make_data()
            self._take(layout)
            self._guard = subprocess.Popen(  # noqa: S603  # our own script
                [
                    "/bin/sh",
                    "-c",
                    GUARD,
                    "guard",
                    self.data,
                    self.data if self._kept is None else "",
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            self._launch(self._nodes.values())
            if self._detached:
                self._dismiss_guard()
        except BaseException:
            self.stop(grace_s=0)
            raise

    def stop(self, grace_s: float = STOP_GRACE_S) -> None:
        """
        End every node: in order when the data is kept, at once when it is not. Safe to call again.
        """
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
        """
        Start a node again on its data, unless it runs.

        Returns once it serves and all running nodes know it.
        """
        if self._node(node).pid() is None:
            self._runtime = self._runtime or prepare()
            self._launch([self._node(node)])

    def pause(self, node: int) -> None:
        """Freeze a node (SIGSTOP): connections stay open, nothing answers."""
        self._node(node).pause()

    def resume(self, node: int) -> None:
        """Let a frozen node go on (SIGCONT)."""
        self._node(node).resume()

    def pids(self) -> dict[int, int | None]:
        """Return the process of each node, None where it does not run."""
        return {node.id: node.pid() for node in self._nodes.values()}

    def _dismiss_guard(self) -> None:
        if self._guard is not None:
            with suppress(BrokenPipeError):
                self._guard.communicate(b"done\n")
            self._guard.wait()
            self._guard = None

    def _node(self, node: int) -> Node:
        if node not in self._nodes:
            raise ValueError(
                f"node must be one of {', '.join(map(str, self._nodes)) or 'none'}, got {node}"
            )
        return self._nodes[node]

    def _refuse_foreign_data(self) -> None:
        saved = ClusterLayout.load(self._kept / "cluster.json") if self._kept else None
        if self._kept is None or saved is None:
            return
        for id_ in saved.nodes:
            node = Node(id_, saved, self._kept)
            if node.pid() is not None:
                raise node.runs_already()
        if len(saved.nodes) != self.nodes:
            raise StopError(
                f"{self._kept} holds a cluster with --nodes {len(saved.nodes)}, not {self.nodes}: "
                f"give --nodes {len(saved.nodes)}, or choose another --data"
            )

    def _make_data(self) -> None:
        try:
            if self._data is None:
                self._data = Path(tempfile.mkdtemp(prefix="neardup-kafka-"))
            self._data.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StopError(
                f"cannot keep the broker's data in {self._data}: {error.strerror}. "
                "Name another folder with --data"
            ) from error

    def _take(self, layout: ClusterLayout) -> None:
        self._layout = layout
        self._nodes = {id_: Node(id_, layout, self.data) for id_ in layout.nodes}

    def _launch(self, nodes: Collection[Node]) -> None:
        """Start these nodes and wait until they serve; the others that run must know them."""
        assert self._runtime is not None and self._layout is not None
        try:
            self._layout.save(self.data / "cluster.json")
            for node in nodes:
                node.launch(self._runtime)
        except OSError as error:
            raise StopError(f"cannot start a broker in {self.data}: {error.strerror}") from error
        for node in nodes:
            node.go()
        wait_serving(self._nodes.values(), nodes)
