"""One node of the broker: a Java process with its folder, its lock and its log."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from worker.devkit.broker.java import Java
from worker.devkit.broker.layout import LOG4J_PROPERTIES, Layout, is_free, server_properties
from worker.errors import StopError

CLUSTER_ID = "bmVhcmR1cC1sb29wYmFjaw"  # any 16 bytes, base64url without padding
HEAP = ("-Xms128m", "-Xmx512m")
# Not G1, Java's default: until Java 25.0.3 it may move arrays that native code holds, and with them corrupt what zstd
# writes (JDK-8377811). And for such a heap the serial collector is the smaller one.
COLLECTOR = "-XX:+UseSerialGC"

POLL_S = 0.05
END_TIMEOUT_S = 10.0  # a killed process is gone in milliseconds; more means that the machine is stuck
LOCK_TRIES_S = 1.0  # somebody who asks for the state holds the lock for an instant
LOG_LINES_SHOWN = 12
LOG_BYTES_READ = 16 << 10

# The node waits for a line before it does anything, so that its number is on disk and its guard stands before it runs;
# when the starter is gone first, it ends. `exec` makes this process the Java process: one number from first to last.
LAUNCH = """
read -r go || exit 1
exec < /dev/null
meta=$1 java=$2
shift 2
[ -f "$meta" ] || "$java" "$@" $FOR_SHORT kafka.tools.StorageTool format -t "$CLUSTER_ID" -c server.properties || exit 1
exec "$java" "$@" kafka.Kafka server.properties
"""


class Node:
    """
    One node in its folder: `server.properties`, `node.log`, `node.pid` and Kafka's own `data`.

    The running process itself holds a lock on `node.pid`, so the file never names a process that is not the node,
    whoever reads it and whatever happened in between.
    """

    def __init__(self, node: int, layout: Layout, data: Path) -> None:
        self.id = node
        self.port = layout.client_port(node)
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

    def launch(self, java: Java, jars: Sequence[Path]) -> None:
        """
        Start the process; it is formatted first when it is new, and it does not serve yet.

        Raises:
            StopError: it runs already.
        """
        data = self.folder / "data"
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "server.properties").write_text(server_properties(self._layout, self.id, data), encoding="ascii")
        (self.folder / "log4j2.properties").write_text(LOG4J_PROPERTIES, encoding="ascii")
        options = (*HEAP, COLLECTOR, "-Djava.awt.headless=true", "-Dlog4j2.configurationFile=log4j2.properties")
        environment = {
            **os.environ,
            "CLASSPATH": os.pathsep.join(map(str, jars)),
            "CLUSTER_ID": CLUSTER_ID,
            "FOR_SHORT": "-XX:TieredStopAtLevel=1",  # formats in 1.7 s instead of 2.6
            "LC_ALL": "C.UTF-8",  # Java reads paths by the locale
        }
        with self._pid_path.open("a+") as pid_file, self.log_path.open("ab") as log:
            self._lock(pid_file.fileno())
            self._process = subprocess.Popen(  # noqa: S603  # our own script
                ["/bin/sh", "-c", LAUNCH, "node", data / "meta.properties", java.executable, *options],
                cwd=self.folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=[pid_file.fileno()],  # the lock lives as long as the process
                start_new_session=True,  # Ctrl-C is for its starter, who decides in which order things end
            )
            pid_file.truncate(0)
            pid_file.write(f"{self._process.pid}\n")
        self.paused = False

    def go(self) -> None:
        """Let the launched process begin."""
        assert self._process is not None and self._process.stdin is not None, "launch comes first"
        with suppress(BrokenPipeError):  # it has ended by itself: whoever waits for it to serve finds out
            self._process.stdin.write(b"go\n")
            self._process.stdin.close()

    def _lock(self, pid_file: int) -> None:
        deadline = time.monotonic() + LOCK_TRIES_S
        while True:
            try:
                return fcntl.flock(pid_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise StopError(
                        f"a broker runs on {self.folder.parent} already (node {self.id}, process {self.pid()}): "
                        f"end it with `neardup broker stop --data {self.folder.parent}`, or choose another --data"
                    ) from None
                time.sleep(POLL_S)

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

    def wait_ended(self, timeout_s: float) -> bool:
        """Wait until the process and its ports are gone; False when they still are there after the time."""
        deadline = time.monotonic() + timeout_s
        while self.pid() is not None or not is_free(self.port):
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)
        self._forget_pid()
        self.paused = False
        return True

    def log_tail(self) -> str:
        """Return the last lines of the log."""
        try:
            with self.log_path.open("rb") as log:
                log.seek(max(0, self.log_path.stat().st_size - LOG_BYTES_READ))
                lines = log.read().decode("utf-8", "replace").splitlines()
        except FileNotFoundError:
            return ""
        return "\n".join(lines[-LOG_LINES_SHOWN:])
