"""How a cluster is laid out: nodes, ports and the settings that each node starts with."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from worker.devkit.broker.wire import LOOPBACK
from worker.errors import StopError

CLIENT_PORT_DEFAULT = 19_092
CONTROLLER_PORT_STEP = 100  # node i: clients on port + i - 1, controllers on port + 100 + i

# Free ports are taken from below the range that systems give to outgoing connections. From inside it a client that
# keeps trying a killed node could be given that very port as its own, connect to itself, and block the node's return.
FREE_PORT_MIN, FREE_PORT_MAX = 20_000, 32_000
FREE_PORT_TRIES = 1_000

MESSAGE_BYTES_MAX = 8 << 20


@dataclass(frozen=True)
class Extras:
    """
    What tests of security add to every node of a cluster.

    Args:
        listeners: name -> protocol ("SSL", "SASL_SSL", …) of further listeners for clients.
        settings: of the node; they win.
    """

    listeners: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)


NO_EXTRAS = Extras()


@dataclass(frozen=True)
class Layout:
    """The ports of each node; node ids are 1, 2, 3."""

    client_ports: tuple[int, ...]
    controller_ports: tuple[int, ...]
    relayed_ports: tuple[tuple[int, int], ...] = ()
    """Of each node, where it listens a second time, and where clients that came that way are told to find it."""
    extra_ports: tuple[tuple[int, ...], ...] = ()
    """Of each node, the ports of the listeners in `extras`, in their order."""
    extras: Extras = NO_EXTRAS

    @property
    def nodes(self) -> range:
        return range(1, len(self.client_ports) + 1)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{LOOPBACK}:{port}" for port in self.client_ports)

    @property
    def relayed_bootstrap(self) -> str:
        return ",".join(f"{LOOPBACK}:{told}" for _, told in self.relayed_ports)

    def extra_bootstrap(self, listener: str) -> str:
        at = list(self.extras.listeners).index(listener)
        return ",".join(f"{LOOPBACK}:{ports[at]}" for ports in self.extra_ports)

    def client_port(self, node: int) -> int:
        return self.client_ports[node - 1]

    def save(self, path: Path) -> None:
        ports = {"client_ports": self.client_ports, "controller_ports": self.controller_ports}
        temporary = path.with_suffix(".new")  # whoever reads meanwhile finds the old one or the new one
        temporary.write_text(json.dumps(ports) + "\n", encoding="utf-8")
        temporary.replace(path)

    @classmethod
    def load(cls, path: Path) -> Layout | None:
        """Return the saved layout, or None where there is none that can be read."""
        try:
            ports = json.loads(path.read_text(encoding="utf-8"))
            return cls(tuple(map(int, ports["client_ports"])), tuple(map(int, ports["controller_ports"])))
        except (OSError, ValueError, KeyError, TypeError):
            return None


def lay_out(nodes: int, port: int, *, relayed: bool = False, extras: Extras = NO_EXTRAS) -> Layout:
    """
    Choose the ports of `nodes` nodes: from `port` up, or free ones when it is 0.

    Args:
        relayed: each node listens a second time, for clients that reach it through something in between.
        extras: further listeners and settings.

    Raises:
        StopError: a port is in use.
        ValueError: a number of nodes other than 1 or 3, or a port too high.

    >>> layout = lay_out(3, 0)
    >>> len({*layout.client_ports, *layout.controller_ports})
    6
    """
    if nodes not in {1, 3}:
        raise ValueError(f"nodes must be 1 or 3, got {nodes}: a quorum of 2 survives no failure")
    relays = _free_ports(2 * nodes) if relayed else []
    relayed_ports = tuple(zip(relays[:nodes], relays[nodes:], strict=True))
    width = len(extras.listeners)
    further = _free_ports(width * nodes, relays)
    extra_ports = tuple(tuple(further[width * node : width * (node + 1)]) for node in range(nodes))
    if port == 0:
        free = _free_ports(2 * nodes, [*relays, *further])
        return Layout(tuple(free[:nodes]), tuple(free[nodes:]), relayed_ports, extra_ports, extras)
    highest = port + CONTROLLER_PORT_STEP + nodes
    if not 0 < port < highest <= 65_535:
        raise ValueError(f"port must be 0 or leave room for {highest - port} more below 65536, got {port}")
    layout = Layout(
        tuple(port + node for node in range(nodes)),
        tuple(port + CONTROLLER_PORT_STEP + node + 1 for node in range(nodes)),
        relayed_ports,
        extra_ports,
        extras,
    )
    for each in (*layout.client_ports, *layout.controller_ports):
        if not is_free(each):
            raise StopError(
                f"port {each} on {LOOPBACK} is in use: end what listens there, "
                f"or choose another with --port (0 takes free ones)"
            )
    return layout


def is_free(port: int) -> bool:
    """Return whether a server could listen on this loopback port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # closed connections of an earlier broker do not count
        try:
            probe.bind((LOOPBACK, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def _free_ports(count: int, taken: Collection[int] = ()) -> list[int]:
    found: list[int] = []
    for _ in range(FREE_PORT_TRIES if count else 0):
        port = random.randint(FREE_PORT_MIN, FREE_PORT_MAX)  # noqa: S311  # nothing secret
        if port not in found and port not in taken and is_free(port):
            found.append(port)
        if len(found) == count:
            break
    if len(found) == count:
        return found
    raise StopError(f"no {count} free ports on {LOOPBACK} between {FREE_PORT_MIN} and {FREE_PORT_MAX}")


def server_properties(layout: Layout, node: int, log_directory: Path) -> str:
    """
    Return the settings of one node: broker and controller in one process, small, loopback only, 8 MiB messages.

    Internal topics and new topics have three replicas, two of them in sync, on three nodes; one on one.

    Raises:
        StopError: the path holds a comma, which Kafka takes for the end of it.
    """
    if "," in str(log_directory):
        raise StopError(f"Kafka cannot keep data in a directory with a comma in its path: {log_directory}")
    nodes = len(layout.client_ports)
    replicas, in_sync = (3, 2) if nodes == 3 else (1, 1)
    client, controller = layout.client_port(node), layout.controller_ports[node - 1]
    voters = ",".join(
        f"{id_}@{LOOPBACK}:{port}" for id_, port in zip(layout.nodes, layout.controller_ports, strict=True)
    )
    listeners = {"PLAINTEXT": (client, client)}
    if layout.relayed_ports:
        listeners["RELAYED"] = layout.relayed_ports[node - 1]
    protocols = dict.fromkeys(("CONTROLLER", *listeners), "PLAINTEXT") | dict(layout.extras.listeners)
    for name, port in zip(layout.extras.listeners, (layout.extra_ports or ((),) * nodes)[node - 1], strict=True):
        listeners[name] = port, port
    settings = {
        "process.roles": "broker,controller",
        "node.id": node,
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
        "listeners": ",".join(
            [f"{name}://{LOOPBACK}:{own}" for name, (own, _) in listeners.items()]
            + [f"CONTROLLER://{LOOPBACK}:{controller}"]
        ),
        "advertised.listeners": ",".join(f"{name}://{LOOPBACK}:{told}" for name, (_, told) in listeners.items()),
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        "log.dirs": log_directory,
        "auto.create.topics.enable": "false",
        "num.partitions": 1,
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "offsets.topic.num.partitions": 3,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "transaction.state.log.num.partitions": 3,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        "group.initial.rebalance.delay.ms": 0,
        "group.min.session.timeout.ms": 1_000,
        "transaction.max.timeout.ms": 900_000,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1_000,
        "message.max.bytes": MESSAGE_BYTES_MAX,
        "replica.fetch.max.bytes": MESSAGE_BYTES_MAX,
        "num.network.threads": 2,
        "num.io.threads": 4,
        "num.recovery.threads.per.data.dir": 1,
        "log.retention.check.interval.ms": 5_000,
        "log.segment.bytes": 128 << 20,
        "log.cleaner.dedupe.buffer.size": 16 << 20,
        # A killed node may register again, and its partitions get another leader, only when its session has run out.
        # Kafka's 9 s make every test that kills a node wait; less than 5 s would fence nodes of a busy machine.
        "broker.session.timeout.ms": 5_000,
        "broker.heartbeat.interval.ms": 1_000,
        "controlled.shutdown.enable": "true",
        "unclean.leader.election.enable": "false",
        **layout.extras.settings,
    }
    return "".join(f"{name}={escape_property(str(value))}\n" for name, value in settings.items())


def escape_property(value: str) -> str:
    r"""
    Write a value for a Java properties file, which is Latin-1 with \uXXXX escapes.

    >>> print(escape_property("/data/déjà vu"))
    /data/d\u00e9j\u00e0 vu
    """
    units = value.encode("utf-16-be")
    codes = (int.from_bytes(units[i : i + 2], "big") for i in range(0, len(units), 2))
    return "".join(chr(code) if 0x20 <= code < 0x7F and code != 0x5C else f"\\u{code:04x}" for code in codes)


LOG4J_PROPERTIES = """\
status=error
rootLogger.level=warn
rootLogger.appenderRef.console.ref=CONSOLE
appender.console.type=Console
appender.console.name=CONSOLE
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d %p %c %m%n
logger.server.name=kafka.server.KafkaRaftServer
logger.server.level=info
"""
