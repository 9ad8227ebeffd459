"""A real Kafka of one and three nodes: it serves, nodes die and come back, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from tests.conftest import REPOSITORY, eventually
from worker.cli import app
from worker.devkit.broker import EmbeddedKafka, Runtime
from worker.devkit.broker.cluster import is_free

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def test_a_context_leaves_nothing_behind(broker_runtime: Runtime) -> None:
    """After the block no process, no port and no file; an exception in the block changes nothing."""
    with pytest.raises(ZeroDivisionError), EmbeddedKafka(runtime=broker_runtime) as kafka:
        data, port, pids = kafka.data, kafka.states()[0].port, processes_in(kafka.data)
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


def test_nothing_outlives_a_killed_owner(broker_runtime: Runtime) -> None:
    """SIGKILL of the process that started a node ends it, frees its port and removes its data."""
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) as owner:
        assert owner.stdout is not None
        folder, bootstrap = owner.stdout.readline().split()
        data, ports = Path(folder), [int(address.rpartition(":")[2]) for address in bootstrap.split(",")]
        assert len(processes_in(data)) == 2
        owner.kill()
    eventually(lambda: not processes_in(data) and all(map(is_free, ports)) and not data.exists())


def test_a_start_that_is_interrupted_leaves_nothing(broker_runtime: Runtime, tmp_path: Path) -> None:
    """Ctrl-C while the node starts: no process and no data stay, though the owner goes on."""
    # Whoever starts the tests in the background may have them ignore Ctrl-C; the owner must not inherit that.
    script = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n" + OWNER
    script = script.replace("kafka.start()", "try:\n    kafka.start()\nexcept KeyboardInterrupt:\n    pass")
    script = script.replace("print(kafka.data, kafka.bootstrap, flush=True)", "print('ended', flush=True)")
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY, env=environment) as owner:
        eventually(lambda: len(psutil.Process(owner.pid).children(recursive=True)) >= 2)
        owner.send_signal(signal.SIGINT)
        assert owner.stdout is not None
        try:
            assert owner.stdout.readline() == "ended\n"
            eventually(lambda: not running_children(owner.pid))
        finally:
            owner.kill()
    assert list(tmp_path.iterdir()) == []


def test_the_commands_start_break_mend_and_end_a_broker(broker_runtime: Runtime, tmp_path: Path) -> None:
    """start, status, kill, up, stop: the broker outlives each command, keeps its data, and stop ends it."""
    data = tmp_path / "données du courtier"  # a path that Java must be told how to read

    def apart(*arguments: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "worker", "broker", *arguments, "--data", str(data)]
        answer = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
        return answer.returncode, answer.stdout + answer.stderr

    def neardup(*arguments: str) -> tuple[int, str]:
        answer = CliRunner().invoke(app, ["broker", *arguments, "--data", str(data)])
        return answer.exit_code, answer.stdout + str(answer.exception or "")

    try:
        code, said = apart("start", "--port", "0")
        assert (code, said.split(" at ")[0]) == (0, "Apache Kafka serves")
        eventually(lambda: neardup("status")[0] == 0)
        code, said = neardup("start", "--port", "0")
        assert (code, "neardup broker stop" in said) == (1, True)
        assert neardup("kill", "1") == (0, "node 1 killed\n")
        assert neardup("status")[0] == 1
        assert neardup("kill", "2")[0] == 2
        assert apart("up") == (0, "node 1 serves\n")  # the only one
    finally:
        code, said = neardup("stop")
    assert (code, said.split(",")[0]) == (0, "1 node ended")
    assert processes_in(data) == []
    assert (data / "node-1" / "data" / "meta.properties").is_file()


def running_children(pid: int) -> list[psutil.Process]:
    """The children that have not ended; one that was cut short while it was started has ended, but nobody asked how."""
    children = psutil.Process(pid).children(recursive=True)
    return [child for child in children if child.status() != psutil.STATUS_ZOMBIE]


def processes_in(data: Path) -> list[int]:
    """The processes that work in this folder or carry its name."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE and str(data) in " ".join([process.cwd(), *process.cmdline()]):
                found.append(process.pid)
    return found
